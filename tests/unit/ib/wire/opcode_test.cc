// SPDX-License-Identifier: GPL-2.0-or-later
// The opcode table against the facts of IBA tables 35 to 38 and annexes A10 and A14.
#include "ib/wire/opcode.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ib/wire/headers.h"

using namespace pib::ib;

namespace {

const OpcodeInfo& row(unsigned opcode) {
    const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(opcode));
    REQUIRE(info != nullptr);
    return *info;
}

// Defined opcodes of a transport, without the three top bits, which select the transport.
std::vector<unsigned> defined_codes(unsigned transport_bits) {
    std::vector<unsigned> codes;
    for (unsigned code = 0; code < 32; ++code) {
        if (find_opcode(static_cast<uint8_t>(transport_bits | code)) != nullptr) {
            codes.push_back(code);
        }
    }
    return codes;
}

std::vector<unsigned> range(unsigned first, unsigned last) {
    std::vector<unsigned> codes;
    for (unsigned code = first; code <= last; ++code) {
        codes.push_back(code);
    }
    return codes;
}

}  // namespace

TEST_CASE("each service has only its own opcodes") {
    auto connected = range(0x00, 0x14);
    connected.push_back(0x16);
    connected.push_back(0x17);
    connected.push_back(0x1C);
    connected.push_back(0x1D);
    CHECK(defined_codes(opcode::kRc) == connected);
    CHECK(defined_codes(opcode::kXrc) == connected);
    CHECK(defined_codes(opcode::kUc) == range(0x00, 0x0B));
    auto reliable_datagram = range(0x00, 0x15);
    reliable_datagram.push_back(0x1C);
    reliable_datagram.push_back(0x1D);
    CHECK(defined_codes(opcode::kRd) == reliable_datagram);
    CHECK(defined_codes(opcode::kUd) == range(0x04, 0x05));
    CHECK(defined_codes(opcode::kCnp) == range(0x00, 0x00));
    CHECK(defined_codes(0xC0) == range(0x13, 0x14));
    CHECK(defined_codes(0xE0).empty());
}

TEST_CASE("each opcode has its number of header bytes") {
    const std::pair<unsigned, unsigned> expected[] = {
        {0x00, 12}, {0x03, 16}, {0x06, 28}, {0x07, 12}, {0x09, 16}, {0x0A, 28}, {0x0B, 32},
        {0x0C, 28}, {0x0D, 16}, {0x0E, 12}, {0x0F, 16}, {0x10, 16}, {0x11, 16}, {0x12, 24},
        {0x13, 40}, {0x14, 40}, {0x16, 16}, {0x17, 16}, {0x24, 12}, {0x2B, 32}, {0x64, 20},
        {0x65, 24}, {0x80, 12}, {0xA4, 16}, {0x1C, 32}, {0x1D, 28}, {0xD3, 56}, {0xD4, 56},
        {0xAC, 32}, {0xB1, 16}, {0xB3, 44}, {0x44, 24}, {0x4C, 40}, {0x51, 20},
    };
    for (const auto& [opcode, bytes] : expected) {
        CAPTURE(opcode);
        CHECK(row(opcode).header_bytes == bytes);
    }
}

TEST_CASE("headers follow each other without gap, in the order of the IBA") {
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(opcode));
        if (info == nullptr) {
            continue;
        }
        CHECK(info->opcode == opcode);
        size_t offset = Bth::kSize;
        for (size_t i = 0; i < kExtCount; ++i) {
            if (info->has(static_cast<Ext>(i))) {
                CHECK(info->offset[i] == offset);
                offset += ext_size(static_cast<Ext>(i));
            }
        }
        CHECK(info->header_bytes == offset);
    }
}

TEST_CASE("opcodes are requests or responses") {
    CHECK(row(0x04).is_request());
    CHECK(row(0x04).consumes_receive());
    CHECK_FALSE(row(0x0A).consumes_receive());
    CHECK(row(0x0B).consumes_receive());
    CHECK(row(0x11).is_response());
    CHECK(row(0x11).carries_ack());
    CHECK(row(0x0E).is_response());
    CHECK_FALSE(row(0x0E).carries_ack());
    CHECK(row(0x13).is_atomic());
    CHECK(row(0x64).service == Service::kUd);
    CHECK_FALSE(row(0x80).is_request());
    CHECK_FALSE(row(0x80).is_response());
}

TEST_CASE("each opcode has its payload rule") {
    CHECK(row(0x00).admits_payload(1024, 1024));
    CHECK_FALSE(row(0x00).admits_payload(1023, 1024));
    CHECK_FALSE(row(0x02).admits_payload(0, 1024));
    CHECK(row(0x02).admits_payload(1, 1024));
    CHECK(row(0x04).admits_payload(0, 1024));
    CHECK_FALSE(row(0x04).admits_payload(1025, 1024));
    CHECK_FALSE(row(0x0C).admits_payload(1, 1024));
    CHECK(row(0x80).admits_payload(16, 256));
    CHECK_FALSE(row(0x80).admits_payload(0, 256));
}

TEST_CASE("opcode names begin with their service") {
    CHECK(std::string(row(0x0B).name) == "RC RDMA WRITE Only with Immediate");
    CHECK(std::string(row(0x64).name) == "UD SEND Only");
    CHECK(std::string(row(0xB2).name) == "XRC ATOMIC Acknowledge");
    CHECK(std::string(row(0x1C).name) == "RC FLUSH");
    CHECK(std::string(row(0xBD).name) == "XRC ATOMIC WRITE");
}
