// SPDX-License-Identifier: GPL-2.0-or-later
// A connection for whose frames the switch has no memory ends; the switch and its other connections
// go on.
#include "links/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <new>

#include "lingering.h"
#include "memory_hca.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

struct Host final : fabric::ConnectionHost {
    fabric::Poller epoll;
    unsigned closed = 0;
    unsigned made_busy = 0;
    fabric::Poller& poller() override { return epoll; }
    [[nodiscard]] bool shares_memory() const override { return true; }
    void schedule(fabric::Connection&) override {}
    void make_busy(fabric::Connection&) override { ++made_busy; }
    bool may_handshake() override { return true; }
    void close(fabric::Connection& connection) override {
        ++closed;
        connection.link.close();
        connection.close_fds();
    }
    void note(const fabric::Connection&, const std::string&) override {}
};

// The port of the peer; admit() and pump() throw std::bad_alloc if the test sets their flag.
struct Place final : fabric::Admission, fabric::LinkUser {
    bool full_at_hello = false;
    bool full_at_pump = false;
    bool attached = false;
    unsigned downs = 0;

    static void check(bool full) {
        if (full) {
            throw std::bad_alloc();
        }
    }
    link::LinkEndpoint::Buffers link_buffers() const override { return make_buffers(); }
    uint32_t link_features() const override { return link::kFeatureSharedMemory; }
    std::expected<fabric::Admission::Place, link::Refuse> admit(const link::Hello&,
                                                                const fabric::Peer&) override {
        check(full_at_hello);
        return fabric::Admission::Place{.port = this, .number = 1, .name = "port 1"};
    }
    void attach(fabric::Neighbour& neighbour) override {
        attached = true;
        neighbour.set_parameters(make_parameters());
    }
    void detach() override { attached = false; }
    void link_up(const link::ActiveLink&) override {}
    void link_down() override { ++downs; }
    uint32_t receive(const ib::Burst& burst, const fabric::OfferRecord*) override {
        return burst.count();
    }
    void receive_fault(link::PacketFault) override {}
    void pump() override { check(full_at_pump); }
};

struct Other final : fabric::PollHandler {
    unsigned turns = 0;
    void ready(uint32_t) override { ++turns; }
    void out_of_memory() override {}
};

struct Peers {
    Place place;
    Host host;
    UniqueFd peer;
    std::unique_ptr<fabric::Connection> connection;

    Peers() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
        peer = UniqueFd(ends[0]);
        connection = std::make_unique<fabric::Connection>(
            static_cast<fabric::ConnectionHost&>(host), static_cast<fabric::Admission&>(place),
            fabric::Connection::Socket{.fd = UniqueFd(ends[1]), .tls = nullptr}, 0);
        REQUIRE(connection->start());
    }
    void send_hello(uint32_t features = link::kFeatureSharedMemory) const {
        LinkRecorder recorder;
        auto hello = make_hello(0x1000);
        hello.features = features;
        const link::LinkEndpoint end(hello, make_buffers(), recorder);
        send(end.output());
    }
    void send(std::span<const uint8_t> bytes) const {
        REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()));
    }
    void turn() {
        host.epoll.wait(0, [] {});
    }
};

}  // namespace

TEST_CASE("connection: without memory for a peer's frames the peer is closed, others go on") {
    Peers peers;
    Other other;
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    const UniqueFd here(ends[0]);
    const UniqueFd there(ends[1]);
    REQUIRE(::send(there.get(), "x", 1, 0) == 1);
    REQUIRE(peers.host.epoll.add(here.get(), EPOLLIN, other));

    peers.place.full_at_hello = true;
    peers.send_hello();
    peers.turn();
    CHECK(peers.host.closed == 1);
    CHECK(other.turns == 1);
    CHECK(peers.connection->reason() == "out of memory");
}

TEST_CASE("connection: a descriptor before HELLO that closes slowly delays no turn") {
    Peers peers;
    REQUIRE(peers.host.closer().start());
    Lingering passed;
    REQUIRE(send_with_fds(peers.peer.get(), Bytes{1}, {passed.near.get()}));
    passed.near.reset();
    peers.turn();
    CHECK(peers.host.closed == 1);
    CHECK_FALSE(peers.connection->is_open());
    char byte;
    CHECK(::recv(peers.peer.get(), &byte, 1, MSG_DONTWAIT) == 0);
}

TEST_CASE("connection: a turn of a socket ends after a few LINKs, and later turns serve the rest") {
    Peers peers;
    peers.send_hello(0);
    peers.turn();
    REQUIRE(peers.place.attached);
    Bytes flood;
    constexpr uint16_t kLinks = 100;
    for (uint16_t i = 0; i < kLinks; ++i) {
        auto parameters = make_parameters();
        parameters.epoch = static_cast<uint16_t>(1 + i);
        append(flood, parameters);
    }
    peers.send(flood);
    // The rest of the flood waits in the endpoint, so the socket reports nothing more.
    peers.turn();
    CHECK(peers.host.made_busy == 1);
    unsigned turns = 1, before = 0;
    CHECK(peers.place.downs <= 8);
    for (; !peers.connection->link.may_sleep(); ++turns) {
        before = peers.place.downs;
        REQUIRE(peers.connection->serve());
        CHECK(peers.place.downs - before <= 8);
    }
    CHECK(turns > kLinks / 8);
    CHECK(peers.place.downs == kLinks - 1);
}

TEST_CASE("connection: without memory for a ring's turn the link ends and its port is free") {
    Peers peers;
    peers.send_hello();
    peers.turn();
    REQUIRE(peers.place.attached);
    REQUIRE(peers.connection->serve());

    peers.place.full_at_pump = true;
    CHECK_FALSE(peers.connection->serve());
    CHECK(peers.host.closed == 1);
    CHECK_FALSE(peers.place.attached);
    CHECK_FALSE(peers.connection->is_open());
}

TEST_CASE("connection: without memory for output the link ends and its port is free") {
    Peers peers;
    peers.send_hello();
    peers.turn();
    REQUIRE(peers.place.attached);
    REQUIRE_FALSE(peers.connection->link.output().empty());  // WELCOME

    peers.place.full_at_pump = true;
    peers.connection->write();
    CHECK(peers.host.closed == 1);
    CHECK_FALSE(peers.place.attached);
    CHECK(peers.connection->reason() == "out of memory");
}

}  // namespace pib::test
