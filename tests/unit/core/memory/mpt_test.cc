// SPDX-License-Identifier: GPL-2.0-or-later
// Memory keys: refusals of CREATE_MR (T22), access by a key (T25, T26), values of keys (T28).
// docs/fault-cases.md has these cases.
#include "memory/mpt.h"

#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>
#include <set>

#include "base/config.h"
#include "mini_driver.h"
#include "queues/interface_pages.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kPd = 7;
constexpr uint64_t kIova = 0x7f12'3456'7004;
constexpr uint64_t kLength = 10'000;
constexpr uint32_t kOffset = 4;

struct Keys {
    FakeHost host;
    Mpt mpt{host, 1000, 4096};
    GuestMemory memory{host, 4 * 4096};

    Registration request(uint32_t access = 0) const {
        Registration in{};
        in.pd = kPd;
        in.access = access;
        in.iova = kIova;
        in.length = kLength;
        in.pages = page_list(memory.list());
        in.page_offset = kOffset;
        in.key = 0x42;
        return in;
    }
    Verdict status(const Registration& in) {
        const auto key = mpt.create(in);
        return key ? CmdStatus::kOk : key.error();
    }
};

constexpr KeyUser kUser{kPd, false};

}  // namespace

TEST_CASE("invalid registrations are refused") {
    Keys keys;
    const auto status = [&](auto&& change) {
        Registration in = keys.request();
        change(in);
        return keys.status(in);
    };
    CHECK(status([](auto&) {}) == CmdStatus::kOk);
    for (const uint64_t length :
         {uint64_t{0}, uint64_t{4 * 4096 - 3}, uint64_t{1} << 41, UINT64_MAX, uint64_t{1} << 63}) {
        CHECK(status([&](auto& in) { in.length = length; }) == CmdStatus::kBadParam);
    }
    CHECK(status([](auto& in) { in.length = 4 * 4096 - 4; }) == CmdStatus::kOk);
    CHECK(status([](auto& in) { in.iova = UINT64_MAX - kLength + 2; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& in) { in.iova = UINT64_MAX - kLength + 1; }) == CmdStatus::kOk);
    CHECK(status([](auto& in) { in.page_offset = 4096; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& in) { in.page_offset = UINT32_MAX; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& in) { in.pages.log_page_size = 64; }) == CmdStatus::kBadParam);
    // IBA 11.2.8.2: remote write and atomic need local write.
    CHECK(status([](auto& in) { in.access = PIB_HCA_ACCESS_REMOTE_WRITE; }) ==
          CmdStatus::kBadParam);
    CHECK(status([](auto& in) { in.access = PIB_HCA_ACCESS_REMOTE_ATOMIC; }) ==
          CmdStatus::kBadParam);
    CHECK(status([](auto& in) { in.access = PIB_HCA_ACCESS_REMOTE_READ; }) == CmdStatus::kOk);
    // Each of these flags is a kind of region; two of them exclude each other.
    for (const uint8_t flags :
         {PIB_HCA_MR_PHYSICAL | PIB_HCA_MR_FAST, PIB_HCA_MR_PHYSICAL | PIB_HCA_MR_ON_DEMAND,
          PIB_HCA_MR_FAST | PIB_HCA_MR_ON_DEMAND}) {
        Registration in{};
        in.pd = 7;
        in.flags = flags;
        in.iova = (flags & PIB_HCA_MR_FAST) != 0 ? 0 : 4096;
        in.length = (flags & PIB_HCA_MR_FAST) != 0 ? 0 : 4096;
        in.pages.page_count = (flags & PIB_HCA_MR_FAST) != 0 ? 1 : 0;
        CHECK(keys.status(in) == CmdStatus::kBadParam);
    }
    // More pages than one region may have, and more than the device stores for all regions.
    CHECK(status([](auto& in) { in.pages.page_count = Limits::kPagesPerMr + 1; }) ==
          CmdStatus::kNoResources);
    CHECK(status([](auto& in) {
              in.pages.page_count = 4097;
              in.pages.levels = 2;
          }) == CmdStatus::kNoResources);
}

TEST_CASE("the pages of a region are free again when it is destroyed or shrinks") {
    FakeHost host;
    Mpt mpt{host, 1000, 6};
    const GuestMemory memory{host, 4 * 4096}, half{host, 2 * 4096};
    Registration in{};
    in.pd = kPd;
    in.length = 4 * 4096;
    in.pages = page_list(memory.list());
    const uint32_t whole = mpt.create(in).value();
    CHECK(mpt.create(in).error() == CmdStatus::kNoResources);
    SECTION("it is destroyed") {
        REQUIRE(mpt.destroy(whole) == CmdStatus::kOk);
        CHECK(mpt.create(in));
    }
    SECTION("it is registered anew, with fewer pages") {
        Reregistration smaller{};
        smaller.mr = in;
        smaller.mr.length = 2 * 4096;
        smaller.mr.pages = page_list(half.list());
        smaller.mask = PIB_HCA_REREG_MR_TRANSLATION;
        REQUIRE(mpt.reregister(whole, smaller));
        CHECK(mpt.create(in));
        CHECK(mpt.create(smaller.mr).error() == CmdStatus::kNoResources);
    }
    SECTION("all of them go") {
        mpt.clear();
        CHECK(mpt.create(in));
    }
}

TEST_CASE("a key gives access only to its range") {
    Keys keys;
    const uint32_t key = keys.mpt.create(keys.request()).value();
    const auto allowed = [&](uint64_t addr, uint64_t length) {
        return keys.mpt.check(kUser, {key, addr, length, 0});
    };
    CHECK((key & 0xff) == 0x42);
    CHECK(allowed(kIova, kLength));
    CHECK(allowed(kIova + kLength - 1, 1));
    CHECK_FALSE(allowed(kIova - 1, 1));
    CHECK_FALSE(allowed(kIova - 1, kLength));
    CHECK_FALSE(allowed(kIova, kLength + 1));
    CHECK_FALSE(allowed(kIova + kLength, 1));
    CHECK_FALSE(allowed(kIova + 1, UINT64_MAX));
    CHECK_FALSE(allowed(UINT64_MAX, 2));
    CHECK_FALSE(allowed(0, 1));
    // IBA C9-88: an access to 0 bytes is not checked.
    CHECK(keys.mpt.check({kPd + 1, false}, {key ^ 1, 0, 0, PIB_HCA_ACCESS_REMOTE_WRITE}));
}

TEST_CASE("a wrong PD, key byte or index, or a missing right is refused") {
    Keys keys;
    const uint32_t access = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_READ;
    const uint32_t key = keys.mpt.create(keys.request(access)).value();
    const auto allowed = [&](const KeyUser& user, uint32_t k, uint32_t rights) {
        return keys.mpt.check(user, {k, kIova, 8, rights});
    };
    CHECK(allowed(kUser, key, access));
    CHECK_FALSE(allowed({kPd + 1, false}, key, 0));
    CHECK_FALSE(allowed(kUser, key ^ 0x01, 0));
    CHECK_FALSE(allowed(kUser, key ^ 0x100, 0));
    CHECK_FALSE(allowed(kUser, 0, 0));
    CHECK_FALSE(allowed(kUser, UINT32_MAX, 0));
    CHECK_FALSE(allowed(kUser, key, PIB_HCA_ACCESS_REMOTE_WRITE));
    CHECK_FALSE(allowed(kUser, key, PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC));
    REQUIRE(keys.mpt.destroy(key) == CmdStatus::kOk);
    CHECK_FALSE(allowed(kUser, key, 0));
    CHECK(keys.mpt.destroy(key) == CmdStatus::kBadResource);
}

TEST_CASE("accesses reach the region's pages") {
    Keys keys;
    const uint32_t key = keys.mpt.create(keys.request(PIB_HCA_ACCESS_LOCAL_WRITE)).value();
    std::vector<uint8_t> pattern(kLength);
    std::iota(pattern.begin(), pattern.end(), uint8_t{3});
    REQUIRE(keys.mpt.write(kUser, {key, kIova, kLength, PIB_HCA_ACCESS_LOCAL_WRITE}, pattern));
    std::vector<uint8_t> seen(kLength);
    keys.memory.read(kOffset, seen);
    CHECK(seen == pattern);
    CHECK(keys.memory.peek<uint32_t>(0) == 0);
    CHECK(keys.memory.peek<uint8_t>(kOffset + kLength) == 0);
    std::vector<uint8_t> part(5000);
    REQUIRE(keys.mpt.read(kUser, {key, kIova + 1000, part.size(), 0}, part));
    CHECK(std::equal(part.begin(), part.end(), pattern.begin() + 1000));
    // read() refuses a span whose length differs from the range's, which is a bug of the caller.
    CHECK_FALSE(keys.mpt.read(kUser, {key, kIova, 16, 0}, part));
    keys.host.make_hole(keys.memory.page(1), 1);
    CHECK_FALSE(keys.mpt.read(kUser, {key, kIova + 1000, part.size(), 0}, part));
}

TEST_CASE("translation finds pages of every size") {
    for (const uint8_t log_page_size : {uint8_t{13}, uint8_t{16}, uint8_t{21}, uint8_t{30}}) {
        FakeHost host;
        Mpt mpt{host, 1000, 4096};
        const uint64_t size = uint64_t{1} << log_page_size;
        // Two pages in the wrong order, the second of the list first in memory.
        const uint64_t low = host.alloc(size, size), high = host.alloc(size, size);
        const uint64_t table = host.alloc(4096);
        host.poke(table, high);
        host.poke(table + 8, low);
        Registration in{};
        in.pd = kPd;
        in.iova = kIova;
        in.page_offset = static_cast<uint32_t>(size - 8);
        in.length = 16;  // the last 8 bytes of the one page, the first 8 of the other
        in.pages.root = table;
        in.pages.page_count = 2;
        in.pages.levels = 1;
        in.pages.log_page_size = log_page_size;
        const uint32_t key = mpt.create(in).value();
        host.poke(high + size - 8, uint64_t{0x1111});
        host.poke(low, uint64_t{0x2222});
        std::array<uint64_t, 2> seen{};
        const std::span bytes(reinterpret_cast<uint8_t*>(seen.data()), sizeof seen);
        REQUIRE(mpt.read(kUser, {key, kIova, 16, 0}, bytes));
        CHECK(seen[0] == 0x1111);
        CHECK(seen[1] == 0x2222);
    }
}

TEST_CASE("atomics need aligned words") {
    Keys keys;
    Registration in = keys.request(PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_ATOMIC);
    const uint32_t right = PIB_HCA_ACCESS_REMOTE_ATOMIC;
    const uint32_t key = keys.mpt.create(in).value();
    keys.memory.poke(8, uint64_t{11});
    uint64_t expected = 11;
    REQUIRE(keys.mpt.cmpxchg64(kUser, {key, kIova + 4, 8, right}, expected, 12));
    CHECK(expected == 11);
    CHECK(keys.memory.peek<uint64_t>(8) == 12);
    REQUIRE(keys.mpt.cmpxchg64(kUser, {key, kIova + 4, 8, right}, expected, 13));
    CHECK(expected == 12);
    CHECK(keys.memory.peek<uint64_t>(8) == 12);
    CHECK_FALSE(keys.mpt.cmpxchg64(kUser, {key, kIova, 8, right}, expected, 13));
    CHECK_FALSE(keys.mpt.cmpxchg64(kUser, {key, kIova + 4, 4, right}, expected, 13));
    // An address that is aligned in the WQE and unaligned on the bus.
    in.iova = 0x1000;
    const uint32_t skewed = keys.mpt.create(in).value();
    CHECK_FALSE(keys.mpt.cmpxchg64(kUser, {skewed, 0x1000, 8, right}, expected, 13));
}

TEST_CASE("the privileged L_Key serves only local accesses of privileged QPs") {
    Keys keys;
    const uint64_t addr = keys.host.alloc(4096);
    const KeyUser kernel{kPd, true};
    std::vector<uint8_t> data(64, 0x11);
    const auto write = [&](const KeyUser& user, uint32_t access) {
        return keys.mpt.write(user, {kPrivilegedLkey, addr, data.size(), access}, data);
    };
    CHECK(write(kernel, PIB_HCA_ACCESS_LOCAL_WRITE));
    CHECK(keys.host.peek<uint8_t>(addr + 63) == 0x11);
    CHECK_FALSE(write(kUser, PIB_HCA_ACCESS_LOCAL_WRITE));
    CHECK_FALSE(write(kernel, PIB_HCA_ACCESS_REMOTE_WRITE));
    CHECK_FALSE(keys.mpt.check(kernel, {kPrivilegedLkey, UINT64_MAX, 2, 0}));
    CHECK(keys.mpt.destroy(kPrivilegedLkey) == CmdStatus::kBadResource);
}

TEST_CASE("a physical region names bus addresses") {
    Keys keys;
    Registration in{};
    in.pd = kPd;
    in.access = PIB_HCA_ACCESS_LOCAL_WRITE;
    in.length = UINT64_MAX;
    in.flags = PIB_HCA_MR_PHYSICAL;
    const uint32_t key = keys.mpt.create(in).value();
    const uint64_t addr = keys.host.alloc(4096);
    std::vector<uint8_t> data(64, 0x77);
    CHECK(keys.mpt.write(kUser, {key, addr, data.size(), PIB_HCA_ACCESS_LOCAL_WRITE}, data));
    CHECK(keys.host.peek<uint8_t>(addr) == 0x77);
    CHECK_FALSE(keys.mpt.read(kUser, {key, 0, data.size(), 0}, data));  // not RAM
    in.pages.page_count = 1;
    CHECK(keys.status(in) == CmdStatus::kBadParam);
    in.pages.page_count = 0;
    in.page_offset = 1;
    CHECK(keys.status(in) == CmdStatus::kBadParam);
}

TEST_CASE("keys are distinct, do not count up and never have the privileged index") {
    Keys keys;
    Registration in = keys.request();
    std::set<uint32_t> seen;
    uint32_t last = 0;
    unsigned neighbours = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        const uint32_t key = keys.mpt.create(in).value();
        CHECK(key >> PIB_HCA_KEY_INDEX_SHIFT != 0);
        neighbours += (key >> 8) - (last >> 8) + 4 < 8 ? 1 : 0;
        last = key;
        seen.insert(key);
    }
    CHECK(seen.size() == 1000);
    CHECK(neighbours < 10);
    CHECK(keys.status(in) == CmdStatus::kNoResources);
    CHECK(keys.mpt.keys().keys_of_pd(kPd) == 1000);
    keys.mpt.clear();
    CHECK(keys.mpt.keys().keys_of_pd(kPd) == 0);
    CHECK(keys.status(in) == CmdStatus::kOk);
}

// T28: of a million guessed keys, only those of the PD's own regions give access.
TEST_CASE("keys that are guessed are refused") {
    Keys keys;
    std::set<uint32_t> own;
    for (uint32_t i = 0; i < 400; ++i) {
        Registration in = keys.request(PIB_HCA_ACCESS_REMOTE_READ);
        in.pd = i % 2 == 0 ? kPd : kPd + 1;
        in.key = static_cast<uint8_t>(i);
        const auto key = keys.mpt.create(in);
        REQUIRE(key);
        if (in.pd == kPd) {
            own.insert(*key);
        }
    }
    std::mt19937 random(1);
    for (uint32_t i = 0; i < 1'000'000; ++i) {
        const uint32_t guess = static_cast<uint32_t>(random());
        if (keys.mpt.check(kUser, {guess, kIova, 1, PIB_HCA_ACCESS_REMOTE_READ}) !=
            own.contains(guess)) {
            FAIL("key " << guess);
        }
    }
}

TEST_CASE("REREG_MR changes the attributes of its mask, and the key") {
    Keys keys;
    const uint32_t key = *keys.mpt.create(keys.request(PIB_HCA_ACCESS_LOCAL_WRITE));
    const auto allowed = [&](uint32_t k, uint32_t pd, uint64_t addr, uint32_t access) {
        return keys.mpt.check({pd, false}, {k, addr, 8, access});
    };
    // The translation stays as it was unless the mask names it (IBA 11.2.8.5), so the bytes at the
    // region's first address are the same.
    keys.memory.poke(kOffset, uint64_t{0x4711});
    const auto first_word = [&](uint32_t k, uint32_t pd) {
        std::vector<uint8_t> bytes(8);
        REQUIRE(keys.mpt.read({pd, false}, {k, kIova, bytes.size(), 0}, bytes));
        return bytes[0] | bytes[1] << 8;
    };
    REQUIRE(first_word(key, kPd) == 0x4711);
    Reregistration in{};
    in.mr.key = 0x55;
    SECTION("rights") {
        in.mr.access = PIB_HCA_ACCESS_REMOTE_READ;
        in.mask = PIB_HCA_REREG_MR_ACCESS;
        const uint32_t again = *keys.mpt.reregister(key, in);
        CHECK(again == ((key & ~0xffu) | 0x55));
        CHECK(allowed(again, kPd, kIova, PIB_HCA_ACCESS_REMOTE_READ));
        CHECK_FALSE(allowed(again, kPd, kIova, PIB_HCA_ACCESS_LOCAL_WRITE));
        CHECK_FALSE(allowed(key, kPd, kIova, 0));
        CHECK(first_word(again, kPd) == 0x4711);
    }
    SECTION("PD") {
        in.mr.pd = 8;
        in.mask = PIB_HCA_REREG_MR_PD;
        const uint32_t again = *keys.mpt.reregister(key, in);
        CHECK(allowed(again, 8, kIova, PIB_HCA_ACCESS_LOCAL_WRITE));
        CHECK_FALSE(allowed(again, kPd, kIova, 0));
        CHECK(first_word(again, 8) == 0x4711);
        CHECK(keys.mpt.keys().keys_of_pd(kPd) == 0);
        CHECK(keys.mpt.keys().keys_of_pd(8) == 1);
        CHECK(keys.mpt.destroy(again) == CmdStatus::kOk);
        CHECK(keys.mpt.keys().keys_of_pd(8) == 0);
    }
    SECTION("translation") {
        GuestMemory other{keys.host, 4096};
        in.mr.iova = 0x1000;
        in.mr.length = 4096;
        in.mr.pages = page_list(other.list());
        in.mask = PIB_HCA_REREG_MR_TRANSLATION;
        const uint32_t again = *keys.mpt.reregister(key, in);
        CHECK_FALSE(allowed(again, kPd, kIova, 0));
        const std::vector<uint8_t> data(16, 0xa5);
        REQUIRE(
            keys.mpt.write({kPd, false}, {again, 0x1ff0, 16, PIB_HCA_ACCESS_LOCAL_WRITE}, data));
        std::vector<uint8_t> seen(16);
        keys.host.peek_bytes(other.page(0) + 4080, seen);
        CHECK(seen == data);
    }
}

TEST_CASE("a failed REREG_MR changes nothing") {
    Keys keys;
    const uint32_t key = *keys.mpt.create(keys.request(PIB_HCA_ACCESS_LOCAL_WRITE));
    const auto status = [&](uint32_t k, uint32_t mask, auto&& change) {
        Reregistration in{};
        in.mr = keys.request();
        in.mask = mask;
        change(in.mr);
        const auto again = keys.mpt.reregister(k, in);
        return again ? CmdStatus::kOk : again.error();
    };
    const auto nothing = [](auto&) {};
    CHECK(status(key ^ 1, 1, nothing) == CmdStatus::kBadResource);
    CHECK(status(key, PIB_HCA_REREG_MR_ACCESS, [](auto& mr) { mr.access = 1u << 30; }) ==
          CmdStatus::kBadReserved);
    CHECK(status(key, PIB_HCA_REREG_MR_ACCESS, [](auto& mr) {
              mr.access = PIB_HCA_ACCESS_REMOTE_WRITE;
          }) == CmdStatus::kBadParam);
    CHECK(status(key, PIB_HCA_REREG_MR_TRANSLATION, [](auto& mr) { mr.length = 0; }) ==
          CmdStatus::kBadParam);
    CHECK(status(key, PIB_HCA_REREG_MR_TRANSLATION, [](auto& mr) { mr.pages.page_count = 1; }) ==
          CmdStatus::kBadParam);
    keys.host.make_hole(keys.memory.page(2), 1);
    CHECK(status(key, PIB_HCA_REREG_MR_TRANSLATION, nothing) == CmdStatus::kBadMemory);
    keys.host.heal();
    CHECK(keys.mpt.check(kUser, {key, kIova, kLength, PIB_HCA_ACCESS_LOCAL_WRITE}));

    Registration physical{};
    physical.pd = kPd;
    physical.length = 4096;
    physical.flags = PIB_HCA_MR_PHYSICAL;
    const uint32_t other = *keys.mpt.create(physical);
    CHECK(status(other, PIB_HCA_REREG_MR_ACCESS, nothing) == CmdStatus::kBadParam);
}
