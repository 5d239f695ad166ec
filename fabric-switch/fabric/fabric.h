// SPDX-License-Identifier: GPL-2.0-or-later
// All nodes and cables of one process: a single switch, or the fabric of a topology file, with a
// phantom for each channel adapter until a virtual machine replaces it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/agenda.h"
#include "fabric/phantom.h"
#include "fabric/topology.h"
#include "links/crossing.h"
#include "links/memory_cable.h"
#include "switch/switch.h"

namespace pib::fabric {

class Fabric final : public Admission, private CableScheduler, private OriginSink {
  public:
    // One switch that admits any device at its ports.
    explicit Fabric(const SwitchConfig& config);
    // `defaults`: for values of switches that the file does not set. `own`: the switches of this
    // process, by id, description or GUID, with their adapters; the others are in other processes.
    // Empty: all. The error is a one-line message for the user.
    [[nodiscard]] static std::expected<std::unique_ptr<Fabric>, std::string> make(
        Topology topology, const SwitchConfig& defaults, const std::vector<std::string>& own = {});
    ~Fabric() override;

    // A port of a node, by the node's index.
    struct PortId {
        std::uint32_t node = 0;
        std::uint8_t port = 0;
        bool operator==(const PortId&) const = default;
    };
    struct Node {
        std::string id;
        std::string description;
        std::unique_ptr<Switch> sw;           // or
        std::unique_ptr<PhantomHca> phantom;  // or neither: a virtual machine, connected or not
        bool elsewhere = false;               // or in another process
        std::vector<std::uint32_t> links;     // by port number - 1, index into links; kNoLink
        std::vector<PortId> unlinked;         // by port number - 1: peer before unlink(); port 0
    };
    struct Link {
        PortId a, b;
        std::unique_ptr<MemoryCable> cable;  // none: a link over a connection
    };
    static constexpr std::uint32_t kNoLink = UINT32_MAX;

    [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
    [[nodiscard]] bool has_topology() const { return !topology_.nodes.empty(); }
    // By id, description, or GUID in hexadecimal with 0x. No value if there is none, or several.
    [[nodiscard]] std::optional<std::uint32_t> find_node(std::string_view name) const;
    [[nodiscard]] std::expected<PortId, std::string> find_port(std::string_view node,
                                                               unsigned port) const;
    // The port of a switch; for a channel adapter the switch port at its other end.
    [[nodiscard]] std::expected<PortId, std::string> switch_port(std::string_view node,
                                                                 unsigned port) const;
    [[nodiscard]] std::vector<Switch*> switches() const;
    // The port at the other end; no value if there is no link.
    [[nodiscard]] std::optional<PortId> peer(const PortId& port) const;
    void set_tap(PacketTap* tap);
    // The trunks to these nodes of other processes; if `nodes` is empty, all trunks that this side
    // does not connect yet. A single switch gets one more trunk, at its highest free port.
    [[nodiscard]] std::expected<std::vector<Crossing*>, std::string> crossings_to(
        const std::vector<std::string>& nodes);

    // --- cables, while all runs (fabric_links.cc). The way to a virtual machine cannot be laid
    // elsewhere: it goes down and comes back. Errors are one line for a user.
    [[nodiscard]] std::expected<void, std::string> link(const PortId& a, const PortId& b);
    [[nodiscard]] std::expected<void, std::string> unlink(const PortId& port);
    // Restores the cable that unlink() removed, from either end.
    [[nodiscard]] std::expected<void, std::string> relink(const PortId& port);

    // Moves the clock. Must precede all reports of links.
    void advance(std::uint64_t now_ns) { agenda_.advance(now_ns); }
    [[nodiscard]] std::uint64_t now_ns() const { return agenda_.clock().now_ns; }
    // Carries a bounded number of packets from node to node; false: no packet is left.
    bool deliver();
    // Valid while no packet is under way. UINT64_MAX: none.
    [[nodiscard]] std::uint64_t next_deadline();

    [[nodiscard]] link::LinkEndpoint::Buffers link_buffers() const override;
    [[nodiscard]] std::uint32_t link_features() const override { return defaults_.link_features(); }
    [[nodiscard]] std::expected<Place, ib::link::Refuse> admit(
        const ib::link::Hello& hello) override;

  private:
    Fabric(Topology topology, const SwitchConfig& defaults);
    [[nodiscard]] static std::expected<void, std::string> check(const Topology& topology);
    [[nodiscard]] std::expected<void, std::string> choose(const std::vector<std::string>& own);
    [[nodiscard]] std::expected<void, std::string> follow_switches();
    void build();
    void add_crossing(const Link& link);
    [[nodiscard]] std::expected<Crossing*, std::string> trunk();
    void cable_ready(MemoryCable& cable) override { ready_.push_back(&cable); }
    void release_origin(const Origin&) override {}
    void add_switch(Node& at, const TopologyNode& node);
    void add_phantom(Node& at, const TopologyNode& node);
    void add_links();
    void lay_cable(Link& link);
    void cut(Link& link);
    void join(const PortId& a, const PortId& b);
    void forget(std::uint32_t index);
    [[nodiscard]] SwitchPort* cable_switch(const PortId& port);
    [[nodiscard]] std::string name_of(const PortId& port) const;
    [[nodiscard]] LinkUser& user(const PortId& port);
    void tell_neighbours(const Link& link);
    [[nodiscard]] std::expected<Place, ib::link::Refuse> admit_switch(const ib::link::Hello& hello);
    [[nodiscard]] std::expected<PortId, ib::link::Refuse> find_place(
        const ib::link::Hello& hello) const;
    [[nodiscard]] std::optional<std::uint32_t> find_adapter(std::string_view description) const;
    void give_way(std::uint32_t node);

    Topology topology_;
    SwitchConfig defaults_;
    Agenda agenda_;
    PacketPool pool_{*this};
    std::vector<Node> nodes_;
    std::deque<MemoryCable*> ready_;
    std::vector<std::uint32_t> free_links_;  // unused indexes of links_
    std::vector<std::unique_ptr<Crossing>> crossings_;
    std::vector<Link> links_;  // after all that cables use
};

}  // namespace pib::fabric
