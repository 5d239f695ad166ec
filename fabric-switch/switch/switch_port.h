// SPDX-License-Identifier: GPL-2.0-or-later
// One external port of a switch: link state, received packets, counters, faults (IBA 7.6).
// SwitchPortQueues has the packets to send; the switch above forwards received packets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/packet_pool.h"
#include "ib/mgmt/link_errors.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/port_attrs.h"
#include "switch/fault_stage.h"
#include "switch/neighbour.h"
#include "switch/port_host.h"
#include "switch/switch_port_queues.h"

namespace pib::fabric {

class SwitchPort final : public LinkUser, private FaultSink {
  public:
    SwitchPort(PortHost& host, PacketPool& pool, ib::PortAttrs& attrs, ib::PortCounters& counters);

    [[nodiscard]] uint8_t number() const { return attrs_.number; }
    [[nodiscard]] ib::PortAttrs& attrs() { return attrs_; }
    [[nodiscard]] const PortLimits& limits() const { return limits_; }
    // The link to the neighbour and its parameters; can also pull the cable.
    [[nodiscard]] CableEnd& cable() { return cable_; }
    [[nodiscard]] SwitchPortQueues& queues() { return queues_; }
    // Whether a capture includes packets that arrive here; false if the neighbour's switch has
    // captured them.
    void set_captured(bool captured) { captured_ = captured; }
    [[nodiscard]] bool captured() const { return captured_; }

    // --- the link to the neighbour
    void attach(Neighbour& link) override;
    void detach() override;
    void link_up(const link::ActiveLink& active) override;
    void link_down() override;
    uint32_t receive(const ib::Burst& burst, const OfferRecord* offer) override;
    void receive_fault(link::PacketFault fault) override;
    void pump() override;
    void release(const Origin& origin);  // frees the receive buffer of a received packet

    // --- for the switch
    // Sends packets to this port's neighbour, or queues a single one. VL15 is sent in every state
    // except Down, data only in Active. The caller has checked MTU and partition. False, only for
    // several packets: nothing was sent, and the caller sends them singly.
    [[nodiscard]] bool send(Transit& packets, unsigned vl);
    // Call after subnet management has changed attributes of this port.
    void attributes_changed(ib::PortEvents events);
    void advance(uint64_t now_ns);
    [[nodiscard]] uint64_t next_deadline() const;  // UINT64_MAX: none
    // True if the port is idle, so that advance() has no work until the next port_touched().
    [[nodiscard]] bool at_rest() const {
        return queues_.at_rest() && !ingress_faults_.holds() && !egress_faults_.holds();
    }

    // --- the operator
    [[nodiscard]] FaultStage& ingress_faults() { return ingress_faults_; }
    [[nodiscard]] FaultStage& egress_faults() { return egress_faults_; }
    // Counts and reports the error as if the port had detected it.
    void raise(ib::LinkError error);

  private:
    // Takes the packets that have passed the ingress fault stage (FaultSink).
    void deliver(Transit& packet, unsigned vl, const std::optional<uint32_t>& damage) override;

    PortHost& host_;
    PacketPool& pool_;
    ib::PortAttrs& attrs_;
    ib::PortCounters& counters_;
    ib::LinkErrors errors_;
    PortLimits limits_;
    CableEnd cable_;
    uint64_t link_serial_ = 0;
    bool captured_ = true;
    SwitchPortQueues queues_;
    FaultStage ingress_faults_;
    FaultStage egress_faults_;
};

// The external ports of a switch: [0] is port 1.
using SwitchPorts = std::vector<std::unique_ptr<SwitchPort>>;

}  // namespace pib::fabric
