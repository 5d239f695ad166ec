// SPDX-License-Identifier: GPL-2.0-or-later
// Two RC QPs that are connected, and a flow in each direction.
#pragma once

#include <array>
#include <string>

#include "flow.h"
#include "mini_sm.h"

namespace pib::simulation {

// A guest, and the objects that its connections share.
struct Owner {
    test::Guest* guest;
    unsigned index;
    uint32_t pd;
    uint32_t eqn;
};

// Moves a QP to Error. `name` begins the message if the device refuses that.
void move_to_error(test::Guest& guest, const hca::test::MiniQp& qp, const std::string& name);

class Connection {
  public:
    Connection(const Owner& a, const Owner& b, const std::string& title);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // Attributes of the QPs, drawn anew for each pair.
    struct Attributes {
        uint8_t path_mtu = 3;
        uint8_t timeout = 12;
        uint8_t max_rd_atomic = 4;
        std::array<uint32_t, 2> psn{};  // PSN of each end's first packet
    };
    void open(const test::MiniSm& sm, const Attributes& attributes);
    // Destroys both QPs and what belongs to them; the regions stay. Nothing may complete
    // afterwards.
    void close();
    // Checks that all requests are complete, with an error if their QP is in Error. Call it when
    // nothing is in flight.
    void check_completed();

    // Numbers of completions that poll() has read from both CQs.
    struct Completions {
        uint64_t all = 0;
        uint64_t errors = 0;
    };
    Completions poll();
    // Whether all requests that must raise a completion are complete.
    bool is_done() const;

    void kill(unsigned end);
    // Tells the model that this guest's device was reset, which ends its side of the connection.
    void lose(unsigned guest);
    // Creates the keys of this guest's regions, and of its window's memory, again after a reset.
    void restore(const Owner& owner);

    bool is_open() const { return is_open_; }
    bool is_at(unsigned guest) const {
        return owners_[0].index == guest || owners_[1].index == guest;
    }
    bool has_failed() const;
    void set_lossy() { flows[0].is_lossy = flows[1].is_lossy = true; }
    void set_outage() {
        set_lossy();
        flows[0].had_outage = flows[1].had_outage = true;
    }

  private:
    const std::string title_;
    std::array<Owner, 2> owners_;
    std::array<End, 2> ends_;
    bool is_open_ = false;

  public:
    std::array<Flow, 2> flows;  // [0]: from the first end; [1]: from the second one
};

}  // namespace pib::simulation
