// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/one_copy.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace pib::hca {

namespace {

link::OneCopyControl& control_of(const OneCopyMemory& memory) {
    return *reinterpret_cast<link::OneCopyControl*>(memory.control);
}

}  // namespace

OneCopy::Shared::Shared(const OneCopyMemory& memory)
    : control(control_of(memory)),
      pages(memory.blocks, memory.control + link::kBitmapsOffset),
      references(control) {}

OneCopy::OneCopy(Host& host, Mpt& mpt, uint32_t min_bytes)
    : host_(host), mpt_(mpt), min_bytes_(min_bytes) {
    mpt_.set_watch(this);
}

OneCopy::~OneCopy() {
    mpt_.set_watch(nullptr);
}

void OneCopy::attach(unsigned port, const OneCopyMemory& memory) {
    ports_[port - 1].shared = std::make_unique<Shared>(memory);
    refresh(*ports_[port - 1].shared);
}

void OneCopy::detach(unsigned port) {
    ports_[port - 1].shared.reset();
    ports_[port - 1].to_guest = false;
    ports_[port - 1].cancelled = 0;
}

// ---- registered pages

void OneCopy::count(Shared& shared, const MemoryRegion& region, bool comes) {
    if (region.is_physical()) {
        shared.physical_regions += comes ? 1 : -1;
        shared.control.flags.store(
            shared.physical_regions != 0 ? link::OneCopyControl::kAllRegistered : 0,
            std::memory_order_release);
    }
    const GuestBuffer* pages = region.pages();
    if (pages == nullptr) {
        return;
    }
    const auto piece = [&](uint8_t* at, uint64_t bus_addr, uint64_t n) {
        if (at != nullptr) {
            const HostPiece whole{at, bus_addr, n};
            comes ? shared.pages.add(whole) : shared.pages.remove(whole);
        }
        return true;
    };
    (void)pages->for_each_piece(host_, region.page_offset, region.length, piece);
}

// Page numbers depend on the memory map, so after a change all pages are counted again.
void OneCopy::refresh(Shared& shared) {
    if (shared.generation == host_.ram_generation()) {
        return;
    }
    shared.generation = host_.ram_generation();
    shared.pages.clear();
    shared.physical_regions = 0;
    shared.control.flags.store(0, std::memory_order_release);
    mpt_.visit([&](uint32_t, const auto& entry) {
        if constexpr (std::is_same_v<std::decay_t<decltype(entry)>, MemoryRegion>) {
            count(shared, entry, true);
        }
    });
}

void OneCopy::region_comes(const MemoryRegion& region) {
    for_each_shared([&](PortState&, Shared& shared) {
        // With an old generation, the next refresh() counts it with all others.
        if (shared.generation == host_.ram_generation()) {
            count(shared, region, true);
        }
    });
}

void OneCopy::region_goes(const MemoryRegion& region) {
    for_each_shared([&](PortState&, Shared& shared) {
        refresh(shared);
        count(shared, region, false);
    });
}

void OneCopy::key_goes(uint32_t number) {
    for_each_shared([&](PortState& port, Shared& shared) {
        if (port.to_guest && port.keys.has(number)) {
            port.cancel();
        }
        shared.references.end_if(
            [&](const ReferenceOwner& owner) { return owner.keys.has(number); });
    });
    wait_unless_deferred();
}

void OneCopy::keys_cleared() {
    stop_all();
    for_each_shared([&](PortState&, Shared& shared) {
        shared.pages.clear();
        shared.physical_regions = 0;
        shared.control.flags.store(0, std::memory_order_release);
    });
}

// ---- pulls

void OneCopy::PortState::cancel() {
    to_guest = false;
    if (link->pulling()) {
        link->cancel_pull();
        cancelled = pulls;
    }
}

// The cancelled pull has also ended if a later one has begun.
bool OneCopy::PortState::is_busy() {
    if (cancelled != 0 && (cancelled != pulls || !link->pulling())) {
        cancelled = 0;
    }
    return cancelled != 0 || (shared && shared->references.being_read());
}

// Does not close the link for a switch that still reads, because the caller may be a handler of
// that link.
void OneCopy::PortState::give_up() {
    if (shared) {
        shared->references.forget_reader();
    }
    if (is_busy()) {
        cancelled = 0;
        link->give_up();
    }
}

bool OneCopy::settled() {
    if (std::ranges::none_of(ports_, &PortState::is_busy)) [[likely]] {
        until_ns_ = 0;
        return true;
    }
    const uint64_t now = host_.real_ns();
    if (until_ns_ == 0) {
        until_ns_ = now + kPatienceNs;
    }
    if (now <= until_ns_) {
        return false;
    }
    std::ranges::for_each(ports_, &PortState::give_up);
    until_ns_ = 0;
    return true;
}

void OneCopy::wait() {
    while (!settled()) {
        host_.relax();
    }
}

void OneCopy::wait_unless_deferred() {
    if (deferrals_ == 0) {
        wait();
    }
}

bool OneCopy::translate(Shared& shared, const Located& located, std::vector<link::RamPiece>& out) {
    refresh(shared);
    out.clear();
    if (located.by_bus_address && shared.physical_regions == 0) {
        return false;
    }
    return std::ranges::all_of(
               located.pieces,
               [&](const HostPiece& piece) { return shared.pages.translate(piece, out); }) &&
           out.size() <= ib::link::kMaxPieces;
}

bool OneCopy::begin_pull(unsigned port, uint32_t qpn, const Located& located,
                         std::vector<link::RamPiece>& where) {
    PortState& state = ports_[port - 1];
    if (!state.shared || !translate(*state.shared, located, where)) {
        return false;
    }
    state.to_guest = true;
    ++state.pulls;
    state.qpn = qpn;
    state.keys = located.keys;
    return true;
}

bool OneCopy::end_pull(unsigned port, const Located& located,
                       std::span<const link::RamPiece> where) {
    PortState& state = ports_[port - 1];
    // After a change of the generation the guest may have changed the memory meanwhile.
    if (!std::exchange(state.to_guest, false) || !state.shared ||
        !translate(*state.shared, located, pieces_) || !std::ranges::equal(pieces_, where)) {
        return false;
    }
    for (const HostPiece& piece : located.pieces) {
        host_.ram_written(piece.bus_addr, piece.length);
    }
    return true;
}

// ---- references

std::optional<OneCopy::Reference> OneCopy::open(unsigned port, const Located& located,
                                                const ReferenceOwner& owner) {
    PortState& state = ports_[port - 1];
    if (!state.shared || !translate(*state.shared, located, pieces_)) {
        return std::nullopt;
    }
    const uint64_t handle = state.shared->references.open(owner);
    return handle != 0 ? std::optional(Reference{handle, pieces_}) : std::nullopt;
}

void OneCopy::close(unsigned port, uint64_t handle) {
    if (PortState& state = ports_[port - 1]; state.shared) {
        state.shared->references.end(handle);
        wait_unless_deferred();
    }
}

bool OneCopy::acknowledged(uint32_t qpn, ib::Psn una) {
    bool more = false;
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if([&](const ReferenceOwner& owner) {
            const bool mine = owner.qpn == qpn && !owner.response;
            const bool done = mine && una.distance_from(owner.end) >= 0;
            more = more || (mine && !done);
            return done;
        });
    });
    wait_unless_deferred();
    return more;
}

void OneCopy::forget_requests(uint32_t qpn) {
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if(
            [&](const ReferenceOwner& owner) { return owner.qpn == qpn && !owner.response; });
    });
    wait_unless_deferred();
}

void OneCopy::qp_goes(uint32_t qpn) {
    for_each_shared([&](PortState& port, Shared& shared) {
        if (port.to_guest && port.qpn == qpn) {
            port.cancel();
        }
        shared.references.end_if([&](const ReferenceOwner& owner) { return owner.qpn == qpn; });
    });
    wait_unless_deferred();
}

void OneCopy::stop_all() {
    for_each_shared([&](PortState& port, Shared& shared) {
        if (port.to_guest) {
            port.cancel();
        }
        shared.references.end_if([](const ReferenceOwner&) { return true; });
    });
    wait();
}

}  // namespace pib::hca
