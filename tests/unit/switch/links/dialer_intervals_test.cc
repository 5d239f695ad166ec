// SPDX-License-Identifier: GPL-2.0-or-later
// Intervals between the attempts of a dialer, in a time that the test sets.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "fabric/fabric.h"
#include "link_pair.h"
#include "links/dialer.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSecond = 1000 * kMs;

// A listening socket at an address that the kernel has chosen.
struct Listener {
    UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    fabric::SocketAddress address;

    Listener() {
        auto* const at = reinterpret_cast<sockaddr*>(&address.storage);
        at->sa_family = AF_UNIX;
        REQUIRE(::bind(fd.get(), at, sizeof(at->sa_family)) == 0);
        REQUIRE(::listen(fd.get(), 1) == 0);
        address.size = sizeof(address.storage);
        REQUIRE(::getsockname(fd.get(), at, &address.size) == 0);
    }
};

std::unique_ptr<fabric::Fabric> make_fabric() {
    fabric::SwitchConfig config;
    config.num_ports = 4;
    config.node_guid = ib::Guid(0x200);
    return std::make_unique<fabric::Fabric>(config);
}

// A server with one dialer, and the peer that accepts the dialer's connections.
class Server final : private fabric::ConnectionHost {
  public:
    uint64_t now_ns = 3600 * kSecond;

    // Waits until the dialer is due, and accepts its connection; returns the time of the wait.
    uint64_t dial() {
        const uint64_t began_ns = now_ns;
        now_ns = dialer_.due_ns() == 0 ? now_ns : dialer_.due_ns();
        connection_ = dialer_.on_deadline(*this, now_ns);
        REQUIRE(connection_ != nullptr);
        peer_ = UniqueFd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
        REQUIRE(peer_);
        turn();  // sends HELLO
        return now_ns - began_ns;
    }
    void send_welcome() {
        Bytes bytes;
        link::append(bytes, link::Welcome{.switch_guid = ib::Guid(0x100), .port_number = 1});
        send(bytes);
    }
    void send(const Bytes& bytes) {
        REQUIRE(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        turn();
    }
    // The peer closes the connection.
    void lose() {
        peer_.reset();
        turn();
        REQUIRE_FALSE(is_connected());
    }
    // Three attempts without an answer; the next interval is longer than the shortest one.
    void fail_thrice() {
        for (unsigned i = 0; i < 3; ++i) {
            dial();
            lose();
        }
    }
    // Lets the dialer do what is due at its deadline, with the connection that it has.
    void reach_deadline() {
        now_ns = dialer_.due_ns();
        REQUIRE(dialer_.on_deadline(*this, now_ns) == nullptr);
    }
    [[nodiscard]] bool is_connected() const { return connection_->is_open(); }
    [[nodiscard]] uint64_t due_ns() const { return dialer_.due_ns(); }

  private:
    void turn() {
        epoll_.wait(0, [] {});
    }
    fabric::Poller& poller() override { return epoll_; }
    [[nodiscard]] bool shares_memory() const override { return false; }
    void schedule(fabric::Connection&) override {}
    void make_busy(fabric::Connection&) override {}
    bool may_handshake() override { return true; }
    // As in FabricServer, the link has ended when the dialer looks at it.
    void close(fabric::Connection& connection) override {
        connection.link.close();
        connection.close_fds();
        REQUIRE(dialer_.owns(connection));
        dialer_.closed(now_ns);
    }
    void note(const fabric::Connection&, const std::string&) override {}

    fabric::Poller epoll_;
    Listener listener_;
    std::unique_ptr<fabric::Fabric> fabric_ = make_fabric();
    fabric::Dialer dialer_{*fabric_->trunks_to({}).value().front(),
                           {"peer", {listener_.address}, nullptr, {}}};
    std::unique_ptr<fabric::Connection> connection_;
    UniqueFd peer_;
};

// The lines of the log, while it exists.
class Log {
  public:
    Log() {
        auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text_);
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
    }
    ~Log() { spdlog::set_default_logger(before_); }
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;
    // Number of lines with this reason since the last call.
    unsigned take(const std::string& reason) {
        const std::string text = text_.str();
        text_.str({});
        unsigned count = 0;
        for (auto at = text.find(": " + reason + ";"); at != std::string::npos;
             at = text.find(": " + reason + ";", at + 1)) {
            ++count;
        }
        return count;
    }

  private:
    std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
    std::ostringstream text_;
};

}  // namespace

TEST_CASE("dialer: the interval doubles with each attempt without an answer, up to a second") {
    Server server;
    CHECK(server.dial() == 0);
    for (const uint64_t wait_ms : {50, 100, 200, 400, 800, 1000, 1000}) {
        server.lose();
        CHECK(server.dial() == wait_ms * kMs);
    }
}

TEST_CASE("dialer: a connection shortens the interval if it had WELCOME and lasted a second") {
    struct Case {
        bool welcome;
        uint64_t lasted_ns;
        uint64_t wait_ms;
    };
    constexpr Case kCases[] = {
        {true, kSecond, 50},       {true, 3600 * kSecond, 50},
        {true, kSecond - 1, 400},  {true, 0, 400},
        {false, kSecond, 400},     {false, 9 * kSecond, 400},
        {false, kSecond - 1, 400},
    };
    for (const Case& one : kCases) {
        CAPTURE(one.welcome, one.lasted_ns);
        Server server;
        server.fail_thrice();
        CHECK(server.dial() == 200 * kMs);
        if (one.welcome) {
            server.send_welcome();
        }
        server.now_ns += one.lasted_ns;
        REQUIRE(server.is_connected());
        server.lose();
        CHECK(server.dial() == one.wait_ms * kMs);
    }
}

TEST_CASE("dialer: a link that has lasted shortens the interval even if garbage ends it") {
    Server server;
    server.fail_thrice();
    server.dial();
    server.send_welcome();
    server.now_ns += kSecond;
    server.send(Bytes(64, 0xFF));
    CHECK_FALSE(server.is_connected());
    CHECK(server.dial() == 50 * kMs);
}

TEST_CASE("dialer: a wrong WELCOME, however late, does not shorten the interval") {
    Server server;
    server.fail_thrice();
    server.dial();
    server.now_ns += 2 * kSecond;
    Bytes own;
    link::append(own, link::Welcome{.switch_guid = ib::Guid(0x200), .port_number = 1});
    server.send(own);
    CHECK_FALSE(server.is_connected());
    CHECK(server.dial() == 400 * kMs);
}

TEST_CASE("dialer: WELCOME has ten seconds, and the connection has no limit afterwards") {
    Server server;
    server.dial();
    CHECK(server.due_ns() == server.now_ns + 10 * kSecond);
    server.reach_deadline();
    CHECK_FALSE(server.is_connected());
    CHECK(server.dial() == 50 * kMs);
    server.send_welcome();
    server.reach_deadline();
    CHECK(server.is_connected());
    CHECK(server.due_ns() == UINT64_MAX);
}

TEST_CASE("dialer: each reason is logged once in an outage, and again in the next one") {
    Log log;
    Server server;
    const auto connect = [&](uint64_t lasts_ns) {
        server.dial();
        server.send_welcome();
        server.now_ns += lasts_ns;
        server.lose();
    };
    server.fail_thrice();
    CHECK(log.take("no answer") == 1);
    connect(kSecond);
    CHECK(log.take("connection lost") == 1);
    connect(0);
    CHECK(log.take("connection lost") == 0);
    connect(kSecond);
    CHECK(log.take("connection lost") == 1);
}

}  // namespace pib::test
