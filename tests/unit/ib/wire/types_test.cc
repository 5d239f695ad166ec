// SPDX-License-Identifier: GPL-2.0-or-later
// Number types: widths, LID classes, PSN order, the P_Key rule.
#include "ib/wire/types.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

TEST_CASE("number types have their width") {
    CHECK(Qpn(0x12345678).value() == 0x345678);
    CHECK(Sl(0x1F).value() == 0xF);
    CHECK(Vl(15) == kVl15);
    CHECK(Guid(~uint64_t{0}).value() == ~uint64_t{0});
}

TEST_CASE("LIDs are unassigned, unicast, multicast or permissive") {
    CHECK_FALSE(Lid(0).is_unicast());
    CHECK(Lid(1).is_unicast());
    CHECK(Lid(0xBFFF).is_unicast());
    CHECK(Lid(0xC000).is_multicast());
    CHECK(Lid(0xFFFE).is_multicast());
    CHECK_FALSE(Lid(0xFFFF).is_multicast());
    CHECK_FALSE(Lid(0xFFFF).is_unicast());
    CHECK(Lid(0xFFFF).is_permissive());
}

TEST_CASE("PSN arithmetic is serial over 24 bits") {
    CHECK(Psn(0xFFFFFF) + 1 == Psn(0));
    CHECK(Psn(0) - 1 == Psn(0xFFFFFF));
    CHECK(Psn(5).distance_from(Psn(3)) == 2);
    CHECK(Psn(3).distance_from(Psn(5)) == -2);
    CHECK(Psn(0).distance_from(Psn(0xFFFFFF)) == 1);
    CHECK(Psn(0).after(Psn(0xFFFFFF)));
    CHECK(Psn(0xFFFFFF).before(Psn(0)));
    CHECK(Psn(0x7FFFFF).distance_from(Psn(0)) == 0x7FFFFF);
    CHECK(Psn(0x800000).distance_from(Psn(0)) == -0x800000);
    Psn psn(0xFFFFFE);
    ++psn;
    ++psn;
    CHECK(psn == Psn(0));
}

TEST_CASE("P_Keys match in one partition unless both are limited members") {
    CHECK(pkeys_match(PKey(0xFFFF), PKey(0x7FFF)));
    CHECK(pkeys_match(PKey(0x7FFF), PKey(0xFFFF)));
    CHECK(pkeys_match(PKey(0x8001), PKey(0x8001)));
    CHECK_FALSE(pkeys_match(PKey(0x7FFF), PKey(0x7FFF)));
    CHECK_FALSE(pkeys_match(PKey(0x8001), PKey(0x8002)));
    CHECK_FALSE(pkeys_match(PKey(0x8000), PKey(0x8000)));
    CHECK_FALSE(pkeys_match(PKey(0), PKey(0x8000)));
}

TEST_CASE("GIDs are a prefix and a GUID in wire order") {
    const Gid gid = Gid::from(kDefaultGidPrefix, Guid(0x0002C90300001234));
    CHECK(gid.bytes[0] == 0xFE);
    CHECK(gid.bytes[1] == 0x80);
    CHECK(gid.bytes[15] == 0x34);
    CHECK(gid.subnet_prefix() == kDefaultGidPrefix);
    CHECK(gid.guid() == Guid(0x0002C90300001234));
    CHECK_FALSE(gid.is_multicast());
    CHECK(Gid::from(0xFF12401BFFFF0000, Guid(1)).is_multicast());
    CHECK(Gid{}.is_zero());
}

TEST_CASE("MTU codes and bytes convert") {
    CHECK(mtu_bytes(Mtu::k256) == 256);
    CHECK(mtu_bytes(Mtu::k4096) == 4096);
    CHECK_FALSE(is_valid_mtu_code(0));
    CHECK_FALSE(is_valid_mtu_code(6));
}
