// SPDX-License-Identifier: GPL-2.0-or-later
// PortXmitWait of a port: the time with waiting data and no transmission (IBA 16.1.3.5); and
// PortVLXmitWait, the same for each VL.
#pragma once

#include <array>
#include <cstdint>

#include "ib/mgmt/lazy.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/vl_arbiter.h"

namespace pib::ib {

class XmitWait {
  public:
    explicit XmitWait(PortCounters& counters) : counters_(counters) {}

    // Data waits on the VLs `waiting` from now on. Adds the time since the last call to the
    // counters of the VLs on which data waited until now.
    void note(VlMask waiting, uint64_t now_ns) {
        if (waiting == 0 && waiting_ == 0) {
            return;
        }
        if (waiting_ != 0 && now_ns != since_ns_) {
            add(now_ns - since_ns_);
        }
        waiting_ = waiting;
        since_ns_ = now_ns;
    }
    // The VLs of the last note().
    [[nodiscard]] VlMask waiting() const { return waiting_; }
    // Forgets all waits, and the time that is not counted yet.
    void clear();

  private:
    void add(uint64_t waited_ns);
    void count(Counter counter, uint64_t waited_ns, uint64_t& remainder_ns);

    PortCounters& counters_;
    VlMask waiting_ = 0;
    uint64_t since_ns_ = 0;
    // Time that has not been counted yet: less than a tick (kPmaTickNs).
    uint64_t remainder_ns_ = 0;
    Lazy<std::array<uint64_t, kPerPriority>> vl_remainder_ns_;
};

}  // namespace pib::ib
