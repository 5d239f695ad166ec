// SPDX-License-Identifier: GPL-2.0-or-later
// Validation of UTF-8 text from peers.
#include "ib/wire/utf8.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

TEST_CASE("well-formed text is accepted") {
    CHECK(is_printable_utf8(""));
    CHECK(is_printable_utf8("vm0 HCA-1"));
    CHECK(is_printable_utf8("Schalter \xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80"));
}

TEST_CASE("control characters and malformed sequences are refused") {
    for (const char* text :
         {"a\nb", "\x1B[2J", "\x7F", "\xC2\x85", "\x80", "\xC0\xAF", "\xC3", "\xE0\x80\x80",
          "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x9F\x98", "\xE2\x82\x28", "\xFF"}) {
        CAPTURE(text);
        CHECK_FALSE(is_printable_utf8(text));
    }
}

TEST_CASE("a prefix never cuts a character") {
    CHECK(utf8_prefix("abc", 8) == "abc");
    CHECK(utf8_prefix("abc", 2) == "ab");
    CHECK(utf8_prefix("a\xC3\xBC", 2) == "a");
    CHECK(utf8_prefix("\xE2\x82\xAC", 2) == "");
}
