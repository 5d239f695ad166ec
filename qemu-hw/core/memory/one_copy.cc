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

OneCopy::Shared::Shared(Host& host, const OneCopyMemory& memory)
    : control(control_of(memory)),
      pages(memory.blocks, memory.control + link::kBitmapsOffset),
      references(host, control) {}

OneCopy::OneCopy(Host& host, Mpt& mpt, uint32_t min_bytes)
    : host_(host), mpt_(mpt), min_bytes_(min_bytes) {
    mpt_.set_watch(this);
}

OneCopy::~OneCopy() {
    mpt_.set_watch(nullptr);
}

void OneCopy::attach(unsigned port, const OneCopyMemory& memory) {
    ports_[port - 1].shared = std::make_unique<Shared>(host_, memory);
    refresh(*ports_[port - 1].shared);
}

void OneCopy::detach(unsigned port) {
    ports_[port - 1].shared.reset();
    ports_[port - 1].to_guest = false;
}

// ---- registered pages

void OneCopy::count(Shared& shared, const MemoryRegion& region, bool comes) {
    if (region.physical) {
        shared.physical_regions += comes ? 1 : -1;
        shared.control.flags.store(
            shared.physical_regions != 0 ? link::OneCopyControl::kAllRegistered : 0,
            std::memory_order_release);
    }
    if (region.physical || region.on_demand || !region.valid) {
        return;
    }
    const auto piece = [&](uint8_t* at, uint64_t bus_addr, uint64_t n) {
        if (at != nullptr) {
            const HostPiece whole{at, bus_addr, n};
            comes ? shared.pages.add(whole) : shared.pages.remove(whole);
        }
        return true;
    };
    (void)region.buffer.for_each_piece(host_, region.page_offset, region.length, piece);
}

// Page numbers depend on the memory map, so a new map requires a new count of all pages.
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
        // Otherwise the next use counts it with all others.
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
    Patience patience;
    for_each_shared([&](PortState& port, Shared&) {
        if (port.to_guest && port.keys.has(number)) {
            settle(port, patience);
        }
    });
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if(
            patience, [&](const ReferenceOwner& owner) { return owner.keys.has(number); });
    });
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

void OneCopy::settle(PortState& port, Patience& patience) {
    port.to_guest = false;
    if (!port.link->pulling()) {
        return;
    }
    port.link->cancel_pull();
    if (!wait_while(host_, patience, [&] { return port.link->pulling(); })) {
        port.link->give_up();
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
    state.qpn = qpn;
    state.keys = located.keys;
    return true;
}

bool OneCopy::end_pull(unsigned port, const Located& located,
                       std::span<const link::RamPiece> where) {
    PortState& state = ports_[port - 1];
    // Otherwise the guest may have changed the memory in between.
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
    }
}

bool OneCopy::acknowledged(uint32_t qpn, ib::Psn una) {
    Patience patience;
    bool more = false;
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if(patience, [&](const ReferenceOwner& owner) {
            const bool mine = owner.qpn == qpn && !owner.response;
            const bool done = mine && una.distance_from(owner.end) >= 0;
            more = more || (mine && !done);
            return done;
        });
    });
    return more;
}

void OneCopy::forget_requests(uint32_t qpn) {
    Patience patience;
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if(patience, [&](const ReferenceOwner& owner) {
            return owner.qpn == qpn && !owner.response;
        });
    });
}

void OneCopy::qp_goes(uint32_t qpn) {
    Patience patience;
    for_each_shared([&](PortState& port, Shared&) {
        if (port.to_guest && port.qpn == qpn) {
            settle(port, patience);
        }
    });
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if(patience,
                                 [&](const ReferenceOwner& owner) { return owner.qpn == qpn; });
    });
}

void OneCopy::stop_all() {
    Patience patience;
    for_each_shared([&](PortState& port, Shared&) {
        if (port.to_guest) {
            settle(port, patience);
        }
    });
    for_each_shared([&](PortState&, Shared& shared) {
        shared.references.end_if(patience, [](const ReferenceOwner&) { return true; });
    });
}

}  // namespace pib::hca
