// SPDX-License-Identifier: GPL-2.0-or-later
// The nodes of a fabric, in the order of the topology file, and the port that each port is joined
// to. Without a file there is one node, a switch.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/phantom.h"
#include "fabric/topology.h"
#include "switch/switch.h"

namespace pib::fabric {

// A port, by its node's index and its number; number 0: no port.
struct PortId {
    uint32_t node = 0;
    uint8_t port = 0;
    bool operator==(const PortId&) const = default;
};

class FabricNodes {
  public:
    struct Node {
        std::string id;
        std::string description;
        std::unique_ptr<Switch> sw;           // set for a switch of this process
        std::unique_ptr<PhantomHca> phantom;  // set for an adapter that no VM has replaced yet
        bool remote = false;                  // in another process: sw and phantom are not set
        std::string owner;                    // name of the peer that the node is bound to
        std::vector<uint32_t> links;          // by port number - 1: the link's index, or kNoLink
        std::vector<PortId> unlinked;         // by port number - 1: the peer before unlink()
    };
    static constexpr uint32_t kNoLink = UINT32_MAX;

    // Creates no switch and no phantom yet.
    explicit FabricNodes(Topology topology);
    // A fabric without a topology, whose node is the switch `only`.
    explicit FabricNodes(std::unique_ptr<Switch> only);

    [[nodiscard]] const std::vector<Node>& all() const { return nodes_; }
    [[nodiscard]] Node& operator[](uint32_t node) { return nodes_[node]; }
    [[nodiscard]] bool has_topology() const { return !topology_.nodes.empty(); }
    // The nodes of the file. Their links follow the cables that are laid and removed later.
    [[nodiscard]] const Topology& topology() const { return topology_; }
    [[nodiscard]] std::vector<Switch*> switches() const;

    // `name`: id, description, or GUID with 0x. No value if no node has it, or several have.
    [[nodiscard]] std::optional<uint32_t> find(std::string_view name) const;
    // A port of the node that find() finds. Here and below, errors are one line for a user.
    [[nodiscard]] std::expected<PortId, std::string> find_port(std::string_view node,
                                                               unsigned port) const;
    // The same for a switch; for a channel adapter, the switch port at the other end of the link.
    [[nodiscard]] std::expected<PortId, std::string> switch_port(std::string_view node,
                                                                 unsigned port) const;
    // The port at the other end; no value if there is no link.
    [[nodiscard]] std::optional<PortId> peer(const PortId& port) const;
    // The port's name in messages for an operator.
    [[nodiscard]] std::string name_of(const PortId& port) const;
    // A port of a switch or phantom of this process.
    [[nodiscard]] LinkUser& user(const PortId& port);

    // Sets the link of both ports, which become each other's peers.
    void join(const PortId& a, const PortId& b, uint32_t link);
    // Removes the link of both ports; each remembers its last peer.
    void separate(const PortId& a, const PortId& b);
    // The link of a port, or kNoLink.
    [[nodiscard]] uint32_t link_of(const PortId& port) const {
        return nodes_[port.node].links[port.port - 1U];
    }

  private:
    Topology topology_;
    std::vector<Node> nodes_;
};

}  // namespace pib::fabric
