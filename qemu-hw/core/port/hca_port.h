// SPDX-License-Identifier: GPL-2.0-or-later
// A port of the HCA.
//
// Reset: a port keeps the subnet's values when its driver goes, as the firmware of an HCA does. A
// warm reset (ENABLE 1->0, RESET, FLR) drops packets, takes back the values that software has set
// (CapabilityMask bits, NodeDescription, SystemImageGUID), and retrains the link by a LINK frame
// with another epoch. The port then passes through Down to Initialize, and the SM has to bring it
// up again. This tells other nodes that the former QPs no longer exist. The values that the SM has
// set (LID, P_Key table, M_Key, GUIDs, SL to VL) stay, because a guest must not escape its
// partition or an M_Key by a reset. A cold reset is a power-on: it resets everything, the PMA's
// counters included.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "ib/mgmt/xmit_wait.h"
#include "port/copy_link.h"
#include "port/egress.h"
#include "port/ingress.h"
#include "port/port_attributes.h"
#include "port/port_context.h"
#include "port/port_endpoint.h"
#include "port/port_flaps.h"
#include "port/port_link_events.h"
#include "port/port_mads.h"
#include "port/stream_input.h"
#include "port/transport_port.h"

namespace pib::hca {

class HcaPort final : public TransportPort {
  public:
    explicit HcaPort(const PortContext& context);
    HcaPort(const HcaPort&) = delete;
    HcaPort& operator=(const HcaPort&) = delete;

    void set_client(PortClient& client) { context_.client = &client; }

    // DeviceLinks calls link_rx() in received(), link_is_behind() in is_behind(), link_memory() in
    // share_memory(), link_poll() and link_may_sleep() in poll(), and every other link_x() in x().
    void link_connected(bool can_share);
    void link_rx(std::span<const uint8_t> bytes);
    [[nodiscard]] bool link_is_behind() const { return input_.waits(); }
    void link_writable();
    void link_closed();
    void link_shared(const link::LinkRings& rings) { link_.shared(rings); }
    [[nodiscard]] bool link_poll();
    [[nodiscard]] bool link_may_sleep() { return link_.may_sleep(); }
    [[nodiscard]] bool link_wants_memory() const { return copies_.wants_memory(); }
    void link_memory(const PeerCopyMemory& memory) { copies_.share(memory); }
    // nullptr: there is no connection.
    const link::LinkEndpoint* endpoint() { return link_.endpoint(); }

    // Delivers some packets from the port to itself, and handles received bytes that wait. True:
    // there are more packets.
    [[nodiscard]] bool run();
    void timer(uint64_t now_ns);
    uint64_t next_deadline() const {
        return std::min({context_.sma.next_trap_ns(context_.number), egress_.next_deadline(),
                         flaps_.next_deadline()});
    }
    void flush() { link_.flush(); }
    // Adds the time of current waits to PortXmitWait and PortVLXmitWait.
    void count_waits();
    void reset(bool cold);  // call after the reset of HcaSma and HcaPma

    // After a change by the SM or by a command: raises events, retrains the link if the SM asks for
    // it, and updates cached attributes.
    void apply(ib::PortEvents events) { attributes_.apply(events); }

  private:
    void resume();
    // Delivers some packets from the port to itself.
    void deliver_looped();

    PortContext context_;
    PortLinkEvents link_events_;
    PortEndpoint link_;
    StreamInput input_;
    CopyLink copies_;
    PortAttributes attributes_;
    ib::XmitWait waits_;
    Egress egress_;
    PortMads mads_;
    Ingress ingress_;
    PortFlaps flaps_;
};

}  // namespace pib::hca
