// SPDX-License-Identifier: GPL-2.0-or-later
// The state of a link: the parameters that each side sends in LINK, and those that are active
// (docs/fabric-protocol.md, "Link state").
#pragma once

#include <cstdint>
#include <optional>

#include "ib/link/credit_ledger.h"
#include "ib/link/frame_channel.h"
#include "ib/link/link_events.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

class LinkTraining {
  public:
    LinkTraining(FrameChannel& channel, CreditLedger& credits, LinkEvents& events)
        : channel_(channel), credits_(credits), events_(events) {}

    // The handshake is over: sends LINK.
    void open();
    // The connection has ended or failed. Calls link_down() if the link was up.
    void close();
    [[nodiscard]] bool is_open() const { return phase_ == Phase::kOpen; }
    [[nodiscard]] bool is_closed() const { return phase_ == Phase::kClosed; }

    // Sets this side's LINK parameters; `epoch` is ignored. A change is sent to the peer: the link
    // goes down, and comes up again if both sides still want it. Before the end of the handshake
    // the parameters are only stored. A received packet that `mtu_cap` does not permit is a fault.
    void set_parameters(const link::Link& parameters);
    // Sends the same parameters with a new epoch: the link passes through Down (IBA 7.2.1).
    void retrain();
    // Handles the peer's LINK.
    [[nodiscard]] LinkResult receive(const link::Frame& frame);
    // Sends LINK and CREDIT that found no room before.
    void send_unsent();

    [[nodiscard]] bool is_up() const { return active_.has_value(); }
    // Valid while is_up(): the active parameters, and the peer's newest LINK.
    [[nodiscard]] const ActiveLink& active() const { return *active_; }
    [[nodiscard]] const link::Link& peer() const { return *peer_; }
    [[nodiscard]] bool has_peer() const { return peer_.has_value(); }
    // The epoch of this side's newest LINK, and MTUCap as set by set_parameters().
    [[nodiscard]] uint16_t epoch() const { return parameters_.epoch; }
    [[nodiscard]] uint8_t mtu_cap() const { return parameters_.mtu_cap; }

  private:
    enum class Phase : uint8_t { kHandshake, kOpen, kClosed };

    void take_down();
    void bring_up();
    void send_parameters();

    FrameChannel& channel_;
    CreditLedger& credits_;
    LinkEvents& events_;
    Phase phase_ = Phase::kHandshake;
    bool parameters_unsent_ = false;  // LINK waits for room in the output
    link::Link parameters_{.up = false, .mtu_cap = 5, .vl_cap = 1};
    std::optional<link::Link> peer_;
    std::optional<ActiveLink> active_;
};

}  // namespace pib::link
