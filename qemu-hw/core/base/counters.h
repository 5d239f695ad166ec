// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of events, by the names of rdma-core's tools. The register interface has the same order
// (commands/interface_numbers.cc).
#pragma once

#include <array>
#include <cstdint>

#include "base/config.h"
#include "base/driver_coverage.h"
#include "base/journal.h"
#include "base/trace.h"

namespace pib::hca {

class Adversary;
class Strict;

enum class HcaCounter : uint8_t {
    kDuplicateRequest,
    kOutOfSequence,
    kRnrNakSent,
    kRnrNakRetryErr,
    kPacketSeqErr,
    kImpliedNakSeqErr,
    kLocalAckTimeoutErr,
    kRespLocalLengthError,
    kRespRemoteAccessErrors,
    kReqRemoteAccessErrors,
    kReqRemoteInvalidRequest,
    kReqCqeError,
    kRespCqeError,
    kReqCqeFlushError,
    kRespCqeFlushError,
    kOutOfBuffer,
    kRxDropped,  // packets dropped silently as the transport demands
    kTxPackets,
    kRxPackets,
    kTxBytes,
    kRxBytes,
    kRxWriteRequests,
    kRxReadRequests,
    kRxAtomicRequests,
    // Counters of the device alone.
    kForeignDoorbell,  // doorbells for an object of another UAR, or of none
    kSendDoorbells,
    kInterrupts,
};
inline constexpr size_t kCounters = static_cast<size_t>(HcaCounter::kInterrupts) + 1;

// Counts of events since reset, by enum HcaCounter, for each port. The parts that count also find
// here the device's trace, journal, checks of the driver, coverage of the driver and adversary;
// nullptr: the device has none.
struct Counters {
    using Row = std::array<uint64_t, kCounters>;
    static constexpr unsigned kNoPort = 0;  // row of counters that belong to no port

    std::array<Row, kMaxPorts + 1> rows{};
    Trace* trace = nullptr;
    Journal* journal = nullptr;
    Strict* strict = nullptr;
    DriverCoverage* coverage = nullptr;
    Adversary* adversary = nullptr;

    // port: 1 ..., or kNoPort.
    void add(HcaCounter counter, unsigned port, uint64_t n = 1) {
        rows[port][static_cast<size_t>(counter)] += n;
    }
    // Counters of the whole device.
    uint64_t total(HcaCounter counter) const;
    Row totals() const;
};

inline uint64_t Counters::total(HcaCounter counter) const {
    uint64_t sum = 0;
    for (const Row& row : rows) {
        sum += row[static_cast<size_t>(counter)];
    }
    return sum;
}

inline Counters::Row Counters::totals() const {
    Row sums{};
    for (unsigned i = 0; i < sums.size(); ++i) {
        sums[i] = total(static_cast<HcaCounter>(i));
    }
    return sums;
}

}  // namespace pib::hca
