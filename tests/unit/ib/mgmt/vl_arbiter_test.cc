// SPDX-License-Identifier: GPL-2.0-or-later
// VL arbitration: compares the VLs' shares with the arbitration tables.
#include "ib/mgmt/vl_arbiter.h"

#include <catch2/catch_test_macros.hpp>

namespace pib::test {
namespace {

using ib::VlArbiter;
using ib::VlMask;

ib::PortAttrs make_port(std::vector<ib::VlArbEntry> high, std::vector<ib::VlArbEntry> low,
                        unsigned limit) {
    ib::PortAttrs port = ib::make_port({.vl_cap = 4});
    port.vl_arb_high = std::move(high);
    port.vl_arb_low = std::move(low);
    port.set(ib::port_info::kVlHighLimit, limit);
    return port;
}

// Packets per VL out of `packets` of 64 bytes, with the VLs of `ready` always ready.
std::array<unsigned, 15> shares(const ib::PortAttrs& port, VlMask ready, unsigned packets) {
    VlArbiter arbiter(port);
    std::array<unsigned, 15> counts{};
    for (unsigned i = 0; i < packets; ++i) {
        ++counts.at(arbiter.choose(ready));
        arbiter.account(64);
    }
    return counts;
}

}  // namespace

TEST_CASE("arbitration: the VLs of the low-priority table share by weight") {
    const auto port = make_port({}, {{0, 1}, {1, 3}, {2, 0}}, 0);
    const auto counts = shares(port, 0b011, 400);
    CHECK(counts[0] == 100);
    CHECK(counts[1] == 300);
    CHECK(shares(port, 0b001, 10)[0] == 10);
}

TEST_CASE("arbitration: a VL in no table waits for the others, but not for ever") {
    const auto port = make_port({}, {{0, 1}}, 0);
    CHECK(shares(port, 0b101, 10)[0] == 10);
    CHECK(shares(port, 0b100, 10)[2] == 10);
}

TEST_CASE("arbitration: VLHighLimit bounds the high-priority table") {
    const std::vector<ib::VlArbEntry> high = {{1, 4}}, low = {{0, 4}};
    CHECK(shares(make_port(high, low, 255), 0b11, 100)[0] == 0);
    const auto one_each = shares(make_port(high, low, 0), 0b11, 100);
    CHECK(one_each[0] == 50);
    const auto limited = shares(make_port(high, low, 1), 0b11, 650);  // 4096 bytes: 64 packets
    CHECK(limited[0] == 10);
    CHECK(limited[1] == 640);
    CHECK(shares(make_port(high, low, 0), 0b10, 100)[1] == 100);
}

TEST_CASE("arbitration: a VL is chosen again within its allowance") {
    const auto port = make_port({{2, 9}, {1, 4}}, {{0, 4}, {3, 7}}, 1);
    for (const VlMask ready : {0b0001, 0b1001, 0b0011, 0b1111, 0b0110, 0b10000}) {
        VlArbiter by_packet(port);
        VlArbiter by_batch(port);
        for (unsigned batch = 0; batch < 200; ++batch) {
            const auto vl = by_batch.choose(ready);
            for (int64_t left = by_batch.allowance(); left > 0; left -= 128) {
                REQUIRE(by_packet.choose(ready) == vl);
                by_packet.account(128);
                by_batch.account(128);
            }
        }
    }
}

}  // namespace pib::test
