// SPDX-License-Identifier: GPL-2.0-or-later
// The parts of the device that a port works with.
#pragma once

#include <cstdint>

#include "base/counters.h"
#include "base/host.h"
#include "memory/peer_copy.h"
#include "port/hca_pma.h"
#include "port/hca_sma.h"
#include "port/port.h"
#include "queues/eq.h"

namespace pib::hca {

class HcaPorts;

// Each port has a PortContext; all objects that it names outlive the port.
struct PortContext {
    Host& host;
    HcaPorts& ports;  // all ports of the device
    EqTable& eqs;
    Counters& counters;
    HcaSma& sma;
    HcaPma& pma;
    PeerCopy* peer_copy;  // nullptr: no peer copy
    const unsigned number = 1;
    PortClient* client = nullptr;  // nullptr until HcaPorts::set_client()

    ib::PortAttrs& attrs() const { return sma.port(number); }
    ib::PortCounters& pma_counters() const { return pma.port(number); }
    void count(HcaCounter counter, uint64_t n = 1) const { counters.add(counter, number, n); }
    uint8_t number8() const { return static_cast<uint8_t>(number); }
};

}  // namespace pib::hca
