// SPDX-License-Identifier: GPL-2.0-or-later
// Descriptors that arrive without the rest of their MEMORY frame are held for a limited time.
#include "links/unfinished_memory.h"

#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "links/connection.h"
#include "memory_hca.h"
#include "test_fabric.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

constexpr uint64_t kSecond = 1'000'000'000;

struct Host final : fabric::ConnectionHost {
    fabric::Poller epoll;
    fabric::Poller& poller() override { return epoll; }
    [[nodiscard]] bool shares_memory() const override { return true; }
    void schedule(fabric::Connection&) override {}
    void make_busy(fabric::Connection&) override {}
    bool may_handshake() override { return true; }
    void close(fabric::Connection& connection) override {
        connection.link.close();
        connection.close_fds();
    }
    void note(const fabric::Connection&, const std::string&) override {}
};

// An adapter whose link has agreed on peer copy.
struct Adapter {
    UniqueFd fd;
    std::unique_ptr<fabric::Connection> connection;

    Adapter(Host& host, fabric::Switch& sw, uint64_t guid) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
        fd = UniqueFd(ends[0]);
        connection = std::make_unique<fabric::Connection>(
            static_cast<fabric::ConnectionHost&>(host),
            static_cast<fabric::Admission&>(sw.admission()),
            fabric::Connection::Socket{.fd = UniqueFd(ends[1]), .tls = nullptr}, 0);
        REQUIRE(connection->start());
        LinkRecorder recorder;
        auto hello = make_hello(guid);
        hello.features = kCopyFeatures;
        const link::LinkEndpoint end(hello, make_buffers(), recorder);
        REQUIRE(send_with_fds(fd.get(), Bytes(end.output().begin(), end.output().end()), {}));
        host.epoll.wait(0, [] {});
        REQUIRE(connection->link.takes_memory());
    }
    // The first byte of MEMORY, with these descriptors.
    void begin(Host& host, size_t fds = 1) const {
        REQUIRE(send_with_fds(fd.get(), Bytes{8}, std::vector<int>(fds, fd.get())));
        host.epoll.wait(0, [] {});
    }
};

}  // namespace

TEST_CASE("unfinished memory: a connection is overdue 10 s after its first descriptor") {
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    Adapter first(host, sw, 0x100), second(host, sw, 0x200);
    fabric::UnfinishedMemory& unfinished = host.unfinished_memory();
    CHECK(unfinished.overdue(kSecond) == nullptr);
    CHECK(unfinished.next_deadline() == UINT64_MAX);

    first.begin(host);
    CHECK(unfinished.overdue(5 * kSecond) == nullptr);
    CHECK(unfinished.next_deadline() == 15 * kSecond);
    second.begin(host);
    // Further bytes and descriptors give no further time.
    first.begin(host);
    CHECK(unfinished.overdue(6 * kSecond) == nullptr);
    CHECK(unfinished.next_deadline() == 15 * kSecond);
    CHECK(unfinished.overdue(15 * kSecond - 1) == nullptr);
    CHECK(unfinished.overdue(15 * kSecond) == first.connection.get());
    unfinished.remove(*first.connection);
    CHECK(unfinished.overdue(15 * kSecond) == nullptr);
    CHECK(unfinished.overdue(16 * kSecond) == second.connection.get());
}

TEST_CASE("unfinished memory: a connection without descriptors is never overdue") {
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    const Adapter adapter(host, sw, 0x100);
    fabric::UnfinishedMemory& unfinished = host.unfinished_memory();
    SECTION("the first byte of MEMORY came without any") {
        adapter.begin(host, 0);
    }
    SECTION("the connection has ended") {
        adapter.begin(host);
        CHECK(unfinished.overdue(kSecond) == nullptr);
        CHECK(unfinished.next_deadline() == 11 * kSecond);
        host.close(*adapter.connection);
    }
    CHECK(unfinished.overdue(100 * kSecond) == nullptr);
    CHECK(unfinished.next_deadline() == UINT64_MAX);
}

TEST_CASE("unfinished memory: the program closes only overdue connections, also without HELLO") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    const Program program;
    MemoryHca good(program.fabric_path(), 0x100), slow(program.fabric_path(), 0x200);
    ShownMemory shown;
    good.share(shown);
    REQUIRE(good.until([&] { return good.end->peer_copy().can_offer(); }));
    const auto silent = fabric::connect_unix(program.fabric_path());
    REQUIRE(silent);
    slow.send(Bytes{8}, {shown.control_memory.fd.get()});
    CHECK(slow.until([&] { return slow.closed; }));
    CHECK(eventually([&] {
        char byte;
        return ::recv(silent->get(), &byte, 1, MSG_DONTWAIT) == 0;
    }));
    good.pump();
    CHECK_FALSE(good.closed);
}

}  // namespace pib::test
