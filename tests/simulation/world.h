// SPDX-License-Identifier: GPL-2.0-or-later
// The simulated fabric: guests with their devices, the switch, the subnet manager and the
// connections. Steps change it, and it compares the devices with the model.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "connection.h"
#include "messaging.h"
#include "mini_sm.h"
#include "script.h"
#include "subnet.h"

namespace pib::simulation {

struct Totals {
    uint64_t scripts = 0;
    uint64_t requests = 0;
    uint64_t completions = 0;
    uint64_t errors = 0;  // completions with an error
    uint64_t faults = 0;  // steps that cause faults, and packets with faults

    Totals& operator+=(const Totals& other);
};

class World {
  public:
    explicit World(const Setup& setup);

    // Runs everything that is due now, and checks the completions.
    void settle();
    // Reads all CQs and event queues.
    void poll();
    void check_memory(Extent extent);
    // Ends all faults and lets each request complete.
    void recover();
    // Calls recover(), and destroys everything.
    void finish();

    // Opens the connection, or closes it and opens it anew.
    void reconnect(Connection& connection, uint32_t number);
    // Replaces the QPs of a line, if messages have lines.
    void reopen_line(const Messaging::Choice& choice);
    void set_faults(const fabric::FaultSpec& faults);
    void unplug(unsigned guest);
    // Reconnects the guest's cable; the subnet manager then sweeps.
    void plug(unsigned guest);
    void stall(unsigned guest);
    void reset(unsigned guest);
    void restart_switch();

    Connection& connection(uint32_t number) { return *connections_[number % connections_.size()]; }
    Flow& flow(uint32_t number) { return connection(number / 2).flows[number % 2]; }
    test::Subnet& subnet() { return subnet_; }
    const Setup& setup() const { return setup_; }
    uint32_t pd_of(const test::Guest& guest) const;
    Totals totals;

  private:
    void count_packet_faults();
    void resume();
    void sweep();
    void release();
    void mark_outage(unsigned guest);
    bool may_have_outage(unsigned guest) const;

    const Setup setup_;
    test::Subnet subnet_;
    test::MiniSm sm_;
    std::vector<Owner> owners_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<bool> unplugged_;
    // A device numbers its QPs from the first one after a reset, so packets to an old QP may meet a
    // new one, which answers them.
    std::vector<bool> was_reset_;
    bool lossy_ = false;  // packets may be lost at any link

  public:
    Messaging messaging;
};

}  // namespace pib::simulation
