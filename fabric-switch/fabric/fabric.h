// SPDX-License-Identifier: GPL-2.0-or-later
// All nodes and cables of one process: a single switch, or the fabric of a topology file, with a
// phantom for each channel adapter until a virtual machine replaces it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/timer_queue.h"
#include "fabric/fabric_cables.h"
#include "fabric/fabric_nodes.h"
#include "fabric/topology.h"
#include "fabric/trunks.h"
#include "switch/packet_tap.h"

namespace pib::fabric {

class Fabric final : public Admission {
  public:
    using PortId = fabric::PortId;
    using Node = FabricNodes::Node;
    static constexpr uint32_t kNoLink = FabricNodes::kNoLink;

    // A fabric of one switch, which admits any device at its ports.
    explicit Fabric(const SwitchConfig& config);
    // `defaults`: values of switches that the file does not set. `own`: the switches of this
    // process, by id, description or GUID, with their adapters; the others are in other processes.
    // Empty: all. The error is a one-line message for the user.
    [[nodiscard]] static std::expected<std::unique_ptr<Fabric>, std::string> make(
        Topology topology, const SwitchConfig& defaults, const std::vector<std::string>& own = {});
    ~Fabric() override;

    // --- as in FabricNodes
    [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_.all(); }
    [[nodiscard]] bool has_topology() const { return nodes_.has_topology(); }
    [[nodiscard]] std::vector<Switch*> switches() const { return nodes_.switches(); }
    [[nodiscard]] std::optional<uint32_t> find_node(std::string_view name) const {
        return nodes_.find(name);
    }
    [[nodiscard]] std::expected<PortId, std::string> find_port(std::string_view node,
                                                               unsigned port) const {
        return nodes_.find_port(node, port);
    }
    [[nodiscard]] std::expected<PortId, std::string> switch_port(std::string_view node,
                                                                 unsigned port) const {
        return nodes_.switch_port(node, port);
    }
    [[nodiscard]] std::optional<PortId> peer(const PortId& port) const { return nodes_.peer(port); }
    // `tap` receives each packet of this process's switches once, until remove_tap().
    void add_tap(PacketTap& tap);
    void remove_tap(PacketTap& tap);

    // --- functions of Trunks and FabricCables, which describe them
    [[nodiscard]] std::expected<std::vector<Trunk*>, std::string> trunks_to(
        const std::vector<std::string>& nodes) {
        return trunks_.to(nodes);
    }
    [[nodiscard]] std::expected<void, std::string> link(const PortId& a, const PortId& b) {
        return cables_.link(a, b);
    }
    [[nodiscard]] std::expected<void, std::string> unlink(const PortId& port) {
        return cables_.unlink(port);
    }
    [[nodiscard]] std::expected<void, std::string> relink(const PortId& port) {
        return cables_.relink(port);
    }

    // Moves the clock to `now_ns`. Call before links report events.
    void advance(uint64_t now_ns) { timers_.advance(now_ns); }
    [[nodiscard]] uint64_t now_ns() const { return timers_.clock().now_ns; }
    // Carries a bounded number of packets from node to node; false: no packet is left.
    [[nodiscard]] bool deliver() { return cables_.deliver(); }
    // The time of the next advance(): now while packets wait in cables; UINT64_MAX: none.
    [[nodiscard]] uint64_t next_deadline();

    [[nodiscard]] link::LinkEndpoint::Buffers link_buffers() const override;
    [[nodiscard]] uint32_t link_features() const override { return defaults_.link_features(); }
    [[nodiscard]] std::expected<Place, link::Refuse> admit(const link::Hello& hello,
                                                           const Peer& peer) override;

  private:
    // Packets of pool_ have no Origin: cables count the credit blocks of their packets themselves.
    struct NoOrigins final : OriginSink {
        void release_origin(const Origin&) override {}
    };

    Fabric(Topology topology, const SwitchConfig& defaults);
    void build();
    [[nodiscard]] std::expected<Place, link::Refuse> admit_adapter(const link::Hello& hello,
                                                                   const Peer& peer);

    SwitchConfig defaults_;
    TimerQueue timers_;
    NoOrigins no_origins_;
    PacketPool pool_{no_origins_};
    PacketTaps taps_;
    FabricNodes nodes_;
    Trunks trunks_{nodes_};
    FabricCables cables_{nodes_, trunks_, defaults_.receive_blocks, pool_};
};

}  // namespace pib::fabric
