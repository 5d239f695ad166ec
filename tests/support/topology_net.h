// SPDX-License-Identifier: GPL-2.0-or-later
// The nodes of a topology file in one Fabric, or in several that trunks join, and adapters that
// connect to them; all in memory and in one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "test_fabric.h"

namespace pib::test {

// A trunk between two parts: `from` opens the connection.
class TrunkCarrier {
  public:
    TrunkCarrier(fabric::Trunk& from, fabric::Fabric& to);
    // Carries bytes both ways once; false if there were none, or if the trunk has ended.
    bool carry();
    void cut();
    [[nodiscard]] bool is_open() const { return connecting_ != nullptr; }
    [[nodiscard]] fabric::Trunk& trunk() const { return trunk_; }

    bool stalled = false;  // true: carry() carries nothing
    std::string error;     // why the trunk ended

  private:
    struct Owner final : fabric::SwitchEndpoint::Owner {
        void link_output_ready() override {}
        void link_note(const std::string&) override {}
    };
    bool carry(fabric::SwitchEndpoint& from, fabric::SwitchEndpoint& to);

    fabric::Trunk& trunk_;
    Owner owner_;
    std::unique_ptr<fabric::SwitchEndpoint> connecting_, listening_;
};

class TopologyNet {
  public:
    // `parts`: the switches of each process.
    explicit TopologyNet(const char* text, std::vector<std::vector<std::string>> parts = {{}});

    FakeHca& connect(const link::Hello& hello, unsigned part = 0);
    FakeHca& connect(const std::string& name, uint64_t guid = 0x77, unsigned part = 0);
    // Connects all trunks from one part to another. Ended trunks stay in `cables`, closed.
    void join(unsigned from, unsigned to);
    void settle();
    void advance(uint64_t ns);
    [[nodiscard]] fabric::Fabric& part(unsigned index) { return *fabrics_[index]; }
    [[nodiscard]] fabric::Switch& sw(std::string_view name);
    [[nodiscard]] bool up(std::string_view name, unsigned port) {
        return sw(name).port(port).attrs().link_is_up();
    }

    // --- a subnet manager at the first adapter. `path`: switch ports after the adapter's own.
    std::optional<ib::Mad> query(ib::Method method, uint16_t attribute, uint32_t modifier,
                                 std::vector<uint8_t> path, std::span<const uint8_t> data = {});
    // NodeGUID of the node at `path`; 0 without an answer.
    uint64_t node_guid(std::vector<uint8_t> path);
    void set_port(const std::vector<uint8_t>& path, unsigned port,
                  const std::vector<TestFabric::Change>& changes);
    void activate(const std::vector<uint8_t>& path, unsigned port);
    // Sets the egress ports of LIDs 0, 1, ... in the LFT of the switch at `path`.
    void set_route(const std::vector<uint8_t>& path, const std::vector<uint8_t>& ports);

  private:
    // Destroyed last, because the links of adapters and trunks refer to the fabrics.
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
    std::vector<std::unique_ptr<FakeHca>> hcas_;
    uint64_t now_ns_ = 1'000'000'000;
    uint64_t next_transaction_ = 1;

  public:
    std::vector<std::unique_ptr<TrunkCarrier>> cables;
    fabric::Fabric* const fabric;  // the first part
};

}  // namespace pib::test
