// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "ib/mgmt/counter_set.h"
#include "ib/wire/headers.h"

namespace pib::fabric {

// A port's data by VL, in words of 4 bytes, as PortXmitData and PortRcvData count it. IBA counts
// data by SL only, from which the VL does not follow: ports map SLs to VLs differently.
struct VlData {
    static constexpr unsigned kVls = 16;
    ib::PriorityCounters sent;
    ib::PriorityCounters received;

    void count_received(const ib::Lrh& lrh, uint64_t words) { received.add(lrh.vl.value(), words); }
};

}  // namespace pib::fabric
