// SPDX-License-Identifier: GPL-2.0-or-later
// The program itself, over real sockets: two adapters, the control socket, peers that misbehave.
// PIB_SWITCH names the program; without it the tests are skipped.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "base/address.h"
#include "link_pair.h"
#include "program.h"
#include "socket_hca.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

}  // namespace

TEST_CASE("program: links over sockets, status, restart") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    SocketHca one(program.fabric_path(), 0x1000), two(program.fabric_path(), 0x2000);
    REQUIRE(one.until([&] { return one.end->is_up(); }));
    REQUIRE(two.until([&] { return two.end->is_up(); }));
    CHECK(program.reaches(1, "Initialize"));
    CHECK(program.reaches(2, "Initialize"));

    two.fd.reset();
    CHECK(program.reaches(2, "Down"));
    CHECK(program.reaches(1, "Initialize"));
    SocketHca again(program.fabric_path(), 0x2000);
    REQUIRE(again.until([&] { return again.end->is_up(); }));
    CHECK(again.recorder.welcomes.at(0).port_number == 2);

    program.stop(SIGKILL);
    REQUIRE(one.until([&] { return one.closed; }));
    program.start();
    SocketHca back(program.fabric_path(), 0x1000);
    REQUIRE(back.until([&] { return back.end->is_up(); }));
    CHECK(program.stop(SIGTERM) == 0);
}

TEST_CASE("program: --socket-mode sets the permissions of the socket") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const auto mode_of = [](const std::string& path) {
        return static_cast<unsigned>(std::filesystem::status(path).permissions());
    };
    CHECK(mode_of(Program().fabric_path()) == 0660);
    CHECK(mode_of(Program({"--socket-mode", "0600"}).fabric_path()) == 0600);
}

TEST_CASE("program: garbage, silence and thousands of connections disturb no link") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    std::vector<UniqueFd> silent;
    for (unsigned i = 0; i < 5000; ++i) {
        auto fd = fabric::connect_unix(program.fabric_path());
        REQUIRE(fd);
        const std::string junk(64, static_cast<char>(i));
        (void)::send(fd->get(), junk.data(), i % 3 == 0 ? junk.size() : i % 5,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
        if (i % 50 == 0) {
            silent.push_back(std::move(*fd));
        }
    }
    SocketHca twin(program.fabric_path(), 0x1000);
    REQUIRE(twin.until([&] { return twin.closed; }));
    REQUIRE(twin.recorder.refusals.size() == 1);
    CHECK(twin.recorder.refusals[0].reason == link::RefuseReason::kDuplicatePortGuid);
    REQUIRE(program.alive());
    CHECK(program.reaches(1, "Initialize"));
    good.pump();
    CHECK(good.end->is_up());
}

TEST_CASE("program: without free file descriptors only newcomers are refused") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program({}, 40);
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    {
        std::vector<UniqueFd> many;
        for (unsigned i = 0; i < 200; ++i) {
            if (auto fd = fabric::connect_unix(program.fabric_path())) {
                many.push_back(std::move(*fd));
            }
        }
        good.pump();
        CHECK(good.end->is_up());
    }
    REQUIRE(program.alive());
    CHECK(eventually([&] {
        const auto fd = fabric::connect_unix(program.control_path());
        const std::string line = "{\"command\":\"status\"}\n";
        char byte;
        return fd && ::send(fd->get(), line.data(), line.size(), MSG_NOSIGNAL) > 0 &&
               ::recv(fd->get(), &byte, 1, 0) == 1;
    }));
}

TEST_CASE("program: memory for control clients that flood or do not read is bounded") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    Program program;
    auto endless = fabric::connect_unix(program.control_path());
    REQUIRE(endless);
    const std::string part(4096, 'x');
    CHECK(eventually([&] {  // a line without end is cut off
        return ::send(endless->get(), part.data(), part.size(), MSG_NOSIGNAL) < 0;
    }));
    auto unread = fabric::connect_unix(program.control_path());
    REQUIRE(unread);
    std::string requests;
    for (unsigned i = 0; i < 200; ++i) {
        requests += "{\"command\":\"status\"}\n";
    }
    for (unsigned i = 0; i < 20; ++i) {
        (void)::send(unread->get(), requests.data(), requests.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    CHECK(program.ask({{"command", "status"}}).at("ok") == true);
}

TEST_CASE("program: a switch without --guid has a locally administered GUID") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    const Program program;
    const json answer = program.ask({{"command", "status"}});
    CHECK(answer.at("switch").at("guid").get<std::string>().starts_with("0x06"));
}

TEST_CASE("program: a control client gets the answers of many requests") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    constexpr std::ptrdiff_t kRequests = 500;
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    auto eager = fabric::connect_unix(program.control_path());
    REQUIRE(eager);
    std::string requests;
    for (int i = 0; i < kRequests; ++i) {
        requests += "{\"command\":\"lft\"}\n";
    }
    std::size_t sent = 0;
    std::ptrdiff_t answers = 0;
    CHECK(eventually([&] {
        if (sent < requests.size()) {
            const ssize_t n = ::send(eager->get(), requests.data() + sent, requests.size() - sent,
                                     MSG_NOSIGNAL | MSG_DONTWAIT);
            sent += n > 0 ? static_cast<std::size_t>(n) : 0;
        }
        char buffer[4096];
        const ssize_t n = ::recv(eager->get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        answers += n > 0 ? std::count(buffer, buffer + n, '\n') : 0;
        return answers >= kRequests;
    }));
    CHECK(answers == kRequests);
    good.pump();
    CHECK(good.end->is_up());
}

}  // namespace pib::test
