// SPDX-License-Identifier: GPL-2.0-or-later
// Admission: the port of a connecting device, refusals, and garbage.
#include <catch2/catch_test_macros.hpp>

#include "test_fabric.h"

namespace pib::test {
namespace {

constexpr uint64_t kGuid = 0x0650000000009000;

fabric::SwitchConfig two_ports() {
    auto config = TestFabric::default_config();
    config.num_ports = 2;
    return config;
}

}  // namespace

TEST_CASE("admission: a device gets the lowest free port, and the same one after a reconnect") {
    TestFabric fabric;
    CHECK(fabric.add_hca(kGuid).port() == 1);
    CHECK(fabric.add_hca(kGuid + 16).port() == 2);
    CHECK(fabric.add_hca(kGuid + 32).port() == 3);
    fabric.hca(0).disconnect();
    fabric.hca(1).disconnect();
    CHECK(fabric.add_hca(kGuid + 48).port() == 4);
    CHECK(fabric.add_hca(kGuid + 16).port() == 2);
    CHECK(fabric.add_hca(kGuid).port() == 1);
    CHECK(fabric.sw.admission().neighbour(4)->port_guid.value() == kGuid + 48 + 1);
    CHECK(fabric.sw.admission().neighbour(5) == nullptr);
}

TEST_CASE("admission: a second device with the same GUID is refused, the first one stays") {
    TestFabric fabric;
    fabric.add_hca(kGuid);
    FakeHca& twin = fabric.add_hca(kGuid);
    REQUIRE(twin.refusals.size() == 1);
    CHECK(twin.refusals[0].reason == link::RefuseReason::kDuplicatePortGuid);
    CHECK(twin.refusals[0].text.find("port 1") != std::string::npos);
    CHECK(fabric.hca(0).own_end().is_up());
}

// Port 0 of the switch has the node's GUID as its port GUID, and GUIDs are unique in a subnet.
TEST_CASE("admission: a device with the GUID of the switch itself is refused") {
    TestFabric fabric;
    const ib::Guid own = fabric.sw.config().node_guid;
    auto port_has_it = make_hello(kGuid);
    port_has_it.port_guid = own;
    for (const auto& hello : {make_hello(own.value()), port_has_it}) {
        const FakeHca& hca = fabric.add(std::make_unique<FakeHca>(fabric.sw.admission(), hello));
        REQUIRE(hca.refusals.size() == 1);
        CHECK(hca.refusals[0].reason == link::RefuseReason::kDuplicatePortGuid);
        CHECK(hca.refusals[0].text.find("same GUID") != std::string::npos);
    }
    CHECK(fabric.sw.admission().neighbour(1) == nullptr);
}

TEST_CASE("admission: a switch and an adapter with the same GUID are not connected at once") {
    auto first_of_switch = make_hello(kGuid);
    first_of_switch.role = link::Role::kSwitch;
    first_of_switch.port_guid = first_of_switch.node_guid;
    auto second_of_switch = first_of_switch;
    second_of_switch.port_number = 2;
    auto adapter = make_hello(kGuid + 16);
    adapter.port_guid = first_of_switch.port_guid;
    TestFabric fabric;
    const auto connect = [&](const link::Hello& hello) -> FakeHca& {
        return fabric.add(std::make_unique<FakeHca>(fabric.sw.admission(), hello));
    };
    const auto is_refused = [&](const link::Hello& hello, const char* port) {
        const FakeHca& refused = connect(hello);
        REQUIRE(refused.refusals.size() == 1);
        CHECK(refused.refusals[0].reason == link::RefuseReason::kNotAllowed);
        return refused.refusals[0].text.find(port) != std::string::npos;
    };
    FakeHca& first = connect(first_of_switch);
    CHECK(first.port() == 1);
    CHECK(is_refused(adapter, "the switch at port 1"));
    FakeHca& second = connect(second_of_switch);
    CHECK(second.port() == 2);
    first.disconnect();
    CHECK(is_refused(adapter, "the switch at port 2"));
    second.disconnect();
    CHECK(connect(adapter).port() == 3);
    CHECK(is_refused(first_of_switch, "the device at port 3"));
}

TEST_CASE("admission: a device is refused until a port is free") {
    TestFabric fabric(0, two_ports());
    fabric.add_hca(kGuid);
    fabric.add_hca(kGuid + 16);
    FakeHca& third = fabric.add_hca(kGuid + 32);
    REQUIRE(third.refusals.size() == 1);
    CHECK(third.refusals[0].reason == link::RefuseReason::kNoFreePort);
    fabric.hca(1).disconnect();
    CHECK(fabric.add_hca(kGuid + 32).port() == 2);
}

TEST_CASE("admission: bad HELLOs are refused with a reason") {
    struct Case {
        size_t offset;
        uint8_t value;
        link::RefuseReason reason;
    };
    const Case cases[] = {
        {8, 'X', link::RefuseReason::kMalformedHello},    // magic
        {13, 2, link::RefuseReason::kVersion},            // major version
        {20, 9, link::RefuseReason::kMalformedHello},     // role
        {21, 0, link::RefuseReason::kMalformedHello},     // port number
        {22, 1, link::RefuseReason::kMalformedHello},     // reserved
        {119, 1, link::RefuseReason::kMalformedHello},    // reserved
        {48, 0xFF, link::RefuseReason::kMalformedHello},  // description is not UTF-8
    };
    for (const Case& c : cases) {
        INFO("offset " << c.offset);
        TestFabric fabric;
        LinkRecorder recorder;
        link::LinkEndpoint source(make_hello(kGuid), make_buffers(), recorder);
        recorder.endpoint = &source;
        Bytes hello(source.output().begin(), source.output().end());
        hello[c.offset] = c.value;
        struct Owner : fabric::SwitchEndpoint::Owner {
            void link_output_ready() override {}
            void link_note(const std::string&) override {}
        } owner;
        fabric::SwitchEndpoint sw_link(fabric.sw.admission(), owner);
        std::ranges::copy(hello, sw_link.input_space().begin());
        const auto fed = sw_link.feed_input(hello.size());
        REQUIRE_FALSE(fed);
        CHECK(fed.error().error == link::LinkError::kRefused);
        CHECK_FALSE(feed(source, sw_link.output()));
        REQUIRE(recorder.refusals.size() == 1);
        CHECK(recorder.refusals[0].reason == c.reason);
        CHECK_FALSE(recorder.refusals[0].text.empty());
    }
}

TEST_CASE("admission: garbage ends its own connection only") {
    TestFabric fabric(2);
    fabric.make_active();
    uint32_t random = 99;
    for (unsigned round = 0; round < 200; ++round) {
        struct Owner : fabric::SwitchEndpoint::Owner {
            void link_output_ready() override {}
            void link_note(const std::string&) override {}
        } owner;
        fabric::SwitchEndpoint sw_link(fabric.sw.admission(), owner);
        const auto space = sw_link.input_space();
        for (size_t i = 0; i < 500; ++i) {
            random = random * 1664525 + 1013904223;
            space[i] = static_cast<uint8_t>(random >> 24);
        }
        CHECK_FALSE(sw_link.feed_input(500));
    }
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, 2, 64, 1)));
    fabric.settle();
    CHECK(fabric.hca(1).packets.size() == 1);
}

TEST_CASE("admission: a flapping link leaks nothing") {
    TestFabric fabric(2);
    fabric.make_active();
    for (unsigned round = 0; round < 1000; ++round) {
        fabric.hca(1).own_end().training().set_parameters(make_parameters(round % 2 == 1));
        fabric.advance(1'000'000);
    }
    CHECK(fabric.hca(1).own_end().is_up());
    CHECK(fabric.count(2, ib::Counter::kLinkDowned) == 500);
    CHECK(fabric.sw.node().port0().traps.pending.size() <= 2);
    CHECK(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {}, {2}));
}

}  // namespace pib::test
