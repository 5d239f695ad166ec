// SPDX-License-Identifier: GPL-2.0-or-later
// The cables of a fabric and the packets in them. Cables are laid at the start; an operator can
// remove, restore and add some while the fabric runs. A link over a connection cannot be moved to
// other ports: it only goes down and comes back. Errors are one line for a user.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric_nodes.h"
#include "fabric/trunks.h"
#include "links/cable.h"

namespace pib::fabric {

class FabricCables final : private CableScheduler {
  public:
    // `receive_blocks`: credit blocks of a port's receive buffer for each data VL. The other
    // arguments outlive the cables.
    FabricCables(FabricNodes& nodes, Trunks& trunks, uint32_t receive_blocks, PacketPool& pool)
        : nodes_(nodes), trunks_(trunks), receive_blocks_(receive_blocks), pool_(pool) {}

    // Joins the ports of the topology file.
    void lay_all();
    // Lays a cable between two ports without a link; one of them must be a switch port.
    [[nodiscard]] std::expected<void, std::string> link(const PortId& a, const PortId& b);
    // Removes the cable of a port; a link over a connection goes down.
    [[nodiscard]] std::expected<void, std::string> unlink(const PortId& port);
    // Undoes unlink(). `port` is either end of the cable.
    [[nodiscard]] std::expected<void, std::string> relink(const PortId& port);
    // Removes the cables of a phantom. Its links remain, for the connections of the device that
    // replaces it.
    void cut_node(uint32_t node);

    // Carries a bounded number of packets from node to node; false: no packet is left.
    [[nodiscard]] bool deliver();
    [[nodiscard]] bool is_idle() const { return ready_.empty(); }

  private:
    struct Link {
        PortId a, b;
        std::unique_ptr<Cable> cable;  // nullptr: a link over a connection
    };

    void cable_ready(Cable& cable) override { ready_.push_back(&cable); }
    void join(const PortId& a, const PortId& b);
    [[nodiscard]] uint32_t free_index();
    void lay(Link& link);
    void cut(Link& link);
    void tell_neighbours(const Link& link);
    [[nodiscard]] SwitchPort* connection_port(const PortId& port);
    void note(const PortId& port, LinkChange change);

    FabricNodes& nodes_;
    Trunks& trunks_;
    const uint32_t receive_blocks_;
    PacketPool& pool_;
    std::deque<Cable*> ready_;
    std::vector<uint32_t> free_links_;  // unused indexes of links_
    std::vector<Link> links_;           // destroyed first, because cables use the other members
};

}  // namespace pib::fabric
