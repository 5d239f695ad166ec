// SPDX-License-Identifier: GPL-2.0-or-later
// PortXmitWait of a port: the time with waiting data and no transmission (IBA 16.1.3.5); and
// PortVLXmitWait, the same for each VL.
#pragma once

#include <array>
#include <cstdint>

#include "ib/mgmt/vl_arbiter.h"
#include "port/port_context.h"

namespace pib::hca {

class XmitWait {
  public:
    explicit XmitWait(const PortContext& port) : port_(port) {}

    // Data waits on a VL from now on, or no longer.
    void begin(unsigned vl);
    void end(unsigned vl);
    // Adds the time since the last call to the counters. Call before the PMA reads them.
    void count();
    // Ends all waits. A cold reset has cleared the counters before.
    void reset(bool cold);

  private:
    void add(ib::Counter counter, uint64_t waited_ns, uint64_t& remainder_ns);

    const PortContext& port_;
    ib::VlMask waiting_ = 0;
    uint64_t since_ns_ = 0;  // beginning of the time that count() has not added yet
    // Time that is not counted yet: less than a tick (ib::kPmaTickNs).
    uint64_t remainder_ns_ = 0;
    std::array<uint64_t, ib::kPerPriority> vl_remainder_ns_{};
};

}  // namespace pib::hca
