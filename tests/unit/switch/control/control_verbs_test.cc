// SPDX-License-Identifier: GPL-2.0-or-later
// ibsim's verbs on a running fabric.
#include "control/control_verbs.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>

#include "topology_net.h"

namespace pib::test {
namespace {

constexpr const char* kTopology = R"(
Switch 4 "left"  # "left leaf"
[1] "a"[1]
[4] "right"[4]

Switch 4 "right"
[1] "b"[1]
[4] "left"[4]

Ca 2 "a"
[1] "left"[1]

Ca 1 "b"
[1] "right"[1]
)";

struct Net : TopologyNet {
    Net() : TopologyNet(kTopology) {}
    // Runs a verb; returns its error, or "" if the verb succeeded.
    std::string run(std::string_view line) {
        const auto done = fabric::run_verb(*fabric, line);
        advance(1'000'000);
        return done ? "" : done.error();
    }
    [[nodiscard]] ib::SmaNode& phantom(std::string_view name) {
        return fabric->nodes()[*fabric->find_node(name)].phantom->node();
    }
};

// A directed-route Get for the switch next to the adapter.
ib::Mad get(uint16_t attribute) {
    ib::Mad smp = make_smp(ib::Method::kGet, attribute, 0);
    smp.bytes[7] = 1;  // HopCount
    initial_path(smp)[1] = 1;
    return smp;
}

}  // namespace

TEST_CASE("verbs: a cable is removed, restored, and laid to another port") {
    Net net;
    REQUIRE(net.up("left", 4));
    CHECK(net.run("Unlink \"left leaf\"[4]").empty());
    CHECK_FALSE(net.up("left", 4));
    CHECK_FALSE(net.up("right", 4));
    CHECK(net.run("unlink left[4]").find("has no link") != std::string::npos);
    CHECK(net.run("ReLink right[4]").empty());
    CHECK(net.up("left", 4));
    CHECK(net.run("Unlink right[4]").empty());
    CHECK(net.run("Link left[4] right[2]").empty());
    CHECK(net.up("right", 2));
    CHECK_FALSE(net.up("right", 4));
    CHECK(net.run("ReLink right[4]").find("has a link") != std::string::npos);
    CHECK(net.run("Link a[2] right[3]").empty());
    CHECK(net.phantom("a").ports[1].link_is_up());
}

TEST_CASE("verbs: the journals of both ends have cables and faults") {
    Net net;
    const auto newest = [&](const char* name) {
        fabric::Switch& sw = *net.fabric->nodes()[*net.fabric->find_node(name)].sw;
        REQUIRE_FALSE(sw.journal().entries().empty());
        return sw.journal().entries().back();
    };
    using fabric::LinkChange;
    CHECK(net.run("Unlink left[4]").empty());
    for (const char* name : {"left", "right"}) {
        CHECK(newest(name).change == LinkChange::kDown);
        CHECK(newest(name).port == 4);
    }
    CHECK_FALSE(net.run("Unlink left[4]").empty());
    CHECK(newest("left").change == LinkChange::kDown);
    CHECK(net.run("ReLink right[4]").empty());
    for (const char* name : {"left", "right"}) {
        CHECK((newest(name).change == LinkChange::kUp ||
               newest(name).change == LinkChange::kCableBack));
    }
    CHECK(net.run("Error a[1] 50").empty());
    CHECK(newest("left").change == LinkChange::kFaults);
    CHECK(newest("left").port == 1);
    CHECK(newest("left").detail == "drop 0.5, only management packets");
    CHECK(net.run("Clear left[1]").empty());
    const auto& entries =
        net.fabric->nodes()[*net.fabric->find_node("left")].sw->journal().entries();
    const auto has = [&](LinkChange change, const char* detail) {
        return std::ranges::any_of(entries, [&](const fabric::LinkJournal::Entry& entry) {
            return entry.change == change && entry.detail == detail && entry.port == 1;
        });
    };
    CHECK(has(LinkChange::kFaults, "none"));
    CHECK(has(LinkChange::kCablePulled, ""));
}

TEST_CASE("verbs: a whole node is unlinked and relinked") {
    Net net;
    CHECK(net.run("Unlink \"left\"").empty());
    CHECK_FALSE(net.up("left", 1));
    CHECK_FALSE(net.up("right", 4));
    CHECK(net.up("right", 1));
    CHECK(net.run("ReLink \"left\"").empty());
    CHECK(net.up("left", 1));
    CHECK(net.up("right", 4));
}

TEST_CASE("verbs: Clear resets a port") {
    Net net;
    CHECK(net.run("Baselid b 17 2").empty());
    CHECK(net.run("PerformanceSet b[1] PortCounters.SymbolErrors=9").empty());
    CHECK(net.run("Error b[1] 50").empty());
    auto& port = net.phantom("b").ports[0];
    CHECK(port.lid().value() == 17);
    CHECK(port.lmc() == 2);
    CHECK(net.sw("right").port(1).ingress_faults().spec().drop == 0.5);
    CHECK(net.run("Clear b[1]").empty());
    CHECK(port.lid().value() == 0);
    CHECK_FALSE(port.link_is_up());
    CHECK_FALSE(net.sw("right").port(1).ingress_faults().spec().any());
    auto& counters = net.fabric->nodes()[*net.fabric->find_node("b")].phantom->counters(1);
    CHECK(counters.value(ib::Counter::kSymbolErrors) == 0);
}

TEST_CASE("verbs: counters and LIDs are set") {
    Net net;
    CHECK(net.run("PerformanceSet left[4] FECUncorrectableBlockCtrLane11=3").empty());
    CHECK(net.sw("left").counters(4).value(
              ib::counter_of(ib::Counter::kFecUncorrectableBlocksLane, 11)) == 3);
    CHECK(net.run("PerformanceSet left[4] PortRcvErrors=70000").empty());
    CHECK(net.sw("left").counters(4).value(ib::Counter::kPortRcvErrors,
                                           ib::CounterView::kExtended) == 70000);
    CHECK(net.run("Baselid left 0x30").empty());
    CHECK(net.sw("left").node().port0().lid().value() == 0x30);
}

TEST_CASE("verbs: Trap counts a link error and sends its trap") {
    Net net;
    CHECK(net.run("Trap left[4] 129").empty());
    CHECK(net.run("trap left[4] 0x82").empty());
    CHECK(net.run("Trap left[4] 131").empty());
    const auto count = [](const ib::PortCounters& of) {
        return std::array{of.value(ib::Counter::kLocalLinkIntegrityErrors),
                          of.value(ib::Counter::kExcessiveBufferOverrunErrors),
                          of.value(ib::Counter::kPortVlXmitFlowCtlUpdateErrors)};
    };
    CHECK(count(net.sw("left").counters(4)) == std::array<uint64_t, 3>{1, 1, 1});
    const auto& waiting = net.sw("left").node().port0().traps.pending;
    const auto told = std::ranges::count_if(waiting, [](const auto& trap) {
        const auto number = ib::get(trap.notice, ib::notice::kTrapNumber);
        return number >= 129 && number <= 131 &&
               ib::get(trap.notice, ib::notice_details::kPortNumber) == 4;
    });
    CHECK(told == 3);

    auto& port = net.phantom("b").ports[0];
    port.set(ib::port_info::kPortState, static_cast<unsigned>(ib::PortState::kActive));
    CHECK(net.run("Trap b[1] 131").empty());
    CHECK(count(net.fabric->nodes()[*net.fabric->find_node("b")].phantom->counters(1))[2] == 1);
    REQUIRE(port.traps.pending.size() == 1);
    CHECK(ib::get(port.traps.pending[0].notice, ib::notice_details::kPortNumber) == 1);
}

TEST_CASE("verbs: Error drops only the MADs of one attribute") {
    Net net;
    FakeHca& vm = net.connect("a");
    REQUIRE(net.up("left", 1));
    CHECK(net.run("Error a[1] 100 0x11").empty());
    const auto asked = [&](uint16_t attribute) {
        const size_t before = vm.answers.size();
        vm.send_smp(get(attribute));
        net.settle();
        return vm.answers.size() - before;
    };
    CHECK(asked(ib::attr::kNodeInfo) == 0);
    CHECK(asked(ib::attr::kNodeDescription) == 1);
    CHECK(net.run("Error a[1] 0").empty());
    CHECK(asked(ib::attr::kNodeInfo) == 1);
}

TEST_CASE("verbs: a virtual machine's cable is removed and restored, but not moved") {
    Net net;
    net.connect("a");
    CHECK(net.run("Unlink a[1]").empty());
    CHECK_FALSE(net.up("left", 1));
    CHECK(net.run("Link a[1] right[3]").find("has a link") != std::string::npos);
    CHECK(net.run("ReLink a[1]").empty());
    CHECK(net.up("left", 1));
    CHECK(net.run("Baselid a[1] 3").find("virtual machine") != std::string::npos);
    CHECK(net.run("PerformanceSet a[1] PortRcvErrors=1").find("virtual machine") !=
          std::string::npos);
    CHECK(net.run("Link a[2] right[3]").find("virtual machine") != std::string::npos);
    CHECK(net.run("Trap a[1] 129").find("virtual machine") != std::string::npos);
}

TEST_CASE("verbs: an invalid line is refused and changes nothing") {
    Net net;
    for (const char* line : {"Explode left",
                             "Unlink",
                             "Unlink left[4] right[4]",
                             "Unlink left[0]",
                             "Unlink left[5]",
                             "Unlink nobody[1]",
                             "Unlink \"",
                             "Unlink left[x]",
                             "Link left[2]",
                             "Link left[2] left[2]",
                             "Link left[4] right[2]",
                             "Link a[2] b[1]",
                             "Error left[1] 101",
                             "Error left[1] -1",
                             "Error left[1] x",
                             "Error left[1] 5 65536",
                             "Error left[2]",
                             "PerformanceSet left[1] x=1",
                             "PerformanceSet left[1] PortRcvErrors",
                             "PerformanceSet left PortRcvErrors=1",
                             "PerformanceSet left[1] PortRcvErrors=",
                             "Trap left[4] 128",
                             "Trap left[4] x",
                             "Trap left 129",
                             "Trap nobody[1] 129",
                             "Baselid left 0xC000",
                             "Baselid left 1 8",
                             "Baselid left",
                             "Baselid nobody 1",
                             "ReLink left[4]"}) {
        INFO(line);
        CHECK_FALSE(net.run(line).empty());
    }
    CHECK(net.run("").empty());
    CHECK(net.run("  # a comment").empty());
    CHECK(net.up("left", 1));
    CHECK(net.up("left", 4));
}

TEST_CASE("verbs: a single switch has cables to its machines only") {
    fabric::Fabric one(TestFabric::default_config());
    CHECK_FALSE(fabric::run_verb(one, "Link \"test switch\"[1] \"test switch\"[2]"));
    const std::string name = one.nodes()[0].id;
    CHECK(fabric::run_verb(one, "Unlink \"" + name + "\"[1]"));
    CHECK_FALSE(one.nodes()[0].sw->port(1).cable().is_plugged());
    CHECK(fabric::run_verb(one, "ReLink \"" + name + "\"[1]"));
    CHECK(one.nodes()[0].sw->port(1).cable().is_plugged());
}

}  // namespace pib::test
