// SPDX-License-Identifier: GPL-2.0-or-later
// Static rate control (IBA 9.11): packets to a destination LID that a slower path leads to leave no
// faster than that path takes them, whichever QPs they are of. Each LID has a bucket that fills at
// its rate: a short burst may go at once, and what a host's timer is late by beyond that is lost.
#pragma once

#include <cstdint>
#include <vector>

#include "base/host.h"

namespace pib::hca {

class Pacer {
  public:
    // What may go beyond the rate, as the time that the path takes for it, before a packet or run
    // that may exceed it. A host's timer is late by some of this, whatever the rate.
    static constexpr uint64_t kBurstNs = 1'000'000;

    // 0: a packet to this LID may go now; else when to ask again.
    uint64_t wait_until(uint16_t dlid, uint64_t now_ns) const {
        const uint64_t paid = dlid < paid_ns_.size() ? paid_ns_[dlid] : 0;
        return paid <= now_ns + kBurstNs ? 0 : paid - kBurstNs / 2;
    }
    // So many bytes have gone; the rate is in 10^6 bits a second and not 0.
    void sent(uint16_t dlid, uint64_t bytes, uint32_t mbps, uint64_t now_ns);
    void clear() { paid_ns_.clear(); }

  private:
    static uint64_t duration_ns(uint64_t bytes, uint32_t mbps) {
        return (bytes * 8000 + mbps - 1) / mbps;
    }

    // By LID: when the path will have taken what was sent. Empty until something is paced.
    std::vector<uint64_t> paid_ns_;
};

}  // namespace pib::hca
