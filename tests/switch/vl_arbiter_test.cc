// SPDX-License-Identifier: GPL-2.0-or-later
// VL arbitration against the shares that its tables promise.
#include "vl_arbiter.h"

#include <catch2/catch_test_macros.hpp>

namespace pib::test {
namespace {

using fabric::VlArbiter;
using fabric::VlMask;

ib::Port make_port(std::vector<ib::VlArbEntry> high, std::vector<ib::VlArbEntry> low,
                   unsigned limit) {
    ib::Port port = ib::make_port({.vl_cap = 4});
    port.vl_arb_high = std::move(high);
    port.vl_arb_low = std::move(low);
    port.set(ib::port_info::kVlHighLimit, limit);
    return port;
}

// Packets per VL out of `packets` of 64 bytes, with the VLs of `ready` always ready.
std::array<unsigned, 15> shares(const ib::Port& port, VlMask ready, unsigned packets) {
    VlArbiter arbiter(port);
    std::array<unsigned, 15> counts{};
    for (unsigned i = 0; i < packets; ++i) {
        const auto vl = arbiter.choose(ready);
        REQUIRE(vl);
        ++counts[*vl];
        arbiter.account(64);
    }
    return counts;
}

}  // namespace

TEST_CASE("arbitration: weights share the low-priority table") {
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
    VlArbiter arbiter(port);
    CHECK_FALSE(arbiter.choose(0));
}

TEST_CASE("arbitration: VLHighLimit bounds what high priority takes") {
    const std::vector<ib::VlArbEntry> high = {{1, 4}}, low = {{0, 4}};
    CHECK(shares(make_port(high, low, 255), 0b11, 100)[0] == 0);
    const auto one_each = shares(make_port(high, low, 0), 0b11, 100);
    CHECK(one_each[0] == 50);
    const auto limited = shares(make_port(high, low, 1), 0b11, 650);  // 4096 bytes: 64 packets
    CHECK(limited[0] == 10);
    CHECK(limited[1] == 640);
    CHECK(shares(make_port(high, low, 0), 0b10, 100)[1] == 100);
}

}  // namespace pib::test
