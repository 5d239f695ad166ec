// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/peer_copy.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace pib::hca {

namespace {

link::PeerCopyControl& control_of(const PeerCopyMemory& memory) {
    return *reinterpret_cast<link::PeerCopyControl*>(memory.control);
}

}  // namespace

PeerCopy::Shared::Shared(const PeerCopyMemory& memory)
    : control(control_of(memory)),
      pages(memory.blocks, memory.control + link::kBitmapsOffset),
      offers(control) {}

PeerCopy::PeerCopy(Host& host, Mpt& mpt, uint32_t min_bytes)
    : host_(host), mpt_(mpt), min_bytes_(min_bytes) {
    mpt_.set_watch(this);
}

PeerCopy::~PeerCopy() {
    mpt_.set_watch(nullptr);
}

void PeerCopy::attach(unsigned port, const PeerCopyMemory& memory) {
    ports_[port - 1].shared = std::make_unique<Shared>(memory);
    refresh(*ports_[port - 1].shared);
}

void PeerCopy::detach(unsigned port) {
    ports_[port - 1].shared.reset();
    ports_[port - 1].to_guest = false;
    ports_[port - 1].cancelled = 0;
}

// ---- registered pages

void PeerCopy::count(Shared& shared, const MemoryRegion& region, bool comes) {
    if (region.is_physical()) {
        shared.physical_regions += comes ? 1 : -1;
        shared.control.flags.store(
            shared.physical_regions != 0 ? link::PeerCopyControl::kAllRegistered : 0,
            std::memory_order_release);
    }
    const GuestBuffer* pages = region.pages();
    if (pages == nullptr) {
        return;
    }
    const auto change = [&](uint8_t* at, uint64_t bus_addr, uint64_t n) {
        if (at != nullptr) {
            const HostSegment whole{at, bus_addr, n};
            comes ? shared.pages.add(whole) : shared.pages.remove(whole);
        }
        return true;
    };
    (void)pages->for_each_piece(host_, region.page_offset, region.length, change);
}

// Page numbers depend on the memory map, so all pages are counted again after a change of the map.
void PeerCopy::refresh(Shared& shared) {
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

void PeerCopy::region_added(const MemoryRegion& region) {
    for_each_shared([&](PortState&, Shared& shared) {
        // If the generation is old, the next refresh() counts this region with all others.
        if (shared.generation == host_.ram_generation()) {
            count(shared, region, true);
        }
    });
}

void PeerCopy::region_removed(const MemoryRegion& region) {
    for_each_shared([&](PortState&, Shared& shared) {
        refresh(shared);
        count(shared, region, false);
    });
}

void PeerCopy::key_revoked(uint32_t number) {
    for_each_shared([&](PortState& port, Shared& shared) {
        if (port.to_guest && port.keys.has(number)) {
            port.cancel();
        }
        shared.offers.end_if([&](const OfferOwner& owner) { return owner.keys.has(number); });
    });
    may_be_busy_ = true;
}

void PeerCopy::keys_cleared() {
    revoke_all();
    for_each_shared([&](PortState&, Shared& shared) {
        shared.pages.clear();
        shared.physical_regions = 0;
        shared.control.flags.store(0, std::memory_order_release);
    });
}

// ---- pulls

void PeerCopy::PortState::cancel() {
    to_guest = false;
    if (link->pulling()) {
        link->cancel_pull();
        cancelled = pulls;
    }
}

// A cancelled pull has ended if the link pulls no more, or if a later pull has begun.
bool PeerCopy::PortState::is_busy() {
    if (cancelled != 0 && (cancelled != pulls || !link->pulling())) {
        cancelled = 0;
    }
    return cancelled != 0 || (shared && shared->offers.being_read());
}

// Closes the link only of a switch that still writes. Packets whose payload the switch still reads
// are lost: the switch checks the slot after each part (docs/fabric-protocol.md, "Peer copy").
void PeerCopy::PortState::give_up() {
    if (shared) {
        shared->offers.drop_reader();
    }
    if (is_busy()) {
        cancelled = 0;
        link->give_up();
    }
}

bool PeerCopy::is_busy() {
    may_be_busy_ = may_be_busy_ && std::ranges::any_of(ports_, &PortState::is_busy);
    if (!may_be_busy_) [[likely]] {
        wait_ = {};
    }
    return may_be_busy_;
}

bool PeerCopy::settled() {
    if (!is_busy()) [[likely]] {
        return true;
    }
    const uint64_t now = host_.real_ns();
    wait_.waited_ns += std::min(now - wait_.looked_ns.value_or(now), kPullStepNs);
    wait_.looked_ns = now;
    if (wait_.waited_ns < kPullTimeoutNs) {
        return false;
    }
    std::ranges::for_each(ports_, &PortState::give_up);
    wait_ = {};
    return true;
}

bool PeerCopy::translate(Shared& shared, const SgList& sg_list,
                         std::vector<link::BlockSegment>& out) {
    refresh(shared);
    out.clear();
    if (sg_list.by_bus_address && shared.physical_regions == 0) {
        return false;
    }
    return std::ranges::all_of(
               sg_list.segments,
               [&](const HostSegment& segment) { return shared.pages.translate(segment, out); }) &&
           out.size() <= link::kMaxSegments;
}

bool PeerCopy::begin_pull(unsigned port, uint32_t qpn, const SgList& sg_list,
                          std::vector<link::BlockSegment>& where) {
    PortState& state = ports_[port - 1];
    if (!state.shared || !translate(*state.shared, sg_list, where)) {
        return false;
    }
    state.to_guest = true;
    ++state.pulls;
    state.qpn = qpn;
    state.keys = sg_list.keys;
    return true;
}

bool PeerCopy::end_pull(unsigned port, const SgList& sg_list,
                        std::span<const link::BlockSegment> where) {
    PortState& state = ports_[port - 1];
    // The target must translate as at the start of the pull: the guest may have changed its memory
    // map meanwhile.
    if (!std::exchange(state.to_guest, false) || !state.shared ||
        !translate(*state.shared, sg_list, segments_) || !std::ranges::equal(segments_, where)) {
        return false;
    }
    for (const HostSegment& segment : sg_list.segments) {
        host_.ram_written(segment.bus_addr, segment.length);
    }
    return true;
}

// ---- offers

std::optional<link::OfferedPayload> PeerCopy::open(unsigned port, const SgList& sg_list,
                                                   const OfferOwner& owner) {
    PortState& state = ports_[port - 1];
    if (!state.shared || !translate(*state.shared, sg_list, segments_)) {
        return std::nullopt;
    }
    const uint64_t handle = state.shared->offers.open(owner);
    return handle != 0 ? std::optional(link::OfferedPayload{handle, segments_}) : std::nullopt;
}

void PeerCopy::close(unsigned port, uint64_t handle) {
    if (PortState& state = ports_[port - 1]; state.shared) {
        state.shared->offers.end(handle);
        may_be_busy_ = true;
    }
}

bool PeerCopy::acknowledged(uint32_t qpn, ib::Psn una) {
    bool more = false;
    for_each_shared([&](PortState&, Shared& shared) {
        shared.offers.end_if([&](const OfferOwner& owner) {
            const bool mine = owner.qpn == qpn && !owner.response;
            const bool done = mine && una.distance_from(owner.end) >= 0;
            more = more || (mine && !done);
            return done;
        });
    });
    may_be_busy_ = true;
    return more;
}

void PeerCopy::revoke_requests(uint32_t qpn) {
    for_each_shared([&](PortState&, Shared& shared) {
        shared.offers.end_if(
            [&](const OfferOwner& owner) { return owner.qpn == qpn && !owner.response; });
    });
    may_be_busy_ = true;
}

void PeerCopy::revoke_qp(uint32_t qpn) {
    for_each_shared([&](PortState& port, Shared& shared) {
        if (port.to_guest && port.qpn == qpn) {
            port.cancel();
        }
        shared.offers.end_if([&](const OfferOwner& owner) { return owner.qpn == qpn; });
    });
    may_be_busy_ = true;
}

void PeerCopy::revoke_all() {
    for_each_shared([&](PortState& port, Shared& shared) {
        if (port.to_guest) {
            port.cancel();
        }
        shared.offers.end_if([](const OfferOwner&) { return true; });
    });
    may_be_busy_ = true;
}

}  // namespace pib::hca
