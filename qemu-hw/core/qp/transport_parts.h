// SPDX-License-Identifier: GPL-2.0-or-later
// The parts of the device that queue pairs work with.
#pragma once

#include <span>

#include "base/counters.h"
#include "base/host.h"
#include "memory/mpt.h"
#include "port/port.h"
#include "queues/cq.h"
#include "queues/eq.h"
#include "queues/srq.h"

namespace pib::hca {

class PeerCopy;

// Objects that the transport uses; all of them outlive the transport.
struct TransportParts {
    Host& host;
    Mpt& mpt;
    CqTable& cqs;
    SrqTable& srqs;
    EqTable& eqs;
    Counters& counters;
    std::span<Port* const> ports;   // [0] is port 1
    PeerCopy* peer_copy = nullptr;  // nullptr: the device has no peer copy
};

}  // namespace pib::hca
