// SPDX-License-Identifier: GPL-2.0-or-later
// What a topology file describes, in one Fabric or in several that are joined by cables between
// processes, with adapters that connect; all in memory and in one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "test_fabric.h"

namespace pib::test {

// A cable between two parts: `from` connects.
class TrunkCarrier {
  public:
    TrunkCarrier(fabric::Trunk& from, fabric::Fabric& to);
    // Carries bytes both ways once; false when there were none, or when it has ended.
    bool carry();
    void cut();
    [[nodiscard]] bool is_open() const { return connecting_ != nullptr; }
    [[nodiscard]] fabric::Trunk& trunk() const { return trunk_; }

    bool stalled = false;  // output that the test does not read
    std::string error;     // why it ended

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
    FakeHca& connect(const std::string& name, std::uint64_t guid = 0x77, unsigned part = 0);
    // All cables between two parts. Those that have ended stay where they are, closed.
    void join(unsigned from, unsigned to);
    void settle();
    void advance(std::uint64_t ns);
    [[nodiscard]] fabric::Fabric& part(unsigned index) { return *fabrics_[index]; }
    [[nodiscard]] fabric::Switch& sw(std::string_view name);
    [[nodiscard]] bool up(std::string_view name, unsigned port) {
        return sw(name).port(port).attrs().link_is_up();
    }

    // --- a subnet manager at the first adapter. `path`: switch ports after the adapter's own.
    std::optional<ib::Mad> query(ib::Method method, std::uint16_t attribute, std::uint32_t modifier,
                                 std::vector<std::uint8_t> path,
                                 std::span<const std::uint8_t> data = {});
    // 0: no answer.
    std::uint64_t node_guid(std::vector<std::uint8_t> path);
    void set_port(const std::vector<std::uint8_t>& path, unsigned port,
                  const std::vector<TestFabric::Change>& changes);
    void activate(const std::vector<std::uint8_t>& path, unsigned port);
    // Egress ports of LIDs 0.., at the switch at the end of `path`.
    void set_route(const std::vector<std::uint8_t>& path, const std::vector<std::uint8_t>& ports);

  private:
    // Links end before what they are links of.
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
    std::vector<std::unique_ptr<FakeHca>> hcas_;
    std::uint64_t now_ns_ = 1'000'000'000;
    std::uint64_t next_transaction_ = 1;

  public:
    std::vector<std::unique_ptr<TrunkCarrier>> cables;
    fabric::Fabric* const fabric;  // the first part
};

}  // namespace pib::test
