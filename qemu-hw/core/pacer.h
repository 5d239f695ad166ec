// SPDX-License-Identifier: GPL-2.0-or-later
// Static rate control (IBA 9.11): packets to a destination LID that a slower path leads to leave no
// faster than that path takes them, whichever QPs they are of. Each LID has a bucket that fills at
// its rate: a short burst may go at once, so that the timer's coarseness costs no throughput.
#pragma once

#include <cstdint>
#include <vector>

#include "host.h"

namespace pib::hca {

class Pacer {
  public:
    // What may go beyond the rate, before a packet or run that may exceed it.
    static constexpr uint32_t kBurstBytes = 32 * 1024;

    // 0: a packet to this LID may go now; else when to ask again. Rates are in 10^6 bits a second
    // and not 0.
    uint64_t wait_until(uint16_t dlid, uint32_t mbps, uint64_t now_ns) const {
        const uint64_t paid = dlid < paid_ns_.size() ? paid_ns_[dlid] : 0;
        const uint64_t burst = duration_ns(kBurstBytes, mbps);
        return paid <= now_ns + burst ? 0 : paid - burst / 2;
    }
    // So many bytes have gone.
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
