// SPDX-License-Identifier: GPL-2.0-or-later
// Silent connections at the program: those of one origin do not push out another's. Users at a
// socket are told apart.
#include "links/newcomers.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "free_port.h"
#include "socket_hca.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

constexpr uid_t kStranger = 65534;

// A connection of another user, in tests of root.
UniqueFd connect_as(uid_t user, const std::string& path) {
    std::vector<gid_t> groups(static_cast<std::size_t>(::getgroups(0, nullptr)));
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

}  // namespace

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
    for (std::size_t i = 0; i < 3 * fabric::Newcomers::kMost; ++i) {
        auto fd = fabric::begin_connect(to->front());
        REQUIRE(fd);
        flood.push_back(std::move(*fd));
    }
    // The first one is closed when the last ones have come.
    CHECK(eventually([&] {
        char byte;
        return ::recv(flood[fabric::Newcomers::kMost].get(), &byte, 1, MSG_DONTWAIT) == 0;
    }));
    CHECK(late.until([&] { return late.end->is_up(); }));
}

TEST_CASE("newcomers: another user's device does not get the port of an absent device") {
    if (!have_program() || ::geteuid() != 0) {
        SKIP("PIB_SWITCH is not set, or this is not root, who may be another user");
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
        SKIP("PIB_SWITCH is not set, or this is not root, who may be another user");
    }
    const Program program;
    REQUIRE(::chmod(program.directory().c_str(), 0755) == 0);
    CHECK_FALSE(connect_as(kStranger, program.fabric_path()));
    CHECK_FALSE(connect_as(kStranger, program.control_path()));
}

}  // namespace pib::test
