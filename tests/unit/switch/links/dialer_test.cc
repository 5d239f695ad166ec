// SPDX-License-Identifier: GPL-2.0-or-later
// Two pib-switch processes joined over TCP, and peers that are not real switches.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>

#include "base/address.h"
#include "link_pair.h"
#include "program.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

// A socket that listens on a port that was free, on one loopback address.
class Listener {
  public:
    explicit Listener(const std::string& host) : host_(host) {
        const auto address = fabric::Address::parse("tcp:" + host + ":0");
        REQUIRE(address);
        auto fds = fabric::listen_on(*address);
        if (fds) {
            fd_ = std::move(fds->front());
        }
    }
    [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }
    [[nodiscard]] std::string address() const {
        sockaddr_storage at{};
        socklen_t size = sizeof(at);
        REQUIRE(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
        in_port_t port = 0;  // at the same place for both families
        std::memcpy(&port, reinterpret_cast<const char*>(&at) + offsetof(sockaddr_in, sin_port),
                    sizeof(port));
        return "tcp:" + host_ + ":" + std::to_string(ntohs(port));
    }
    [[nodiscard]] UniqueFd accept() const {
        UniqueFd fd;
        REQUIRE(eventually([&] {
            fd = UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            return static_cast<bool>(fd);
        }));
        return fd;
    }
    void close() { fd_.reset(); }

  private:
    std::string host_;
    UniqueFd fd_;
};

std::string free_address(const std::string& host) {
    return Listener(host).address();
}

bool have(const std::string& host) {
    return have_program() && Listener(host).is_open();
}

constexpr unsigned kTrunk = 4;  // the trunk's port: the last one of four

std::vector<std::string> listening(const std::string& address) {
    return {"--ports", "4", "--guid", "100", "--listen", address};
}
std::vector<std::string> connecting(const std::string& address) {
    return {"--ports", "4", "--guid", "200", "--connect", address};
}

bool is_closed(const UniqueFd& fd) {
    return eventually([&] {
        char buffer[4096];
        const ssize_t n = ::recv(fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno == ECONNRESET);
    });
}

void send_all(const UniqueFd& fd, const std::vector<uint8_t>& bytes) {
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
}

std::vector<uint8_t> welcome(uint64_t guid, uint32_t features = 0) {
    std::vector<uint8_t> bytes;
    link::append(bytes, link::Welcome{
                            .features = features, .switch_guid = ib::Guid(guid), .port_number = 1});
    return bytes;
}

}  // namespace

TEST_CASE("trunk: it joins two processes over TCP, and again after a restart of either") {
    const std::string host = GENERATE("127.0.0.1", "[::1]");
    if (!have(host)) {
        SKIP("PIB_SWITCH is not set, or there is no " + host);
    }
    const std::string address = free_address(host);
    Program one(listening(address)), other(connecting(address));
    CHECK(one.reaches(1, "Initialize"));
    CHECK(other.reaches(kTrunk, "Initialize"));

    one.stop(SIGKILL);
    CHECK(other.reaches(kTrunk, "Down"));
    one.start();
    CHECK(one.reaches(1, "Initialize"));
    CHECK(other.reaches(kTrunk, "Initialize"));

    other.stop(SIGKILL);
    CHECK(one.reaches(1, "Down"));
    other.start();
    CHECK(one.reaches(1, "Initialize"));
    CHECK(other.stop(SIGTERM) == 0);
    CHECK(one.stop(SIGTERM) == 0);
}

TEST_CASE("trunk: an address without a host means the loopback addresses") {
    if (!have("127.0.0.1")) {
        SKIP("PIB_SWITCH is not set");
    }
    const std::string port = free_address("127.0.0.1").substr(std::strlen("tcp:127.0.0.1:"));
    Program one(listening("tcp:" + port)), other(connecting("tcp:" + port));
    CHECK(one.reaches(1, "Initialize"));
    // The port is taken only on 127.0.0.1: another process may use it on another address.
    const auto elsewhere = fabric::Address::parse("tcp:127.0.0.2:" + port);
    CHECK(fabric::listen_on(*elsewhere));
    CHECK_FALSE(fabric::listen_on(*fabric::Address::parse("tcp:127.0.0.1:" + port)));
}

TEST_CASE("trunk: after a wrong answer the dialer closes and tries again") {
    if (!have("127.0.0.1")) {
        SKIP("PIB_SWITCH is not set");
    }
    Listener listener("127.0.0.1");
    Program program(connecting(listener.address()));
    std::vector<std::vector<uint8_t>> answers = {
        std::vector<uint8_t>(64, 0xA5),
        welcome(0x200),                              // the GUID of the switch itself
        welcome(0x100, link::kFeatureSharedMemory),  // a feature that HELLO did not offer
        {},
    };
    link::append(answers.back(), link::Refuse{link::RefuseReason::kNoFreePort, "no"});
    for (const auto& answer : answers) {
        const UniqueFd fd = listener.accept();
        send_all(fd, answer);
        CHECK(is_closed(fd));
    }
    // WELCOME, and then garbage: the port goes Down, and the switch connects again.
    {
        const UniqueFd fd = listener.accept();
        auto bytes = welcome(0x100);
        link::append(bytes, make_parameters());
        send_all(fd, bytes);
        CHECK(program.reaches(kTrunk, "Initialize"));
        send_all(fd, std::vector<uint8_t>(64, 0xFF));
        CHECK(is_closed(fd));
    }
    CHECK(program.reaches(kTrunk, "Down"));
    // Some peers close the connection at once, and one is silent: the switch still serves others.
    for (unsigned i = 0; i < 5; ++i) {
        CHECK(listener.accept());
    }
    const UniqueFd silent = listener.accept();
    CHECK(program.ask({{"command", "status"}}).at("ok") == true);
    // The address has no listener for a while.
    const auto address = *fabric::Address::parse(listener.address());
    listener.close();
    CHECK(is_closed(silent));  // after the time that an answer may take
    CHECK(program.alive());
    CHECK(fabric::listen_on(address));
}

TEST_CASE("trunk: frames may arrive byte by byte, and an incomplete one ends the link") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Listener listener("127.0.0.1");
    Program program(connecting(listener.address()));
    auto greeting = welcome(0x100);
    link::append(greeting, make_parameters());
    for (unsigned round = 0; round < 2; ++round) {
        const UniqueFd fd = listener.accept();
        const int on = 1;
        REQUIRE(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
        for (const uint8_t byte : greeting) {
            send_all(fd, {byte});
        }
        CHECK(program.reaches(kTrunk, "Initialize"));
        // A frame without its last byte, which must have no effect.
        std::vector<uint8_t> frame;
        link::append(frame, make_parameters(false));
        frame.pop_back();
        send_all(fd, frame);
        CHECK(program.ask({{"command", "status"}}).at("ports").at(kTrunk - 1).at("state") ==
              "Initialize");
        ::shutdown(fd.get(), SHUT_WR);
        CHECK(program.reaches(kTrunk, "Down"));
        CHECK(is_closed(fd));
    }
    CHECK(program.alive());
}

TEST_CASE("trunk: mistakes on the command line are reported") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const auto starts = [](std::vector<std::string> extra) {
        extra.insert(extra.begin(), {"--ports", "2"});
        const Program program(std::move(extra));
        return program.alive();
    };
    CHECK(starts({"--connect", "tcp:127.0.0.1:9"}));
    CHECK_FALSE(starts({"--connect", "127.0.0.1"}));
    CHECK_FALSE(starts({"--connect", "tcp:no host has this name:1"}));
    CHECK_FALSE(starts({"--only", "left"}));
    CHECK_FALSE(starts({"--connect", "tcp:127.0.0.1:9", "--connect", "tcp:127.0.0.1:9", "--connect",
                        "tcp:127.0.0.1:9"}));
}

}  // namespace pib::test
