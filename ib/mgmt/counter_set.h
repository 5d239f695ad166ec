// SPDX-License-Identifier: GPL-2.0-or-later
// The counters of a port (IBA 16.1.3), each of 64 bits. A fabric may have thousands of ports, so
// most counters of VLs, SLs and lanes take memory only when one of them has counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ib/mgmt/lazy.h"
#include "ib/wire/perf_mad.h"

namespace pib::ib {

enum class Counter : uint8_t {
    kSymbolErrors,
    kLinkErrorRecovery,
    kLinkDowned,
    kPortRcvErrors,
    kPortRcvRemotePhysicalErrors,
    kPortRcvSwitchRelayErrors,
    kPortXmitDiscards,
    kPortXmitConstraintErrors,
    kPortRcvConstraintErrors,
    kLocalLinkIntegrityErrors,
    kExcessiveBufferOverrunErrors,
    kQp1Dropped,
    kVl15Dropped,
    kPortXmitData,  // in 4-byte words: LRH:PktLen of each packet
    kPortRcvData,
    kPortXmitPkts,
    kPortRcvPkts,
    kPortXmitWait,  // in ticks of kPmaTickNs
    kPortUnicastXmitPkts,
    kPortUnicastRcvPkts,
    kPortMulticastXmitPkts,
    kPortMulticastRcvPkts,
    // PortRcvErrorDetails
    kPortLocalPhysicalErrors,
    kPortMalformedPacketErrors,
    kPortBufferOverrunErrors,
    kPortDlidMappingErrors,
    kPortVlMappingErrors,
    kPortLoopingErrors,
    // PortXmitDiscardDetails
    kPortInactiveDiscards,
    kPortNeighborMtuDiscards,
    kPortSwLifetimeLimitDiscards,
    kPortSwHoqLifetimeLimitDiscards,
    // First counters of blocks with one counter for each SL or VL, or for each lane.
    kPortXmitDataSl,  // in 4-byte words
    kPortRcvDataSl = kPortXmitDataSl + kPerPriority,
    kPortVlXmitWait = kPortRcvDataSl + kPerPriority,  // in ticks of kPmaTickNs
    kPortVlXmitFlowCtlUpdateErrors = kPortVlXmitWait + kPerPriority,
    // PortExtendedSpeedsCounters
    kSyncHeaderErrors = kPortVlXmitFlowCtlUpdateErrors + kPerPriority,
    kUnknownBlocks,
    kErrorDetectionLane,
    kFecCorrectableBlocksLane = kErrorDetectionLane + port_extended_speeds::kLanes,
    kFecUncorrectableBlocksLane = kFecCorrectableBlocksLane + port_extended_speeds::kLanes,
    kEnd = kFecUncorrectableBlocksLane + port_extended_speeds::kLanes,
};
inline constexpr auto kCounterCount = static_cast<size_t>(Counter::kEnd);

// Counter `index` of a block; the caller checks the index.
[[nodiscard]] constexpr Counter counter_of(Counter first, size_t index) {
    return static_cast<Counter>(static_cast<size_t>(first) + index);
}

// A counter for each SL or VL. Most ports use only the first and the last one (VL15); the first use
// of another one allocates the storage of all others.
class PriorityCounters {
  public:
    [[nodiscard]] uint64_t operator[](size_t priority) const {
        return priority == 0                  ? first_
               : priority == kPerPriority - 1 ? last_
                                              : (*others_)[priority - 1];
    }
    void add(size_t priority, uint64_t amount) {
        if (priority == 0) [[likely]] {
            first_ += amount;
        } else {
            add_other(priority, amount);
        }
    }

    bool operator==(const PriorityCounters&) const = default;

  private:
    void add_other(size_t priority, uint64_t amount);

    uint64_t first_ = 0;
    uint64_t last_ = 0;
    Lazy<std::array<uint64_t, kPerPriority - 2>> others_;
};

class CounterSet {
  public:
    [[nodiscard]] uint64_t operator[](Counter counter) const {
        const auto index = static_cast<size_t>(counter);
        return index < kPlain   ? plain_[index]
               : index < kLanes ? by_priority_[block(index)][index % kPerPriority]
                                : (*lanes_)[index - kLanes];
    }
    void add(Counter counter, uint64_t amount) {
        const auto index = static_cast<size_t>(counter);
        if (index < kPlain) {
            plain_[index] += amount;
        } else if (index < kLanes) {
            by_priority_[block(index)].add(index % kPerPriority, amount);
        } else if (amount != 0) {
            lanes_.make()[index - kLanes] += amount;
        }
    }
    // Adds to the counter of SL or VL `priority`; `first` is the first counter of its block.
    void add(Counter first, size_t priority, uint64_t amount) {
        by_priority_[block(static_cast<size_t>(first))].add(priority, amount);
    }

    bool operator==(const CounterSet&) const = default;

  private:
    // Number of counters before the blocks of SLs and VLs, and before those of
    // PortExtendedSpeedsCounters.
    static constexpr auto kPlain = static_cast<size_t>(Counter::kPortXmitDataSl);
    static constexpr auto kLanes = static_cast<size_t>(Counter::kSyncHeaderErrors);
    static_assert(kPlain % kPerPriority == 0 && kLanes % kPerPriority == 0);

    static constexpr size_t block(size_t index) { return (index - kPlain) / kPerPriority; }

    std::array<uint64_t, kPlain> plain_{};
    std::array<PriorityCounters, (kLanes - kPlain) / kPerPriority> by_priority_;
    Lazy<std::array<uint64_t, kCounterCount - kLanes>> lanes_;
};

}  // namespace pib::ib
