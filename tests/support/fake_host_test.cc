// SPDX-License-Identifier: GPL-2.0-or-later
#include "fake_host.h"

#include <catch2/catch_test_macros.hpp>

using pib::hca::test::FakeHost;

TEST_CASE("FakeHost refuses DMA outside of RAM and permits other DMA") {
    FakeHost host;
    const uint64_t addr = host.alloc(3 * FakeHost::kPage);
    std::array<uint8_t, 16> bytes{};
    bytes.fill(0xab);

    REQUIRE(host.dma_write(addr + FakeHost::kPage - 8, bytes));
    REQUIRE(host.peek<uint8_t>(addr + FakeHost::kPage + 7) == 0xab);

    host.make_hole(addr + FakeHost::kPage, FakeHost::kPage);
    REQUIRE_FALSE(host.dma_read(addr + FakeHost::kPage - 1, bytes));
    REQUIRE(host.dma_read(addr + FakeHost::kPage - 16, bytes));
    REQUIRE(host.dma_write(addr + 2 * FakeHost::kPage, bytes));
    REQUIRE_FALSE(host.dma_read(UINT64_MAX - 3, bytes));
    REQUIRE_FALSE(host.dma_read(0, bytes));

    host.heal();
    host.fail_dma_after = 1;
    REQUIRE(host.dma_read(addr, bytes));
    REQUIRE_FALSE(host.dma_read(addr, bytes));
}
