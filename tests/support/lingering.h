// SPDX-License-Identifier: GPL-2.0-or-later
// A socket whose last close() blocks: a hostile peer may pass it to the switch.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>

#include "base/unique_fd.h"

namespace pib::test {

// A TCP connection to this process, with output that nobody reads. The last close() of `near` waits
// until `far` is closed.
struct Lingering {
    fabric::UniqueFd near, far;

    Lingering() {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        auto* const address = reinterpret_cast<sockaddr*>(&at);
        const fabric::UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
        REQUIRE(::bind(listener.get(), address, size) == 0);
        REQUIRE(::listen(listener.get(), 1) == 0);
        REQUIRE(::getsockname(listener.get(), address, &size) == 0);
        near = fabric::UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
        REQUIRE(::connect(near.get(), address, size) == 0);
        far = fabric::UniqueFd(::accept(listener.get(), nullptr, nullptr));
        const std::array<char, 65536> unread{};
        while (::send(near.get(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
        }
        constexpr int kLongerThanATest = 3600;
        const linger waits{.l_onoff = 1, .l_linger = kLongerThanATest};
        REQUIRE(::setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof(waits)) == 0);
    }
};

}  // namespace pib::test
