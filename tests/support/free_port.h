// SPDX-License-Identifier: GPL-2.0-or-later
// A TCP port for a program under test.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/address.h"

namespace pib::test {

// A TCP port of 127.0.0.1 that was free during the call.
inline std::string free_port() {
    const auto sockets = fabric::listen_on(*fabric::Address::parse("tcp:127.0.0.1:0"));
    REQUIRE(sockets);
    sockaddr_in at{};
    socklen_t size = sizeof(at);
    REQUIRE(::getsockname(sockets->front().get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    return std::to_string(ntohs(at.sin_port));
}

}  // namespace pib::test
