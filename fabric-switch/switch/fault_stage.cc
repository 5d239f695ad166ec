// SPDX-License-Identifier: GPL-2.0-or-later
// Fault injection. All random numbers of a packet are drawn in the same order, so that a sequence
// depends only on the seed and the packets, not on the clock.
#include "switch/fault_stage.h"

#include <algorithm>
#include <utility>

#include "base/mad_packets.h"
#include "ib/wire/headers.h"

namespace pib::fabric {
namespace {

constexpr uint64_t kNever = UINT64_MAX;
// A packet held back for reordering is released after this time if too few packets pass it.
constexpr uint64_t kMaxHoldBackNs = 20'000'000;
constexpr size_t kMaxHeld = 65'536;
constexpr size_t kCrcBytes = 6;

std::optional<uint8_t> bth_opcode(std::span<const uint8_t> bytes) {
    const bool global = (bytes[1] & 0x3) == static_cast<unsigned>(ib::Lnh::kIbaGlobal);
    const size_t offset = ib::Lrh::kSize + (global ? ib::Grh::kSize : 0);
    return offset < bytes.size() ? std::optional(bytes[offset]) : std::nullopt;
}

// AttributeID of a MAD (IBA 13.4.3); no value for other packets.
std::optional<uint16_t> mad_attribute(std::span<const uint8_t> bytes) {
    const auto view = ib::PacketView::parse(bytes, ib::Crcs::kElided);
    for (const ib::Qpn qpn : {ib::kQp0, ib::kQp1}) {
        if (const auto mad = view ? mad_of(*view, qpn) : std::nullopt) {
            return mad->attribute_id();
        }
    }
    return std::nullopt;
}

}  // namespace

void FaultStage::set(const FaultSpec& spec) {
    State& state = state_.make();
    state.spec = spec;
    state.counts = {};
    state.random = spec.seed;
    state.active = spec.any();
}

// SplitMix64: small, random enough for faults, and the same on every platform.
uint64_t FaultStage::random() {
    uint64_t z = state_.make().random += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

bool FaultStage::chance(double probability) {
    return static_cast<double>(random() >> 11) * 0x1.0p-53 < probability;
}

bool FaultStage::applies(std::span<const uint8_t> bytes, unsigned vl) const {
    const FaultSpec& spec = state_->spec;
    if (!state_->active || (vl == 15 && !spec.vl15)) {
        return false;
    }
    if (spec.opcode && bth_opcode(bytes) != spec.opcode) {
        return false;
    }
    if (!spec.mads_only && !spec.attribute) {
        return true;
    }
    const auto attribute = mad_attribute(bytes);
    return attribute && (!spec.attribute || attribute == spec.attribute);
}

void FaultStage::pass(Transit& packet, unsigned vl, uint64_t now_ns) {
    if (!applies(packet.settled(), vl)) {
        sink_.deliver(packet, vl, std::nullopt);
        let_pass_held_back(now_ns);
        return;
    }
    State& state = state_.make();
    const FaultSpec& spec = state.spec;
    ++state.counts.seen;
    const bool drop = chance(spec.drop);
    const bool duplicate = chance(spec.duplicate);
    const bool reorder = chance(spec.reorder);
    const bool corrupt = chance(spec.corrupt);
    const uint64_t where = random();
    if (drop) {
        ++state.counts.dropped;
        return;
    }
    std::optional<uint32_t> damage;
    if (corrupt) {
        ++state.counts.corrupted;
        // Spares the packet's first byte, because it has the VL, whose credits both ends count.
        const uint64_t bits = (packet.bytes().size() + kCrcBytes - 1) * 8;
        damage = static_cast<uint32_t>(8 + where % bits);
    }
    if (duplicate) {
        ++state.counts.duplicated;
        send_on(packet, vl, std::nullopt, now_ns);
    }
    if (reorder && state.held_back.size() < kMaxHeld) {
        ++state.counts.reordered;
        const auto depth =
            1 + static_cast<unsigned>((where >> 32) % std::max(spec.reorder_depth, 1U));
        state.held_back.push_back(
            {packet.hold(), now_ns + kMaxHoldBackNs, state.serial++, vl, depth, damage});
        return;
    }
    send_on(packet, vl, damage, now_ns);
    let_pass_held_back(now_ns);
}

void FaultStage::send_on(Transit& packet, unsigned vl, const std::optional<uint32_t>& damage,
                         uint64_t now_ns) {
    State& state = state_.make();
    uint64_t delay = state.spec.delay_ns;
    if (state.spec.jitter_ns != 0) {
        delay += random() % (state.spec.jitter_ns + 1);
    }
    if (delay == 0 || state.delayed.size() >= kMaxHeld) {
        sink_.deliver(packet, vl, damage);
        return;
    }
    ++state.counts.delayed;
    state.delayed.push({packet.hold(), now_ns + delay, state.serial++, vl, 0, damage});
}

void FaultStage::deliver(Held held) {
    Transit packet(pool_, std::move(held.packet));
    sink_.deliver(packet, held.vl, held.damage);
}

// Call when a packet has passed those that are held back: releases the ones that enough packets
// have passed, or that have waited for kMaxHoldBackNs.
void FaultStage::let_pass_held_back(uint64_t now_ns) {
    std::vector<Held>& held_back = state_.make().held_back;
    for (size_t i = 0; i < held_back.size();) {
        Held& held = held_back[i];
        held.passes_left -= held.passes_left != 0 ? 1 : 0;
        if (held.passes_left != 0 && held.due_ns > now_ns) {
            ++i;
            continue;
        }
        Held ready = std::move(held);
        held_back.erase(held_back.begin() + static_cast<ptrdiff_t>(i));
        deliver(std::move(ready));
    }
}

void FaultStage::advance(uint64_t now_ns) {
    if (!holds()) {
        return;
    }
    State& state = state_.make();
    while (!state.delayed.empty() && state.delayed.top().due_ns <= now_ns) {
        Held held = state.delayed.top();
        state.delayed.pop();
        deliver(std::move(held));
    }
    std::vector<Held>& held_back = state.held_back;
    for (size_t i = 0; i < held_back.size();) {
        if (held_back[i].due_ns > now_ns) {
            ++i;
            continue;
        }
        Held ready = std::move(held_back[i]);
        held_back.erase(held_back.begin() + static_cast<ptrdiff_t>(i));
        deliver(std::move(ready));
    }
}

uint64_t FaultStage::next_deadline() const {
    if (!holds()) {
        return kNever;
    }
    const auto& delayed = state_->delayed;
    uint64_t next = delayed.empty() ? kNever : delayed.top().due_ns;
    for (const Held& held : state_->held_back) {
        next = std::min(next, held.due_ns);
    }
    return next;
}

void FaultStage::clear() {
    if (holds()) {
        state_.make().held_back.clear();
        state_.make().delayed = {};
    }
}

}  // namespace pib::fabric
