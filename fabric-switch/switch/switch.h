// SPDX-License-Identifier: GPL-2.0-or-later
// One InfiniBand switch (IBA 18.2): joins its ports, packet relay, port 0 and admission of peers to
// ports, and has their timers. Uses no thread, socket or clock: packets arrive through SwitchPort,
// and time is an argument.
#pragma once

#include <cstdint>
#include <vector>

#include "base/timer_queue.h"
#include "switch/link_journal.h"
#include "switch/packet_relay.h"
#include "switch/packet_tap.h"
#include "switch/switch_admission.h"
#include "switch/switch_management.h"
#include "switch/switch_node.h"
#include "switch/switch_port.h"

namespace pib::fabric {

class Switch final : public TimerClient, private PortHost {
  public:
    // `timers` outlive the switch, and their clock is the switch's clock. nullptr: the switch has a
    // clock of its own, which advance() moves.
    explicit Switch(const SwitchConfig& config, TimerQueue* timers = nullptr);
    ~Switch() override;
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;

    [[nodiscard]] const SwitchConfig& config() const { return config_; }
    [[nodiscard]] SwitchNode& node() { return node_; }
    [[nodiscard]] uint8_t num_ports() const { return config_.num_ports; }
    // Assigns ports to peers, and remembers the peers.
    [[nodiscard]] SwitchAdmission& admission() { return admission_; }
    // External port 1..num_ports().
    [[nodiscard]] SwitchPort& port(unsigned number) { return *ports_[number - 1]; }
    [[nodiscard]] ib::PortCounters& counters(unsigned number) { return counters_[number]; }
    [[nodiscard]] size_t held_packets() const { return pool_.held_packets(); }
    // The last changes of its links.
    [[nodiscard]] LinkJournal& journal() { return journal_; }
    void set_tap(PacketTap* tap) {
        tap_ = tap;
        management_.set_tap(tap);
    }

    // For a switch with a clock of its own: moves the clock (nanoseconds, never backwards) and does
    // the work that is due. Call before links report events.
    void advance(uint64_t now_ns);
    void on_deadline(uint64_t now_ns) override;
    [[nodiscard]] uint64_t next_deadline() override;
    [[nodiscard]] uint64_t now_ns() const override { return clock_.now_ns; }

  private:
    void release_origin(const Origin& origin) override;
    [[nodiscard]] bool packets_arrived(SwitchPort& port, Transit& packets) override;
    void link_state_changed(SwitchPort& port) override;
    void link_error(SwitchPort& port, ib::LinkError error) override;
    void port_touched(SwitchPort& port) override;

    SwitchConfig config_;
    SwitchNode node_;
    std::vector<ib::PortCounters> counters_;  // by port number, 0 included
    PacketPool pool_;
    SwitchPorts ports_;
    SwitchAdmission admission_;
    PortMask active_ = 0;  // ports that may have work; the others have no deadline
    Clock own_clock_;
    TimerQueue* timers_;
    const Clock& clock_;
    PacketRelay relay_;
    SwitchManagement management_;
    PacketTap* tap_ = nullptr;
    LinkJournal journal_;
};

}  // namespace pib::fabric
