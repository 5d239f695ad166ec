// SPDX-License-Identifier: GPL-2.0-or-later
// Page lists: shapes, limits, and that each is read once.
#include "memory/guest_buffer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <numeric>

#include "mini_driver.h"
#include "queues/interface_pages.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

Verdict load_status(FakeHost& host, const PageList& pages, uint64_t bytes = 1,
                    uint32_t max_pages = 1u << 20) {
    const auto buffer = GuestBuffer::load(host, pages, bytes, max_pages);
    return buffer ? CmdStatus::kOk : buffer.error();
}

}  // namespace

TEST_CASE("copies cross pages and tables of every level") {
    const uint64_t bytes = GENERATE(uint64_t{4096}, uint64_t{3 * 4096}, uint64_t{600 * 4096});
    FakeHost host;
    host.direct = GENERATE(true, false);
    GuestMemory memory(host, bytes);
    const auto buffer = GuestBuffer::load(host, page_list(memory.list()), bytes, 1024);
    REQUIRE(buffer);
    CHECK(buffer->bytes() == bytes);
    std::vector<uint8_t> pattern(bytes - 100);
    std::iota(pattern.begin(), pattern.end(), uint8_t{1});
    REQUIRE(buffer->write(host, 100, pattern));
    std::vector<uint8_t> seen(pattern.size());
    memory.read(100, seen);
    CHECK(seen == pattern);
    std::ranges::fill(seen, uint8_t{0});
    REQUIRE(buffer->read(host, 100, seen));
    CHECK(seen == pattern);
    uint8_t byte = 0;
    CHECK_FALSE(buffer->read(host, bytes, {&byte, 1}));
    CHECK(buffer->read(host, bytes, {}));
    CHECK_FALSE(buffer->write(host, bytes - 1, std::span(pattern).first(2)));
    CHECK_FALSE(buffer->read(host, UINT64_MAX, {&byte, 1}));
    uint64_t addr;
    REQUIRE(buffer->bus_address(bytes - 1, addr));
    CHECK(addr == memory.page(memory.page_count() - 1) + 4095);
    CHECK_FALSE(buffer->bus_address(bytes, addr));
}

TEST_CASE("contiguous pages take one access") {
    FakeHost host;
    PageList pages{};
    pages.root = host.alloc(1 << 20);
    pages.page_count = 256;
    pages.log_page_size = 12;
    const auto buffer = GuestBuffer::load(host, pages, 1 << 20, 256);
    REQUIRE(buffer);
    CHECK(buffer->listed_pages() == 0);
    std::vector<uint8_t> data(100'000, 0x33);
    const auto count = [&] { return host.direct ? host.ram_writes : host.dma_writes; };
    for (const bool direct : {true, false}) {
        host.direct = direct;
        const uint64_t before = count();
        REQUIRE(buffer->write(host, 5000, data));
        CHECK(count() == before + 1);
    }
}

TEST_CASE("a buffer asks for its host pointer once per memory map") {
    FakeHost host;
    const GuestMemory memory(host, 600 * 4096);
    const auto buffer = GuestBuffer::load(host, page_list(memory.list()), 1, 1024);
    REQUIRE(buffer);
    CHECK(host.ram_asked == 1);
    const uint64_t reads = host.dma_reads;
    std::vector<uint8_t> data(600 * 4096, 0x5a);
    REQUIRE(buffer->write(host, 0, data));
    REQUIRE(buffer->read(host, 0, data));
    CHECK(host.ram_asked == 1);
    CHECK(host.dma_reads == reads);

    host.ram_changed();
    REQUIRE(buffer->read(host, 0, data));
    REQUIRE(buffer->read(host, 4096, std::span(data).first(4096)));
    CHECK(host.ram_asked == 2);
    CHECK(host.dma_reads == reads);
}

TEST_CASE("pages on both sides of a hole take one check for each side") {
    FakeHost host;
    const GuestMemory memory(host, 2048 * 4096);
    host.make_hole(memory.page(1000) + 4096, 4096);  // between two pages of the list
    REQUIRE(GuestBuffer::load(host, page_list(memory.list()), 1, 2048));
    CHECK(host.dma_reads <= 8);  // only the page tables are read
    CHECK(host.ram_asked <= 200);
    host.make_hole(memory.page(1500), 4096);
    CHECK(load_status(host, page_list(memory.list())) == CmdStatus::kBadMemory);
    host.direct = false;  // as under a vIOMMU
    CHECK(load_status(host, page_list(memory.list())) == CmdStatus::kBadMemory);
    host.heal();
    CHECK(load_status(host, page_list(memory.list())) == CmdStatus::kOk);
}

TEST_CASE("a buffer follows memory that vanishes and returns") {
    FakeHost host;
    const GuestMemory memory(host, 8 * 4096);
    const auto buffer = GuestBuffer::load(host, page_list(memory.list()), 1, 1024);
    REQUIRE(buffer);
    std::vector<uint8_t> data(8 * 4096, 0x77);
    REQUIRE(buffer->write(host, 0, data));
    host.make_hole(memory.page(5), 4096);
    CHECK_FALSE(buffer->write(host, 0, data));
    CHECK_FALSE(buffer->read(host, 5 * 4096, std::span(data).first(1)));
    // The device still reaches the other pages, one by one.
    CHECK(buffer->write(host, 0, std::span(data).first(5 * 4096)));
    host.heal();
    CHECK(buffer->write(host, 0, data));
    host.make_read_only(memory.page(2), 4096);
    CHECK(buffer->read(host, 0, data));
    CHECK_FALSE(buffer->write(host, 2 * 4096, std::span(data).first(1)));
    host.heal();
    host.bus_master = false;
    CHECK_FALSE(buffer->read(host, 0, data));
    host.bus_master = true;
    CHECK(buffer->write(host, 0, data));
}

// A host pointer for both pages would need a range of 2^64 bytes, whose length a 64-bit sum would
// take for 0.
TEST_CASE("pages at both ends of the bus have no common host pointer") {
    class Everywhere final : public FakeHost {
      public:
        uint8_t* ram(uint64_t, uint64_t length) override {
            asked = length;
            return nullptr;
        }
        uint64_t asked = 0;
    };
    Everywhere host;
    PageList pages{};
    pages.root = host.alloc(4096);
    pages.page_count = 2;
    pages.levels = 1;
    pages.log_page_size = 12;
    host.poke(pages.root, uint64_t{0});
    host.poke(pages.root + 8, UINT64_MAX & ~uint64_t{4095});
    auto buffer = GuestBuffer::load(host, pages, 1, 2, GuestBuffer::Proof::kNone);
    REQUIRE(buffer);
    uint8_t byte = 0;
    CHECK_FALSE(buffer->read(host, 4096, {&byte, 1}));
    CHECK(host.asked == UINT64_MAX);
}

TEST_CASE("invalid page lists are refused") {
    FakeHost host;
    const GuestMemory memory(host, 4 * 4096);
    const auto status = [&](auto&& change, uint64_t bytes = 1, uint32_t max_pages = 16) {
        PageList pages = page_list(memory.list());
        change(pages);
        return load_status(host, pages, bytes, max_pages);
    };
    CHECK(status([](auto&) {}) == CmdStatus::kOk);
    CHECK(status([](auto& p) { p.levels = 4; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.log_page_size = 11; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.log_page_size = 31; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.log_page_size = 255; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.page_count = 0; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.page_count = 513; }, 1, 1024) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.page_count = UINT32_MAX; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& p) { p.root += 8; }) == CmdStatus::kBadParam);
    CHECK(status([](auto&) {}, 4 * 4096 + 1) == CmdStatus::kBadParam);
    CHECK(status([](auto&) {}, 1, 3) == CmdStatus::kBadParam);
    // Pages of 8 KiB that are aligned to 4 KiB.
    host.poke(page_list(memory.list()).root, memory.page(0) | 4096);
    CHECK(status([](auto& p) { p.log_page_size = 13; }) == CmdStatus::kBadParam);
    host.poke(page_list(memory.list()).root, memory.page(0) + 1);
    CHECK(status([](auto&) {}) == CmdStatus::kBadParam);
    host.poke(page_list(memory.list()).root, uint64_t{0});
    CHECK(status([](auto&) {}) == CmdStatus::kBadMemory);
    // A list that ends beyond the address space.
    PageList top{};
    top.root = UINT64_MAX & ~uint64_t{4095};
    top.page_count = 2;
    top.log_page_size = 12;
    CHECK(load_status(host, top) == CmdStatus::kBadParam);
}

TEST_CASE("a page list is read once") {
    FakeHost host;
    const GuestMemory memory(host, 600 * 4096);
    std::map<uint64_t, unsigned> reads;
    host.before_dma = [&](uint64_t addr, size_t bytes, bool) {
        if (bytes > 1) {
            ++reads[addr];
        }
    };
    REQUIRE(GuestBuffer::load(host, page_list(memory.list()), 1, 1024));
    CHECK(reads.size() == 3);
    for (const auto& [addr, count] : reads) {
        CHECK(count == 1);
    }
}

TEST_CASE("a table that points to itself is refused") {
    FakeHost host;
    const uint64_t table = host.alloc(4096);
    for (unsigned i = 0; i < PIB_HCA_TABLE_ENTRIES; ++i) {
        host.poke(table + 8 * i, table);
    }
    PageList pages{};
    pages.root = table;
    pages.page_count = 100'000;
    pages.levels = 3;
    pages.log_page_size = 12;
    const auto buffer = GuestBuffer::load(host, pages, 1, 1u << 20);
    REQUIRE(buffer);
    CHECK(buffer->listed_pages() == 100'000);
}
