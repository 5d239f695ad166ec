// SPDX-License-Identifier: GPL-2.0-or-later
// Port 0 of a switch: forwards directed-route SMPs, answers requests to the SMA and the PMA, sends
// traps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/timer_queue.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/smi.h"
#include "switch/packet_relay.h"
#include "switch/packet_tap.h"
#include "switch/switch_node.h"

namespace pib::fabric {

class SwitchManagement {
  public:
    // The parts of the switch. They outlive its port 0.
    struct Parts {
        SwitchNode& node;
        SwitchPorts& ports;
        std::vector<ib::PortCounters>& counters;  // by port number, 0 included
        PacketRelay& relay;
        PacketPool& pool;
        const Clock& clock;
    };
    explicit SwitchManagement(const Parts& parts) : parts_(parts) {}

    // `tap` receives copies of the packets that port 0 sends; nullptr: no tap.
    void set_tap(PacketTap* tap) { tap_ = tap; }

    // Handles a packet that has arrived on VL15.
    void receive_smp(uint8_t ingress, Transit& packet);
    // Handles a data packet for port 0.
    void receive_gmp(const Transit& packet);
    void link_state_changed();
    void link_error(ib::LinkError error, uint8_t port);

    // Moves the PMA's sampling to `now_ns`, and sends traps that are due.
    void advance(uint64_t now_ns);
    [[nodiscard]] uint64_t next_deadline() const;  // UINT64_MAX: none

  private:
    void directed_route(ib::Mad& smp, uint8_t ingress, const ib::Lrh& lrh);
    void follow(const ib::SmiDecision& decision, const ib::Mad& smp);
    void answer_smp(const ib::Mad& smp, uint8_t ingress, const ib::Lrh& lrh);
    void apply(const ib::SmaAnswer& answer);
    void send_smp(const ib::Mad& smp, ib::Lid dlid, ib::Sl sl, uint8_t out_port);
    void originate(std::span<const uint8_t> packet);
    void show(std::span<const uint8_t> packet) const;
    // Brings the counters of all ports up to date, and returns them for the PMA.
    [[nodiscard]] ib::PmaNode pma_node();
    [[nodiscard]] uint8_t num_ports() const { return static_cast<uint8_t>(parts_.ports.size()); }
    [[nodiscard]] SwitchPort& port(unsigned number) { return *parts_.ports[number - 1]; }

    const Parts parts_;
    ib::PortSampling sampling_;
    uint32_t next_psn_ = 0;
    PacketTap* tap_ = nullptr;
};

}  // namespace pib::fabric
