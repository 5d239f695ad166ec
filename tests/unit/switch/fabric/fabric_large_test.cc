// SPDX-License-Identifier: GPL-2.0-or-later
// 2,000 hosts and 155 switches in one process, and a subnet manager's heavy sweep of them.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <set>

#include "fabric_sweep.h"
#include "fat_tree.h"

namespace pib::test {
namespace {

namespace pi = ib::port_info;

constexpr FatTree kTree{.pods = 10, .leaves = 10, .hosts = 20, .middles = 5, .up = 1};
constexpr uint64_t kOwnGuid = 0x9000;

}  // namespace

TEST_CASE("a fabric of 2,000 hosts: every node answers a sweep and takes its LID") {
    const std::string text = kTree.text();
    TopologyNet net(text.c_str());
    FakeHca& own = net.connect("host0-0", kOwnGuid);
    FabricSweep sweep(net, own);
    sweep.run();
    CHECK(sweep.nodes.size() == kTree.all_hosts() + kTree.all_switches());
    // Each link between switches was seen from both ends, the others from the switch.
    CHECK(sweep.ends_up == 2 * kTree.all_links() - kTree.all_hosts());

    std::set<std::string> descriptions;
    uint16_t lid = 0;
    for (const auto& [guid, found] : sweep.nodes) {
        if (found.switch_ports != 0 || guid == kOwnGuid) {
            continue;
        }
        const auto what = sweep.ask(ib::Method::kGet, ib::attr::kNodeDescription, 0, found.path);
        const auto* chars = reinterpret_cast<const char*>(what.smp_data().data());
        descriptions.emplace(chars, ::strnlen(chars, what.smp_data().size()));
        ib::Mad info = sweep.ask(ib::Method::kGet, ib::attr::kPortInfo, 1, found.path);
        ib::set(info.smp_data(), pi::kLid, ++lid);
        ib::set(info.smp_data(), pi::kMasterSmLid, 1);
        ib::set(info.smp_data(), pi::kPortPhysicalState, 0);
        ib::set(info.smp_data(), pi::kPortState, static_cast<unsigned>(ib::PortState::kArmed));
        info = sweep.ask(ib::Method::kSet, ib::attr::kPortInfo, 1, found.path, info.smp_data());
        CHECK(ib::get(info.smp_data(), pi::kLid) == lid);
    }
    CHECK(lid == kTree.all_hosts() - 1);
    CHECK(descriptions.size() == kTree.all_hosts() - 1);
    CHECK(descriptions.contains("host99-19"));
    CHECK(sweep.asked > 10'000);
}

}  // namespace pib::test
