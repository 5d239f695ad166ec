// SPDX-License-Identifier: GPL-2.0-or-later
// The functions of a switch that its ports call, and values of PortInfo that the parts of a port
// share.
#pragma once

#include <cstdint>

#include "base/packet_pool.h"
#include "ib/mgmt/link_errors.h"
#include "ib/mgmt/port_attrs.h"

namespace pib::fabric {

class SwitchPort;

class PortHost : public OriginSink {
  public:
    [[nodiscard]] virtual uint64_t now_ns() const = 0;
    // Reports an event at a port, which may change its next deadline. SwitchPort::advance() is not
    // called for ports without such a report.
    virtual void port_touched(SwitchPort& port) = 0;
    // Takes packets that have passed the ingress faults; the caller has counted a single packet.
    // False, only for several packets: the function has done nothing, and the caller delivers them
    // singly.
    [[nodiscard]] virtual bool packets_arrived(SwitchPort& port, Transit& packets) = 0;
    // The link itself has moved PortState to or from Down (trap 128, SwitchInfo:PortStateChange).
    virtual void link_state_changed(SwitchPort& port) = 0;
    // The errors of one kind have reached a threshold: a trap is due (129 to 131).
    virtual void link_error(SwitchPort& port, ib::LinkError error) = 0;
};

// Decoded values of PortInfo for checks of packets.
struct PortLimits {
    ib::PortState state = ib::PortState::kDown;
    unsigned data_vls = 0;        // OperationalVLs
    uint32_t max_pkt_len = 0;     // largest LRH:PktLen that NeighborMTU admits
    uint64_t hoq_life_ns = 0;     // HOQLife; UINT64_MAX: unlimited
    unsigned vl_stall_count = 0;  // VLStallCount; 0: VLs never stall
    bool enforce_pkey_in = false;
    bool enforce_pkey_out = false;
};

// The time that a value of HOQLife or LifeTimeValue stands for: 4.096 us times 2^value; from 20 on
// UINT64_MAX, unlimited (IBA 18.2.5.4).
[[nodiscard]] constexpr uint64_t lifetime_ns(uint64_t value) {
    return value > 19 ? UINT64_MAX : 4096ULL << value;
}

}  // namespace pib::fabric
