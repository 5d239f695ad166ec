// SPDX-License-Identifier: GPL-2.0-or-later
// The peers of a switch's ports: which port a connecting peer gets, and which peer was connected to
// a port last.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "switch/neighbour.h"
#include "switch/switch_node.h"
#include "switch/switch_port.h"

namespace pib::fabric {

class SwitchAdmission final : public Admission {
  public:
    SwitchAdmission(const SwitchConfig& config, const SwitchPorts& ports)
        : config_(config), ports_(ports), neighbours_(config.num_ports) {}

    // Assigns the lowest port that no peer has used, else the lowest port without a link that is
    // bound to no other peer. A peer that was connected before (same port GUID; switches: node
    // GUID and port) gets its old port again, so the subnet looks the same after a reconnect.
    // Refuses a peer that has the GUID of this switch, or of a port with another owner; an adapter
    // with a GUID of a switch that is connected, or to which this process connects; and a switch
    // with a GUID of an adapter that is connected.
    [[nodiscard]] std::expected<Place, link::Refuse> admit(const link::Hello& hello,
                                                           const Peer& peer) override;
    [[nodiscard]] link::LinkEndpoint::Buffers link_buffers() const override;
    [[nodiscard]] uint32_t link_features() const override { return config_.link_features(); }

    // The Place for a device that connects to port `number`. Here and below, ports count from 1.
    [[nodiscard]] Place place(unsigned number) const;
    // Keeps admit() from assigning port `number`, because this process connects it to a peer
    // itself.
    void reserve(unsigned number) { reserved_ |= PortMask{1} << number; }
    // The present or last peer of a port; nullptr: none yet.
    [[nodiscard]] const link::Hello* neighbour(unsigned number) const;
    // Number of the port whose peer has a GUID of `hello` but the other role, if the peer is
    // connected or this process connects to it; 0: none.
    [[nodiscard]] unsigned port_of_other_role(const link::Hello& hello) const;
    void set_neighbour(unsigned number, const link::Hello& hello, const std::string& owner = {});
    // Name of the peer that the port is bound to; empty: none.
    [[nodiscard]] const std::string& owner(unsigned number) const {
        return neighbours_[number - 1].owner;
    }

  private:
    struct Neighbour {
        link::Hello hello;
        std::string owner;
    };

    [[nodiscard]] bool is_reserved(unsigned number) const { return (reserved_ >> number & 1) != 0; }
    [[nodiscard]] bool is_attached(unsigned number) const {
        return ports_[number - 1]->cable().attached();
    }

    const SwitchConfig& config_;
    const SwitchPorts& ports_;
    std::vector<Neighbour> neighbours_;  // [0] is port 1; node GUID 0: no peer yet
    PortMask reserved_ = 0;
};

}  // namespace pib::fabric
