// SPDX-License-Identifier: GPL-2.0-or-later
// The texts that --http takes, as options of `pib web`.
#include "page_program.h"

#include <catch2/catch_test_macros.hpp>

namespace pib::test {
namespace {

using fabric::page_options;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("page: --http takes an address, a port, or both") {
    CHECK(page_options("8470") == Words{"--address", "127.0.0.1", "--port", "8470"});
    CHECK(page_options("192.0.2.1") == Words{"--address", "192.0.2.1"});
    CHECK(page_options("[::1]") == Words{"--address", "::1"});
    CHECK(page_options("host:0") == Words{"--address", "host", "--port", "0"});
    CHECK(page_options("[::1]:65535") == Words{"--address", "::1", "--port", "65535"});
}

TEST_CASE("page: the file with the address is beside the control socket") {
    CHECK(fabric::page_address_file("/run/pib-switch/0/control") ==
          "/run/pib-switch/0/control.page");
}

TEST_CASE("page: --http refuses other texts, and lists the valid ones") {
    for (const char* text : {"", ":80", "[]:80", "[::1", "[::1]80", "::1", "fe80::1:80"}) {
        INFO(text);
        const auto refused = page_options(text);
        REQUIRE_FALSE(refused);
        CHECK(refused.error() ==
              "--http " + std::string(text) +
                  ": expected ADDRESS, ADDRESS:PORT or PORT, as 127.0.0.1:8470 or [::1]:8470");
    }
    for (const char* text : {"host:", "host:65536", "host:x", "host:80x", "65536"}) {
        INFO(text);
        const auto refused = page_options(text);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().ends_with(": the port is 0 to 65535"));
    }
}

}  // namespace pib::test
