// SPDX-License-Identifier: GPL-2.0-or-later
// Permissions that a certificate holds as URIs.
#include "tls/certificate_grant.h"

#include <catch2/catch_test_macros.hpp>

namespace pib::test {

using fabric::grant_of;
using fabric::parse_guids;

TEST_CASE("certificate: GUIDs are parsed in each notation") {
    CHECK(parse_guids("0x10")->first == ib::Guid(0x10));
    CHECK(parse_guids("10-1f")->last == ib::Guid(0x1F));
    CHECK(parse_guids("0x0650000000000000-0x06500000ffffffff")->has(ib::Guid(0x0650000000000100)));
    CHECK(parse_guids("any")->has(ib::Guid(UINT64_MAX)));
    for (const char* text :
         {"", "0", "-", "1-", "-1", "2-1", "x", "1g", "1-2-3", "12345678123456781"}) {
        INFO(text);
        CHECK_FALSE(parse_guids(text));
    }
}

TEST_CASE("certificate: permissions are written as URIs and read back") {
    const fabric::Grant grant{
        .is_switch = true,
        .guids = {{ib::Guid(0x10), ib::Guid(0x1F)}, {ib::Guid(1), ib::Guid(1)}},
        .nodes = {"vm0", "a node"}};
    const auto read = grant_of(fabric::to_uris(grant));
    REQUIRE(read);
    CHECK(read->is_switch);
    REQUIRE(read->guids.size() == 2);
    CHECK(read->has(ib::Guid(0x1F)));
    CHECK_FALSE(read->has(ib::Guid(0x20)));
    CHECK(read->nodes == grant.nodes);
}

TEST_CASE("certificate: malformed URIs grant nothing") {
    using Uris = std::vector<std::string>;
    for (const Uris& uris :
         {Uris{}, Uris{"https://example.org"}, Uris{"pib:guid:1-2"}, Uris{"pib:role:king"},
          Uris{"pib:role:host", "pib:role:switch"}, Uris{"pib:role:host", "pib:guid:"}}) {
        CHECK_FALSE(grant_of(uris));
    }
    const auto none = grant_of({"pib:role:host", "https://example.org"});
    REQUIRE(none);
    CHECK_FALSE(none->has(ib::Guid(1)));
    CHECK_FALSE(none->is_switch);
}

}  // namespace pib::test
