// SPDX-License-Identifier: GPL-2.0-or-later
// A trunk: a link from a switch port of this process to a switch port of another process, which may
// be on another host. The operators decide which side connects.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "links/switch_endpoint.h"
#include "switch/switch.h"

namespace pib::fabric {

class Trunk final : public SwitchEndpoint::Outgoing {
  public:
    // The other end as the topology file names it.
    struct Far {
        ib::Guid guid{};   // GUID of the switch; 0: any
        uint8_t port = 0;  // 0: any
        std::string id;    // id of the switch
    };

    // `near` outlives the trunk.
    Trunk(Switch& near, uint8_t port, Far far) : near_(near), port_(port), far_(std::move(far)) {}

    // This side connects, so no other peer may take the port.
    void set_connects() { connects_ = true; }
    [[nodiscard]] bool connects() const { return connects_; }
    [[nodiscard]] const Far& far() const { return far_; }
    [[nodiscard]] SwitchPort& port() const { return near_.port(port_); }
    [[nodiscard]] std::string name() const;
    [[nodiscard]] Admission::Place place() const;

    // HELLO of this side, if it connects.
    [[nodiscard]] link::Hello hello() const override;
    [[nodiscard]] link::LinkEndpoint::Buffers link_buffers() const override {
        return near_.admission().link_buffers();
    }
    // Checks the peer's answer; the error is the mismatch, in one line.
    [[nodiscard]] std::expected<Admission::Place, std::string> welcomed(
        const link::Welcome& welcome) override;
    // Admits the connecting peer, or returns the reason for its refusal.
    [[nodiscard]] std::expected<Admission::Place, link::Refuse> admit(const link::Hello& hello,
                                                                      const Peer& peer);
    [[nodiscard]] bool is_end_of(const link::Hello& hello) const {
        return far_.guid == hello.node_guid && far_.port == hello.port_number;
    }

  private:
    Switch& near_;
    uint8_t port_;
    Far far_;
    bool connects_ = false;
};

}  // namespace pib::fabric
