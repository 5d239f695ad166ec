// SPDX-License-Identifier: GPL-2.0-or-later
// The packet relay of a switch (IBA 18.2.4): checks received packets, chooses their egress ports,
// and sends them there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/timer_queue.h"
#include "ib/mgmt/perf_counters.h"
#include "switch/switch_node.h"
#include "switch/switch_port.h"

namespace pib::fabric {

class PacketRelay {
  public:
    // `counters` by port number, 0 included. All outlive the relay.
    PacketRelay(SwitchNode& node, SwitchPorts& ports, std::vector<ib::PortCounters>& counters,
                const Clock& clock)
        : node_(node), ports_(ports), counters_(counters), clock_(clock) {}

    // The result for the packets.
    enum class Outcome : uint8_t {
        kTaken,   // they are sent, queued or dropped
        kSingly,  // not handled: deliver them singly
        kLocal,   // not handled: a single packet for port 0
    };
    // Checks and forwards data packets that arrived at `port`.
    [[nodiscard]] Outcome receive(SwitchPort& port, Transit& packets);
    // Forward packets from port `ingress`; 0: port 0 has made them. forward_unicast() does not
    // check that DLID is a unicast LID.
    [[nodiscard]] Outcome forward(uint8_t ingress, Transit& packets);
    [[nodiscard]] Outcome forward_unicast(uint8_t ingress, Transit& packets);

  private:
    Outcome forward_multicast(uint8_t ingress, Transit& packet);
    Outcome relay(uint8_t ingress, uint8_t egress, Transit& packets);
    Outcome refuse(uint8_t ingress, const Transit& packets, ib::Counter detail);
    [[nodiscard]] PortMask multicast_ports(uint8_t ingress, ib::Lid dlid) const;
    [[nodiscard]] bool pkey_admitted(const Transit& packets, SwitchPort& at, ib::Counter counter);
    void report_pkey_violation(const ib::PacketBytes& packet, uint8_t at);
    void report(const ib::KeyViolation& violation, uint8_t at);
    [[nodiscard]] SwitchPort& port(unsigned number) { return *ports_[number - 1]; }

    SwitchNode& node_;
    SwitchPorts& ports_;
    std::vector<ib::PortCounters>& counters_;
    const Clock& clock_;
};

}  // namespace pib::fabric
