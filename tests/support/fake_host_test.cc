// SPDX-License-Identifier: GPL-2.0-or-later
#include "fake_host.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <span>
#include <vector>

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

TEST_CASE("FakeHost tells once which pages have been written") {
    FakeHost host;
    constexpr uint64_t kPage = FakeHost::kPage;
    const uint64_t addr = host.alloc(4 * kPage);
    const std::array<uint8_t, 16> bytes{1};
    const auto written = [&] {
        std::vector<bool> flags;
        for (uint64_t page = 0; page < 4; ++page) {
            flags.push_back(host.take_written(addr + page * kPage));
        }
        return flags;
    };
    REQUIRE(written() == std::vector<bool>(4));

    host.poke_bytes(addr + kPage - 1, std::span(bytes).first(1));
    REQUIRE(written() == std::vector{true, false, false, false});
    host.poke_bytes(addr + kPage - 8, bytes);
    REQUIRE(written() == std::vector{true, true, false, false});
    REQUIRE(written() == std::vector<bool>(4));

    REQUIRE(host.dma_write(addr + 3 * kPage, bytes));
    host.ram_written(addr + 2 * kPage, 1);
    REQUIRE(written() == std::vector{false, false, true, true});
}

TEST_CASE("A FakeHost that takes over memory finds zeros there") {
    FakeHost::reuse_memory();
    const std::array<uint8_t, 16> bytes{1};
    uint64_t addr = 0;
    {
        FakeHost host;
        addr = host.alloc(FakeHost::kPage);
        host.poke_bytes(addr, bytes);
        host.poke_bytes(addr + 8 * FakeHost::kPage, bytes);  // memory that was not given out
    }
    FakeHost host;
    REQUIRE(host.alloc(FakeHost::kPage) == addr);
    REQUIRE(host.peek<uint8_t>(addr) == 0);
    REQUIRE(host.peek<uint8_t>(addr + 8 * FakeHost::kPage) == 0);
    REQUIRE_FALSE(host.take_written(addr));
}
