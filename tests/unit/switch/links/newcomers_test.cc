// SPDX-License-Identifier: GPL-2.0-or-later
// Silent connections at the program: connections of one origin do not displace another's. The
// program distinguishes users at a socket.
#include "links/newcomers.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "free_port.h"
#include "links/connection.h"
#include "links/connection_peer.h"
#include "socket_hca.h"
#include "test_fabric.h"
#include "tls_files.h"

namespace pib::test {
namespace {

using fabric::Peer;
using fabric::UniqueFd;

constexpr uid_t kStranger = 65534;

// Connects as another user; the caller must be root.
UniqueFd connect_as(uid_t user, const std::string& path) {
    std::vector<gid_t> groups(static_cast<size_t>(::getgroups(0, nullptr)));
    REQUIRE(::getgroups(static_cast<int>(groups.size()), groups.data()) >= 0);
    REQUIRE(::setgroups(0, nullptr) == 0);
    REQUIRE(::setegid(user) == 0);
    REQUIRE(::seteuid(user) == 0);
    auto fd = fabric::connect_unix(path);
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(::setegid(0) == 0);
    REQUIRE(::setgroups(groups.size(), groups.data()) == 0);
    return fd ? std::move(*fd) : UniqueFd();
}

struct Host final : fabric::ConnectionHost {
    fabric::Poller epoll;
    fabric::Poller& poller() override { return epoll; }
    [[nodiscard]] bool shares_memory() const override { return false; }
    void schedule(fabric::Connection&) override {}
    void make_busy(fabric::Connection&) override {}
    bool may_handshake() override { return true; }
    void close(fabric::Connection&) override {}
    void note(const fabric::Connection&, const std::string&) override {}
};

std::unique_ptr<fabric::Connection> connection(Host& host, fabric::Switch& sw, UniqueFd fd,
                                               uint64_t at_ns) {
    return std::make_unique<fabric::Connection>(
        static_cast<fabric::ConnectionHost&>(host), static_cast<fabric::Admission&>(sw.admission()),
        fabric::Connection::Socket{.fd = std::move(fd), .tls = nullptr}, at_ns);
}

// A connection that arrived at this time and sends nothing.
std::unique_ptr<fabric::Connection> silent(Host& host, fabric::Switch& sw, uint64_t at_ns) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const UniqueFd peer(ends[1]);
    return connection(host, sw, UniqueFd(ends[0]), at_ns);
}

// Both ends of a TCP connection; no call on them blocks.
struct Ends {
    UniqueFd here;  // the accepted end
    UniqueFd peer;
};

// Connects `from` to `to`, a loopback address.
template <typename Address>
Ends connect_between(Address to, const Address& from, int family) {
    const UniqueFd listener(::socket(family, SOCK_STREAM, 0));
    UniqueFd peer(::socket(family, SOCK_STREAM, 0));
    socklen_t size = sizeof(to);
    auto* const at = reinterpret_cast<sockaddr*>(&to);
    REQUIRE(::bind(listener.get(), at, size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    REQUIRE(::getsockname(listener.get(), at, &size) == 0);
    if (const int on = 1; family == AF_INET6) {
        REQUIRE(::setsockopt(peer.get(), IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on)) == 0);
    }
    REQUIRE(::bind(peer.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0);
    REQUIRE(::connect(peer.get(), at, size) == 0);
    REQUIRE(::fcntl(peer.get(), F_SETFL, O_NONBLOCK) == 0);
    return {UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK)), std::move(peer)};
}

// A connection from this loopback address.
Ends connect_from(uint32_t source) {
    sockaddr_in to{}, from{};
    to.sin_family = from.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(source);
    return connect_between(to, from, AF_INET);
}

// A silent connection from this loopback address.
std::unique_ptr<fabric::Connection> silent_from(Host& host, fabric::Switch& sw, uint32_t source) {
    return connection(host, sw, connect_from(source).here, 0);
}

// A silent connection from 2001:db8:0:7::`host_part`.
std::unique_ptr<fabric::Connection> silent_from_v6(Host& host, fabric::Switch& sw,
                                                   uint8_t host_part) {
    sockaddr_in6 to{}, from{};
    to.sin6_family = from.sin6_family = AF_INET6;
    to.sin6_addr = IN6ADDR_LOOPBACK_INIT;
    from.sin6_addr = {{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, host_part}}};
    return connection(host, sw, connect_between(to, from, AF_INET6).here, 0);
}

// A network namespace in which the addresses of 2001:db8::/32 are this host's; the destructor
// leaves it.
class OwnNetwork {
  public:
    OwnNetwork() : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
        entered_ = ::unshare(CLONE_NEWNET) == 0;
        works_ = entered_ && ::system(
                                 "ip link set lo up 2>/dev/null && ip -6 route add local "
                                 "2001:db8::/32 dev lo 2>/dev/null") == 0;
    }
    ~OwnNetwork() {
        if (entered_) {
            ::setns(home_.get(), CLONE_NEWNET);
        }
    }
    OwnNetwork(const OwnNetwork&) = delete;
    OwnNetwork& operator=(const OwnNetwork&) = delete;
    [[nodiscard]] bool works() const { return works_; }

  private:
    UniqueFd home_;
    bool entered_ = false;
    bool works_ = false;
};

}  // namespace

TEST_CASE("newcomers: a connection without HELLO is overdue after 10 s") {
    constexpr uint64_t kSecond = 1'000'000'000;
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    fabric::Newcomers newcomers;
    CHECK(newcomers.next_deadline() == UINT64_MAX);
    const auto first = silent(host, sw, 5 * kSecond), second = silent(host, sw, 6 * kSecond);
    newcomers.add(*first);
    newcomers.add(*second);
    CHECK(newcomers.next_deadline() == 15 * kSecond);
    CHECK(newcomers.overdue(15 * kSecond - 1) == nullptr);
    CHECK(newcomers.overdue(15 * kSecond) == first.get());
    newcomers.remove(*first);
    CHECK(newcomers.overdue(15 * kSecond) == nullptr);
    CHECK(newcomers.overdue(16 * kSecond) == second.get());
}

TEST_CASE("newcomers: the oldest connection is closed if all origins have equally many") {
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    fabric::Newcomers newcomers;
    std::vector<std::unique_ptr<fabric::Connection>> all;
    for (size_t i = 0; i < fabric::Newcomers::kMost; ++i) {
        CHECK(newcomers.one_too_many(Peer{}) == nullptr);
        // The addresses descend, so that in the order of addresses the newest connection is first.
        all.push_back(silent_from(host, sw, 0x7f00'01ff - static_cast<uint32_t>(i)));
        newcomers.add(*all.back());
    }
    CHECK(newcomers.one_too_many(Peer{}) == all.front().get());
}

TEST_CASE("newcomers: if two hosts have equally many connections the one that connects loses one") {
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    fabric::Newcomers newcomers;
    std::vector<std::unique_ptr<fabric::Connection>> all;
    constexpr uint32_t kFirst = INADDR_LOOPBACK + 1, kSecond = INADDR_LOOPBACK + 2;
    constexpr size_t kHalf = fabric::Newcomers::kMost / 2;
    for (size_t i = 0; i < fabric::Newcomers::kMost; ++i) {
        all.push_back(silent_from(host, sw, i < kHalf ? kFirst : kSecond));
        newcomers.add(*all.back());
    }
    CHECK(newcomers.one_too_many(all[kHalf]->peer()) == all[kHalf].get());
    CHECK(newcomers.one_too_many(all.front()->peer()) == all.front().get());
}

TEST_CASE("newcomers: a host with many addresses of an IPv6 network pushes out its own first") {
    const OwnNetwork network;
    if (!network.works()) {
        SKIP("network namespaces cannot be made, or there is no IPv6");
    }
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    fabric::Newcomers newcomers;
    std::vector<std::unique_ptr<fabric::Connection>> all;
    // Each address of the IPv6 network has one connection. The IPv4 address has 28 connections.
    constexpr size_t kOfOneAddress = 28;
    for (size_t i = 0; i < fabric::Newcomers::kMost; ++i) {
        CHECK(newcomers.one_too_many(Peer{}) == nullptr);
        all.push_back(i < kOfOneAddress ? silent_from(host, sw, INADDR_LOOPBACK)
                                        : silent_from_v6(host, sw, static_cast<uint8_t>(i)));
        newcomers.add(*all.back());
    }
    CHECK(newcomers.one_too_many(Peer{}) == all[kOfOneAddress].get());
}

TEST_CASE("newcomers: IPv6 addresses with the same 64-bit prefix count as one network") {
    const auto peer = [](const char* text) {
        addrinfo numeric{};
        numeric.ai_flags = AI_NUMERICHOST;
        numeric.ai_socktype = SOCK_STREAM;
        addrinfo* at = nullptr;
        REQUIRE(::getaddrinfo(text, nullptr, &numeric, &at) == 0);
        sockaddr_storage address{};
        std::memcpy(&address, at->ai_addr, at->ai_addrlen);
        const fabric::Peer found = fabric::peer_of_tcp(address, at->ai_addrlen);
        ::freeaddrinfo(at);
        CHECK(found.origin == text);
        return found;
    };
    CHECK(peer("2001:db8:0:7::1").network == "2001:db8:0:7::");
    CHECK(peer("2001:db8:0:7:ffff::2").network == "2001:db8:0:7::");
    CHECK(peer("2001:db8:0:8::1").network == "2001:db8:0:8::");
    CHECK(peer("192.0.2.1").network == "192.0.2.1");
    CHECK(peer("::ffff:192.0.2.1").network == "::ffff:192.0.2.1");
}

TEST_CASE("newcomers: a peer with a certificate is of the network from which it connects") {
    TlsFiles files;
    const auto of_switch = fabric::TlsCredentials::load(files.add_switch("one", "100"));
    REQUIRE(of_switch);
    const auto of_peer = TlsFiles::load_host(files.add_host("vm", "any"));
    Host host;
    fabric::Switch sw(TestFabric::default_config());
    auto [here, peer] = connect_from(INADDR_LOOPBACK + 1);
    const auto session = of_peer->connect(peer.get(), {});
    REQUIRE(session);
    auto accepted = (*of_switch)->accept(here.get());
    fabric::Connection switch_end(
        static_cast<fabric::ConnectionHost&>(host), static_cast<fabric::Admission&>(sw.admission()),
        fabric::Connection::Socket{.fd = std::move(here), .tls = std::move(accepted)}, 0);
    REQUIRE(switch_end.start());
    using Progress = fabric::TlsSession::Progress;
    auto progress = Progress::kWaits;
    REQUIRE(eventually([&] {
        progress = progress == Progress::kWaits ? session->handshake() : progress;
        host.epoll.wait(0, [] {});
        return progress == Progress::kFailed || switch_end.peer().grant.has_value();
    }));
    CHECK(switch_end.peer().name == "certificate vm");
    CHECK(switch_end.peer().origin == "127.0.0.2");
    CHECK(switch_end.peer().network == "127.0.0.2");
}

TEST_CASE("newcomers: silent connections of one origin take no place of another origin") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const std::string address = "tcp:127.0.0.1:" + free_port();
    Program program({"--listen", address});

    SocketHca late(program.fabric_path(), 0x1000);  // silent until it is pumped
    const auto to = fabric::resolve(*fabric::Address::parse(address));
    REQUIRE(to);
    std::vector<UniqueFd> flood;
    for (size_t i = 0; i < 3 * fabric::Newcomers::kMost; ++i) {
        auto fd = fabric::begin_connect(to->front());
        REQUIRE(fd);
        flood.push_back(std::move(*fd));
    }
    // The switch closes this connection when kMost later connections have come.
    CHECK(eventually([&] {
        char byte;
        return ::recv(flood[fabric::Newcomers::kMost].get(), &byte, 1, MSG_DONTWAIT) == 0;
    }));
    CHECK(late.until([&] { return late.end->is_up(); }));
}

TEST_CASE("newcomers: another user's device does not get the port of an absent device") {
    if (!have_program() || ::geteuid() != 0) {
        SKIP("PIB_SWITCH is not set, or the test does not run as root");
    }
    Program program({"--socket-mode", "0666"});
    REQUIRE(::chmod(program.directory().c_str(), 0755) == 0);
    {
        SocketHca first(program.fabric_path(), 0x1000);
        REQUIRE(first.until([&] { return first.end->is_up(); }));
    }
    CHECK(program.reaches(1, "Down"));
    SocketHca stranger(program.fabric_path(), 0x1000);
    stranger.fd = connect_as(kStranger, program.fabric_path());
    REQUIRE(stranger.fd);
    REQUIRE(stranger.until([&] { return stranger.closed; }));
    REQUIRE(stranger.recorder.refusals.size() == 1);
    CHECK(stranger.recorder.refusals[0].reason == link::RefuseReason::kNotAllowed);
    CHECK(stranger.recorder.refusals[0].text.find("user 0") != std::string::npos);
    SocketHca again(program.fabric_path(), 0x1000);
    REQUIRE(again.until([&] { return again.end->is_up(); }));
    const auto status = program.ask({{"command", "status"}});
    CHECK(status.at("ports").at(0).at("neighbour").at("owner") == "user 0");
}

TEST_CASE("newcomers: a user outside the socket's group is refused") {
    if (!have_program() || ::geteuid() != 0) {
        SKIP("PIB_SWITCH is not set, or the test does not run as root");
    }
    const Program program;
    REQUIRE(::chmod(program.directory().c_str(), 0755) == 0);
    CHECK_FALSE(connect_as(kStranger, program.fabric_path()));
    CHECK_FALSE(connect_as(kStranger, program.control_path()));
}

}  // namespace pib::test
