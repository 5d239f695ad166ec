// SPDX-License-Identifier: GPL-2.0-or-later
// The configuration that a user chooses for a device, and the limits of every device. Both are
// plain values, which are copied.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/adversary.h"
#include "base/table.h"

namespace pib::hca {

inline constexpr unsigned kMaxPorts = 4;
inline constexpr unsigned kMaxVectors = 64;

// Whether the device checks rules for drivers that devices need not check (docs/observability.md,
// Strict).
enum class Strictness : uint8_t {
    kOff,
    kOn,     // reports broken rules
    kFatal,  // reports them and stops the device
};

// Kinds of trace entries that are off by default, because a driver causes many of them.
struct TraceKinds {
    bool registers = false;   // accesses to registers and doorbells
    bool dma = false;         // accesses to guest memory
    bool interrupts = false;  // EQEs and MSI-X messages
    [[nodiscard]] bool any() const { return registers || dma || interrupts; }
};

// Test knobs: legal but rare behaviour, to test applications (docs/observability.md). All are off
// by default.
struct TestKnobs {
    bool inject = false;       // INJECT_EVENT is offered
    bool poison_wc = false;    // undefined fields of a CQE get conspicuous values
    bool shuffle_srq = false;  // SRQs supply their WQEs in random order
    bool warnings = false;     // legal but doubtful use is logged
    NumberChoice qpn_choice = NumberChoice::kRound;
    NumberChoice number_choice = NumberChoice::kRound;  // for objects other than QPs
    Strictness strict = Strictness::kOff;
    AdversaryPlan adversary;  // kinds of adversarial behaviour, with their seed

    // These knobs, and in addition those that belong to the chosen kinds of adversarial behaviour.
    TestKnobs joined() const;
};

inline TestKnobs TestKnobs::joined() const {
    TestKnobs knobs = *this;
    const auto plays = [&](Adversity kind) {
        return (adversary.kinds & AdversaryPlan::bit(kind)) != 0;
    };
    knobs.poison_wc |= plays(Adversity::kWrites);
    knobs.shuffle_srq |= plays(Adversity::kFetches);
    if (plays(Adversity::kNumbers)) {
        knobs.number_choice = NumberChoice::kLowest;
        if (qpn_choice == NumberChoice::kRound) {
            knobs.qpn_choice = NumberChoice::kLowest;
        }
    }
    return knobs;
}

struct Config {
    uint32_t port_count = 1;
    uint32_t vector_count = 9;  // one async vector, eight completion vectors
    uint64_t node_guid = 0;
    std::array<uint64_t, kMaxPorts> port_guids{};
    std::string node_description;        // at most 63 bytes
    uint8_t link_width = 2;              // PortInfo:LinkWidthSupported bits
    uint8_t link_speed = 7;              // PortInfo:LinkSpeedSupported bits
    uint8_t link_speed_ext = 0x0f;       // PortInfo:LinkSpeedExtSupported bits
    uint8_t mtu_cap = 5;                 // PortInfo:MTUCap encoding, 4096 bytes
    uint8_t vl_cap = 4;                  // PortInfo:VLCap encoding, 8 data VLs
    uint32_t device_memory_pages = 256;  // pages of 4 KiB in BAR2
    bool shadow_doorbells = false;       // SET_SHADOW_PAGE is offered
    bool bursts = true;                  // several packets in one frame, if the switch agrees
    bool peer_copy = false;              // peer copy, if the switch agrees
    uint32_t trace_entries = 0;          // most entries that the trace keeps; 0: no trace
    TraceKinds trace_kinds;
    TestKnobs knobs;
};

// Limits that QUERY_DEVICE reports. They bound the memory that a guest can make the host allocate.
struct Limits {
    static constexpr uint32_t kQps = 1u << 16;
    static constexpr uint32_t kCqs = 1u << 16;
    static constexpr uint32_t kEqs = 2 * kMaxVectors;
    static constexpr uint32_t kMrs = 1u << 18;
    static constexpr uint32_t kFastRegPages = 4096;  // pages of one fast region
    static constexpr uint32_t kPds = 1u << 16;
    static constexpr uint32_t kSge = 32;
    static constexpr uint32_t kInline = 960;  // the longest WQE less its first 64 bytes
    static constexpr uint32_t kMaxMessage = 1u << 31;
    static constexpr uint64_t kMaxMrBytes = 1ull << 40;
    static constexpr uint64_t kMrPages = 1ull << 25;   // 128 GiB of 4 KiB pages, all MRs together
    static constexpr uint32_t kPagesPerMr = 1u << 22;  // bounds the time of one command
    static constexpr uint64_t kCqPages = 1ull << 22;   // all CQs together
    static constexpr uint64_t kQpPages = 1ull << 22;   // all QPs together
    static constexpr uint32_t kXrcds = 1u << 16;
    static constexpr uint32_t kSrqs = 1u << 16;
    static constexpr uint64_t kSrqPages = 1ull << 22;  // all SRQs together
    static constexpr uint32_t kRdAtomic = 16;
    static constexpr uint32_t kMcastGroups = 8192;
    static constexpr uint32_t kMcastAttachPerGroup = 256;
    static constexpr uint32_t kPkeys = 32;
    static constexpr uint32_t kGids = 16;
};

}  // namespace pib::hca
