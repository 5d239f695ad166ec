// SPDX-License-Identifier: GPL-2.0-or-later
// A port and its connection: handshake, refusal, loss, reset, disabling.
#include <new>

#include "port/stream_input.h"
#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
using ib::PhysState;
using ib::PortState;

TEST_CASE("a port without a switch is Down and Polling") {
    PortBench bench;
    CHECK(bench.state() == PortState::kDown);
    CHECK(bench.attrs().phys_state() == PhysState::kPolling);
    CHECK_FALSE(bench.port().is_active());
    CHECK(bench.ports.next_deadline() == kNever);
}

TEST_CASE("a connection sends HELLO and trains the link") {
    PortBench bench;
    bench.connect();
    REQUIRE(bench.peer_events.hellos.size() == 1);
    const auto& hello = bench.peer_events.hellos[0];
    CHECK(hello.role == link::Role::kChannelAdapter);
    CHECK(hello.port_number == 1);
    CHECK(hello.node_guid.value() == 0x5254000000000001);
    CHECK(hello.port_guid.value() == 0x5254000000000011);
    CHECK(hello.node_description == "bench");
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.attrs().phys_state() == PhysState::kLinkUp);
    CHECK(bench.attrs().get(ib::port_info::kLinkWidthActive) == 2);
    CHECK(bench.attrs().get(ib::port_info::kLinkSpeedExtActive) == 8);
    CHECK(bench.take_events() == 0);  // the port did not enter or leave Active
}

TEST_CASE("a refusal is logged once and closes the connection") {
    PortBench bench;
    bench.peer_events.answer =
        std::unexpected(link::Refuse{link::RefuseReason::kNoFreePort, "the switch is full"});
    bench.connect();
    bench.connect();
    CHECK(bench.state() == PortState::kDown);
    CHECK(bench.host.links[1].closes == 2);
    REQUIRE(bench.host.warnings.size() == 1);
    CHECK(bench.host.warnings[0].find("the switch is full") != std::string::npos);

    bench.peer_events.answer = link::Welcome{.switch_guid = ib::Guid(5), .port_number = 1};
    bench.connect();
    CHECK(bench.state() == PortState::kInitialize);
}

TEST_CASE("a peer that breaks the protocol loses its link, with no other effect") {
    PortBench bench;
    bench.bring_up();
    const Bytes garbage(64, 0xee);
    bench.port().link_rx(garbage);
    CHECK(bench.state() == PortState::kDown);
    CHECK(bench.host.links[1].closes == 1);
    CHECK(bench.host.warnings.size() == 1);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_ERROR);
    CHECK(bench.counter(ib::Counter::kLinkDowned) == 1);
    bench.port().link_rx(garbage);  // bytes that were still under way
    bench.port().link_closed();
    CHECK(bench.last_event_count == 1);

    bench.bring_up();
    CHECK(bench.port().lid() == PortBench::kLid);
}

TEST_CASE("the loss of the connection takes an Active port Down with one event") {
    PortBench bench;
    bench.bring_up();
    bench.disconnect();
    CHECK(bench.state() == PortState::kDown);
    CHECK(bench.attrs().phys_state() == PhysState::kPolling);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_ERROR);
    CHECK(bench.last_event_count == 1);
    bench.connect();
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.take_events() == 0);
}

TEST_CASE("a warm reset takes the port through Down and keeps the SM's settings") {
    PortBench bench;
    bench.bring_up();
    REQUIRE(announce_sm(bench) == CmdStatus::kOk);
    bench.ports.reset(false);
    bench.pump();
    CHECK(bench.peer_events.downs == 1);
    CHECK(bench.peer_events.ups == 2);
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.port().lid() == PortBench::kLid);
    CHECK((bench.attrs().get(ib::port_info::kCapabilityMask) & ib::port_cap::kIsSm) == 0);
    CHECK(bench.attrs().traps.pending.empty());
    CHECK(bench.host.links[1].closes == 0);
    CHECK(bench.counter(ib::Counter::kLinkDowned) == 0);
}

TEST_CASE("a cold reset sets the port to its power-on state") {
    PortBench bench;
    bench.bring_up();
    bench.ports.reset(true);
    bench.pump();
    CHECK(bench.peer_events.ups == 2);
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.port().lid() == 0);
    CHECK(bench.attrs().sm_lid().value() == 0);
    CHECK(bench.port().pkey(0) == 0xffff);
}

TEST_CASE("the SM disables the port and gets the answer before the link goes down") {
    PortBench bench;
    bench.bring_up();
    const auto disable = [](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kPortPhysicalState,
                static_cast<unsigned>(PhysState::kDisabled));
    };
    CHECK(bench.set_port_info(disable) == 0);
    CHECK(bench.state() == PortState::kDown);
    CHECK(bench.attrs().phys_state() == PhysState::kDisabled);
    CHECK(bench.peer_events.downs == 1);
    CHECK_FALSE(bench.peer->is_up());
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_ERROR);
    // A new connection changes nothing: the port stays disabled.
    bench.disconnect();
    bench.connect();
    CHECK(bench.state() == PortState::kDown);
    CHECK_FALSE(bench.peer->is_up());
}

TEST_CASE("Set(PortState Down) retrains the link") {
    PortBench bench;
    bench.bring_up();
    const auto down = [](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kPortState, static_cast<unsigned>(PortState::kDown));
    };
    CHECK(bench.set_port_info(down) == 0);
    CHECK(bench.peer_events.downs == 1);
    CHECK(bench.peer_events.ups == 2);
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_ERROR);
}

TEST_CASE("new enabled widths and speeds take effect at the next training") {
    PortBench bench;
    bench.bring_up();
    const auto slower = [](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kLinkSpeedExtEnabled, 1);
    };
    CHECK(bench.set_port_info(slower) == 0);
    CHECK(bench.port().is_active());
    CHECK(bench.attrs().get(ib::port_info::kLinkSpeedExtActive) == 8);
    const auto down = [](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kPortState, static_cast<unsigned>(PortState::kDown));
    };
    CHECK(bench.set_port_info(down) == 0);
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.attrs().get(ib::port_info::kLinkSpeedExtActive) == 1);
}

TEST_CASE("frames are sent in batches and wait while the host accepts none") {
    PortBench bench;
    bench.bring_up(8192);
    for (unsigned i = 0; i < 20; ++i) {
        REQUIRE(bench.send_data(0x20));
    }
    CHECK(bench.host.links[1].sent.empty());
    bench.ports.flush();
    CHECK(bench.host.links[1].sent.size() > 20 * 64);
    // First the host's buffer is full, then the port's; both empty when the peer reads again.
    bench.host.links[1].sent.resize(FakeHost::kLinkCapacity);
    unsigned sent = 20;
    while (bench.send_data(0x20, 2048)) {
        REQUIRE(++sent < 4096);
    }
    CHECK(sent > 64);
    CHECK(bench.host.links[1].blocked);
    bench.host.links[1].sent.clear();
    CHECK(bench.client.ready == 0);
    bench.port().link_writable();
    CHECK(bench.client.ready == 1);
    CHECK(bench.send_data(0x20, 2048));
}

TEST_CASE("a link that is closed drops the packet that is being written") {
    PortBench bench;
    bench.bring_up();
    const TxRequest request{.dlid = 0x20, .sl = 0, .vl15 = false, .bytes = 92};
    REQUIRE(bench.port().begin(request).packets == 1);
    bench.port().link_closed();
    bench.port().commit(ib::BurstSize::of(request.bytes), {});
    CHECK(bench.state() == PortState::kDown);
    bench.bring_up();
    CHECK(bench.send_data(0x20));
}

TEST_CASE("a turn of a stream ends after some LINKs, and later turns handle the rest") {
    constexpr unsigned kLinks = 1000;
    PortBench bench;
    bench.bring_up();
    for (unsigned i = 0; i < kLinks; ++i) {
        bench.peer->training().retrain();
    }
    const Bytes bytes(bench.peer->output().begin(), bench.peer->output().end());
    bench.peer->consume_output(bytes.size());
    const uint64_t before = bench.counter(ib::Counter::kLinkDowned);
    bench.port().link_rx(bytes);
    CHECK(bench.port().link_is_behind());
    CHECK(bench.counter(ib::Counter::kLinkDowned) - before < kLinks / 2);
    bench.pump();
    CHECK_FALSE(bench.port().link_is_behind());
    CHECK(bench.counter(ib::Counter::kLinkDowned) - before == kLinks);
    CHECK(bench.state() == PortState::kInitialize);
    CHECK(bench.peer_error.empty());
}

TEST_CASE("no bytes of a stream wait after a turn without memory") {
    StreamInput input;
    const Bytes bytes(3 * 4096);
    input.receive(bytes, [](std::span<const uint8_t>) { return uint64_t{1} << 20; });
    REQUIRE(input.waits());
    const auto fail = [](std::span<const uint8_t>) -> uint64_t { throw std::bad_alloc(); };
    CHECK_THROWS_AS(input.receive({}, fail), std::bad_alloc);
    CHECK_FALSE(input.waits());
}
