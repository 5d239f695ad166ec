// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of events; the driver shows them in hw_counters of sysfs. The register interface has the
// same order (commands/interface_numbers.cc).
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
    kRxDropped,  // received packets that the port or the transport drops without an answer
    kTxPackets,
    kRxPackets,
    kTxBytes,
    kRxBytes,
    kRxWriteRequests,
    kRxReadRequests,
    kRxAtomicRequests,
    // Counters that belong to no port.
    kForeignDoorbell,  // ignored doorbells, such as those for an object of another UAR
    kSendDoorbells,
    kInterrupts,
};
inline constexpr size_t kCounters = static_cast<size_t>(HcaCounter::kInterrupts) + 1;

// Counts of events since reset, by enum HcaCounter, for each port. The parts of the device that
// count events also report them to the objects that the pointers name; nullptr: the device has no
// such object.
struct Counters {
    using Row = std::array<uint64_t, kCounters>;
    static constexpr unsigned kNoPort = 0;  // row of counters that belong to no port

    std::array<Row, kMaxPorts + 1> rows{};
    Trace* trace = nullptr;
    Journal* journal = nullptr;
    Strict* strict = nullptr;
    DriverCoverage* coverage = nullptr;
    Adversary* adversary = nullptr;

    // `port` counts from 1, or is kNoPort.
    void add(HcaCounter counter, unsigned port, uint64_t n = 1) {
        rows[port][static_cast<size_t>(counter)] += n;
    }
    // Sums over all ports and kNoPort.
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
