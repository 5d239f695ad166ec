// SPDX-License-Identifier: GPL-2.0-or-later
// Static rate control (IBA 9.11): packets to a LID behind a slower path leave at the rate of that
// path, summed over all QPs. Each LID has a token bucket that fills at its rate. A short burst may
// leave at once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/host.h"

namespace pib::hca {

class Pacer {
  public:
    // Size of the bucket, as the time that the path needs for it. One packet or burst may exceed
    // it. A host's timer may be late by half of this time without a loss of throughput.
    static constexpr uint64_t kBurstNs = 1'000'000;

    // The time at which to ask again for a packet to this LID; 0: the packet may leave now.
    uint64_t wait_until(uint16_t dlid, uint64_t now_ns) const {
        const uint64_t paid = dlid < paid_ns_.size() ? paid_ns_[dlid] : 0;
        return paid <= now_ns + kBurstNs ? 0 : paid - kBurstNs / 2;
    }
    // Records that `bytes` have been sent; the rate is in 10^6 bits a second and not 0.
    void sent(uint16_t dlid, uint64_t bytes, uint32_t mbps, uint64_t now_ns);
    void clear() { paid_ns_.clear(); }

  private:
    static uint64_t duration_ns(uint64_t bytes, uint32_t mbps) {
        return (bytes * 8000 + mbps - 1) / mbps;
    }

    // Times at which paths will have carried all sent packets, by LID; empty until the first paced
    // packet.
    std::vector<uint64_t> paid_ns_;
};

}  // namespace pib::hca
