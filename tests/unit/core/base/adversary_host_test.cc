// SPDX-License-Identifier: GPL-2.0-or-later
// The host of an adversarial device: memory, interrupts, clock.
#include "base/adversary_host.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "fake_host.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr unsigned kVectors = 4;

struct Room {
    explicit Room(const char* text)
        : adversary(AdversaryPlan::parse(text).value()), host(fake, adversary, kVectors) {
        fake.record_writes = true;
        std::iota(bytes.begin(), bytes.end(), uint8_t{1});
    }
    bool write(DmaPurpose purpose, uint64_t at, size_t length) {
        host.dma_for(purpose);
        return host.dma_write(at, std::span(bytes).first(length));
    }
    std::vector<uint8_t> memory(uint64_t at, size_t length) {
        std::vector<uint8_t> found(length);
        fake.peek_bytes(at, found);
        return found;
    }
    std::vector<uint8_t> written(size_t length) {
        return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)};
    }
    bool writes_ascend() const {
        return std::ranges::is_sorted(fake.writes, {}, &FakeHost::Write::addr);
    }

    FakeHost fake;
    Adversary adversary;
    AdversaryHost host;
    std::array<uint8_t, 8192> bytes{};
};

}  // namespace

TEST_CASE("an entry is written byte by byte in any order") {
    Room room("5:writes");
    for (const DmaPurpose purpose : {DmaPurpose::kCq, DmaPurpose::kEq, DmaPurpose::kCommand}) {
        const uint64_t at = room.fake.alloc(64);
        room.fake.writes.clear();
        REQUIRE(room.write(purpose, at, 63));
        CHECK(room.fake.writes.size() == 63);
        CHECK_FALSE(room.writes_ascend());
        CHECK(room.memory(at, 63) == room.written(63));
    }
    CHECK_FALSE(room.write(DmaPurpose::kCq, 64, 63));  // no RAM there
}

TEST_CASE("pieces of a payload are stored in any order, at the latest at a barrier") {
    Room room("5:writes");
    room.fake.record_writes = false;  // while it is set, ram() returns no pointers
    const uint64_t at = room.fake.alloc(8192);
    REQUIRE(room.write(DmaPurpose::kPayload, at, 4096));
    REQUIRE(room.write(DmaPurpose::kPayload, at + 4096, 4096));
    CHECK(room.memory(at, 8192) == std::vector<uint8_t>(8192));
    room.host.dma_barrier();
    const auto first = room.memory(at, 4096);
    CHECK(first == room.written(4096));
    CHECK(room.memory(at + 4096, 4096) == room.written(4096));
    CHECK(room.fake.dma_writes > 16);
}

TEST_CASE("payload is in memory before any other access of the device") {
    Room room("5:writes");
    room.fake.record_writes = false;
    const uint64_t at = room.fake.alloc(64);
    std::array<uint8_t, 64> found{};
    REQUIRE(room.write(DmaPurpose::kPayload, at, 64));
    REQUIRE(room.host.dma_read(at, found));
    CHECK(std::ranges::equal(found, room.written(64)));
    REQUIRE(room.write(DmaPurpose::kPayload, at, 8));
    uint64_t expected = 0;
    REQUIRE(room.host.dma_cmpxchg64(at, expected, 1));
    CHECK(room.memory(at, 8) == room.written(8));
}

TEST_CASE("a word of payload is one store, and memory that is not RAM is refused at once") {
    Room room("5:writes");
    room.fake.record_writes = false;
    const uint64_t at = room.fake.alloc(64);
    for (unsigned i = 0; i < 100; ++i) {
        const uint64_t before = room.fake.dma_writes;
        REQUIRE(room.write(DmaPurpose::kPayload, at, 8));
        room.host.dma_barrier();
        CHECK(room.fake.dma_writes == before + 1);
    }
    CHECK_FALSE(room.write(DmaPurpose::kPayload, 64, 8));
}

TEST_CASE("an entry is read in parts, some of them twice; a counter by one load") {
    Room room("5:fetches");
    const uint64_t at = room.fake.alloc(256);
    REQUIRE(room.write(DmaPurpose::kOther, at, 256));
    bool any_order = false;
    uint64_t read = 0;
    uint64_t last = 0;
    room.fake.before_dma = [&](uint64_t addr, size_t length, bool) {
        any_order |= addr < last;
        last = addr;
        read += length;
    };
    for (unsigned i = 0; i < 20; ++i) {
        std::array<uint8_t, 256> found{};
        room.host.dma_for(DmaPurpose::kQp);
        REQUIRE(room.host.dma_read(at, found));
        CHECK(std::ranges::equal(found, room.written(256)));
    }
    CHECK(any_order);
    CHECK(read > 20 * 256);
    const uint64_t before = room.fake.dma_reads;
    std::array<uint8_t, 4> counter{};
    room.host.dma_for(DmaPurpose::kQp);
    REQUIRE(room.host.dma_read(at, counter));
    CHECK(room.fake.dma_reads == before + 1);
    // A command's entry is read once.
    read = 0;
    std::array<uint8_t, 64> entry{};
    room.host.dma_for(DmaPurpose::kCommand);
    REQUIRE(room.host.dma_read(at, entry));
    CHECK(read == 64);
}

TEST_CASE("interrupts are delayed, merged, repeated and spurious, but none is lost") {
    Room room("5:interrupts");
    unsigned late = 0, again = 0;
    for (unsigned i = 0; i < 500; ++i) {
        const uint64_t before = room.fake.interrupts[1];
        room.host.raise_msix(1);
        room.host.raise_msix(1);
        late += room.fake.interrupts[1] == before ? 1 : 0;
        room.fake.clock_ns += Adversary::kEventNs;
        const uint64_t without_timer = room.fake.interrupts[1];
        room.host.timer();
        CHECK(room.fake.interrupts[1] > before);
        again += room.fake.interrupts[1] > without_timer && without_timer > before ? 1 : 0;
        CHECK(room.host.next_deadline() == kNever);
    }
    CHECK(late > 50);
    CHECK(again > 10);
    CHECK(room.fake.interrupts[1] < 1500);  // at most one interrupt of a vector waits
    CHECK(room.fake.interrupts[2] == 0);
    for (unsigned i = 0; i < 10'000; ++i) {
        room.host.begin(false);
    }
    CHECK(room.fake.interrupts[2] == 0);
    for (unsigned i = 0; i < 10'000; ++i) {
        room.host.begin(true);
    }
    CHECK(room.fake.interrupts[2] > 0);
}

TEST_CASE("no interrupt that waits outlives a reset") {
    Room room("5:interrupts");
    while (room.host.next_deadline() == kNever) {
        room.host.raise_msix(3);
    }
    room.host.reset();
    const uint64_t before = room.fake.interrupts[3];
    room.fake.clock_ns += Adversary::kEventNs;
    room.host.timer();
    CHECK(room.fake.interrupts[3] == before);
}

TEST_CASE("the clock steps forward, and timers with it") {
    Room room("5:clock");
    uint64_t last = room.host.now_ns();
    for (unsigned i = 0; i < 1000; ++i) {
        room.fake.clock_ns += 100'000'000;
        room.host.begin(true);
        CHECK(room.host.now_ns() >= last + 100'000'000);
        last = room.host.now_ns();
    }
    const uint64_t ahead = room.host.now_ns() - room.fake.clock_ns;
    CHECK(ahead > 0);
    CHECK(ahead < 1000 * Adversary::kStepNs);
    room.host.set_timer(last + 5);
    CHECK(room.fake.timer_deadline_ns == room.fake.clock_ns + 5);
    room.host.set_timer(kNever);
    CHECK(room.fake.timer_deadline_ns == kNever);
    room.host.set_timer(1);
    CHECK(room.fake.timer_deadline_ns == 0);
}
