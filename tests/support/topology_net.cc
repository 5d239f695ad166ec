// SPDX-License-Identifier: GPL-2.0-or-later
// See topology_net.h.
#include "topology_net.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace pib::test {
namespace {

namespace pi = ib::port_info;

std::vector<std::unique_ptr<fabric::Fabric>> make_parts(
    const char* text, const std::vector<std::vector<std::string>>& parts) {
    std::vector<std::unique_ptr<fabric::Fabric>> made;
    for (const auto& own : parts) {
        auto topology = fabric::parse_topology(text, "net");
        REQUIRE(topology);
        auto part = fabric::Fabric::make(std::move(*topology), {}, own);
        REQUIRE(part);
        made.push_back(std::move(*part));
    }
    return made;
}

}  // namespace

// ---- cables between parts

TrunkCarrier::TrunkCarrier(fabric::Trunk& from, fabric::Fabric& to)
    : trunk_(from),
      connecting_(std::make_unique<fabric::SwitchEndpoint>(from, owner_)),
      listening_(std::make_unique<fabric::SwitchEndpoint>(to, owner_)) {}

bool TrunkCarrier::carry(fabric::SwitchEndpoint& from, fabric::SwitchEndpoint& to) {
    bool moved = false;
    while (!from.output().empty()) {
        const auto out = from.output();
        const auto space = to.input_space();
        const size_t n = std::min(out.size(), space.size());
        std::ranges::copy(out.first(n), space.begin());
        from.consume_output(n);
        moved = true;
        if (const auto fed = to.feed_input(n); !fed) {
            error = error.empty() ? fed.error().text : error;
            break;
        }
    }
    return moved;
}

bool TrunkCarrier::carry() {
    if (!is_open() || stalled) {
        return false;
    }
    const bool there = carry(*connecting_, *listening_);
    const bool back = carry(*listening_, *connecting_);
    if (!error.empty()) {
        cut();
    }
    return there || back;
}

void TrunkCarrier::cut() {
    connecting_.reset();
    listening_.reset();
}

// ---- the net

TopologyNet::TopologyNet(const char* text, std::vector<std::vector<std::string>> parts)
    : fabrics_(make_parts(text, parts)), fabric(fabrics_[0].get()) {
    settle();
}

FakeHca& TopologyNet::connect(const link::Hello& hello, unsigned part) {
    hcas_.push_back(std::make_unique<FakeHca>(*fabrics_[part], hello));
    settle();
    return *hcas_.back();
}

FakeHca& TopologyNet::connect(const std::string& name, uint64_t guid, unsigned part) {
    auto hello = make_hello(guid);
    hello.node_description = name;
    return connect(hello, part);
}

void TopologyNet::join(unsigned from, unsigned to) {
    const auto trunks = fabrics_[from]->trunks_to({});
    REQUIRE(trunks);
    for (fabric::Trunk* trunk : *trunks) {
        cables.push_back(std::make_unique<TrunkCarrier>(*trunk, *fabrics_[to]));
    }
    settle();
}

void TopologyNet::settle() {
    for (bool moved = true; moved;) {
        moved = false;
        for (const auto& part : fabrics_) {
            part->advance(now_ns_);
            moved = part->deliver() || moved;
        }
        for (const auto& cable : cables) {
            moved = cable->carry() || moved;
        }
        for (const auto& hca : hcas_) {
            moved = hca->carry() || moved;
        }
    }
}

void TopologyNet::advance(uint64_t ns) {
    now_ns_ += ns;
    settle();
}

fabric::Switch& TopologyNet::sw(std::string_view name) {
    for (const auto& part : fabrics_) {
        const auto node = part->find_node(name);
        REQUIRE(node);
        if (part->nodes()[*node].sw != nullptr) {
            return *part->nodes()[*node].sw;
        }
    }
    FAIL("no switch of this name");
    std::abort();
}

// ---- its subnet manager

std::optional<ib::Mad> TopologyNet::query(ib::Method method, uint16_t attribute, uint32_t modifier,
                                          std::vector<uint8_t> path,
                                          std::span<const uint8_t> data) {
    ib::Mad smp = make_smp(method, attribute, modifier, data);
    smp.set(ib::mad_header::kTransactionId, next_transaction_);
    path.insert(path.begin(), 1);
    smp.bytes[7] = static_cast<uint8_t>(path.size());
    std::ranges::copy(path, initial_path(smp).begin() + 1);
    hcas_[0]->send_smp(smp);
    settle();
    const auto& answers = hcas_[0]->answers;
    const auto answer = std::ranges::find(answers, next_transaction_++, &ib::Mad::transaction_id);
    return answer == answers.end() ? std::nullopt : std::optional(*answer);
}

uint64_t TopologyNet::node_guid(std::vector<uint8_t> path) {
    const auto got = query(ib::Method::kGet, ib::attr::kNodeInfo, 0, std::move(path));
    return got ? ib::get(got->smp_data(), ib::node_info::kNodeGuid) : 0;
}

void TopologyNet::set_port(const std::vector<uint8_t>& path, unsigned port,
                           const std::vector<TestFabric::Change>& changes) {
    auto got = query(ib::Method::kGet, ib::attr::kPortInfo, port, path);
    REQUIRE(got);
    ib::set(got->smp_data(), pi::kPortState, 0);
    ib::set(got->smp_data(), pi::kPortPhysicalState, 0);
    for (const auto& change : changes) {
        ib::set(got->smp_data(), change.field, change.value);
    }
    const auto set = query(ib::Method::kSet, ib::attr::kPortInfo, port, path, got->smp_data());
    REQUIRE(set);
    CHECK(set->status() == 0);
}

void TopologyNet::activate(const std::vector<uint8_t>& path, unsigned port) {
    for (const auto state : {ib::PortState::kArmed, ib::PortState::kActive}) {
        set_port(path, port, {{pi::kPortState, static_cast<unsigned>(state)}});
    }
}

void TopologyNet::set_route(const std::vector<uint8_t>& path, const std::vector<uint8_t>& ports) {
    std::array<uint8_t, 64> block;
    block.fill(fabric::kNoPort);
    std::ranges::copy(ports, block.begin());
    REQUIRE(query(ib::Method::kSet, ib::attr::kLinearForwardingTable, 0, path, block));
    auto info = query(ib::Method::kGet, ib::attr::kSwitchInfo, 0, path);
    ib::set(info->smp_data(), ib::switch_info::kLinearFdbTop, 60);
    query(ib::Method::kSet, ib::attr::kSwitchInfo, 0, path, info->smp_data());
}

}  // namespace pib::test
