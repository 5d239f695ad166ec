// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/packet_pool.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace pib::test {
namespace {

using fabric::Origin;
using fabric::PacketPool;
using fabric::PacketRef;
using fabric::Transit;

constexpr Origin kOrigin{.port = 3, .vl = 2, .blocks = 7, .link_serial = 11};

struct Sink : fabric::OriginSink {
    void release_origin(const Origin& origin) override { released.push_back(origin); }
    std::vector<Origin> released;
};

// A packet with distinct bytes.
std::vector<uint8_t> packet_of(size_t bytes) {
    std::vector<uint8_t> packet(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        packet[i] = static_cast<uint8_t>(i * 7 + 1);
    }
    return packet;
}

}  // namespace

TEST_CASE("packet pool: a held packet is a copy with its origin") {
    Sink sink;
    PacketPool pool(sink);
    const std::vector<uint8_t> sent = packet_of(300);
    std::vector<uint8_t> packet = sent;
    const PacketRef held = pool.hold(packet, kOrigin);
    std::ranges::fill(packet, uint8_t{0});
    CHECK(std::ranges::equal(held.bytes(), sent));
    CHECK(held.origin().port == 3);
    CHECK(held.origin().vl == 2);
    CHECK(held.origin().blocks == 7);
    CHECK(held.origin().link_serial == 11);
    CHECK(pool.held_packets() == 1);
}

TEST_CASE("packet pool: a packet that is too long is not held") {
    Sink sink;
    PacketPool pool(sink);
    CHECK_FALSE(pool.hold(packet_of(PacketPool::kMaxPacketBytes + 1), kOrigin));
    CHECK_FALSE(pool.take(PacketPool::kMaxPacketBytes + 1, kOrigin));
    CHECK(pool.held_packets() == 0);
    CHECK(sink.released.empty());
    const PacketRef longest = pool.take(PacketPool::kMaxPacketBytes, kOrigin);
    REQUIRE(longest);
    CHECK(longest.bytes().size() == PacketPool::kMaxPacketBytes);
}

TEST_CASE("packet pool: the last reference releases the origin, once") {
    Sink sink;
    PacketPool pool(sink);
    PacketRef first = pool.take(64, kOrigin);
    SECTION("a packet with two references") {
        PacketRef second = first;
        first.reset();
        first.reset();
        CHECK(sink.released.empty());
        CHECK(pool.held_packets() == 1);
        second.reset();
    }
    SECTION("a moved reference") {
        {
            const PacketRef second = std::move(first);
            CHECK(sink.released.empty());
        }
    }
    SECTION("a reference that is assigned another packet") {
        const PacketRef second = pool.take(64, {});
        first = second;
        CHECK(pool.held_packets() == 1);
    }
    REQUIRE(sink.released.size() == 1);
    CHECK(sink.released[0].port == 3);
    CHECK(sink.released[0].vl == 2);
    CHECK(sink.released[0].blocks == 7);
    CHECK(sink.released[0].link_serial == 11);
    first.reset();
    CHECK(sink.released.size() == 1);
    CHECK(pool.held_packets() == 0);
}

TEST_CASE("packet pool: a packet of the switch itself has no receive buffer to release") {
    Sink sink;
    PacketPool pool(sink);
    pool.take(64, {}).reset();
    CHECK(sink.released.empty());
    CHECK(pool.held_packets() == 0);
}

TEST_CASE("packet pool: a released buffer is used again for packets of its size") {
    Sink sink;
    PacketPool pool(sink);
    PacketRef first = pool.take(400, {});
    const uint8_t* place = first.bytes().data();
    first.reset();
    const PacketRef smaller = pool.take(320, {});
    CHECK(smaller.bytes().data() != place);
    const PacketRef larger = pool.take(1153, {});
    CHECK(larger.bytes().data() != place);
    const PacketRef similar = pool.take(1152, {});
    CHECK(similar.bytes().data() == place);
    CHECK(similar.bytes().size() == 1152);
}

TEST_CASE("packet pool: held packets do not overlap") {
    Sink sink;
    PacketPool pool(sink);
    std::vector<PacketRef> held;
    for (const size_t bytes : {1, 128, 129, 320, 321, 1152, 1153, 2304, 2305, 4352}) {
        for (int i = 0; i < 40; ++i) {
            held.push_back(pool.take(bytes, {}));
            std::ranges::fill(held.back().bytes(), static_cast<uint8_t>(held.size()));
        }
    }
    CHECK(pool.held_packets() == held.size());
    size_t number = 0;
    for (const PacketRef& packet : held) {
        const auto mark = static_cast<uint8_t>(++number);
        CHECK(std::ranges::all_of(packet.bytes(), [&](uint8_t byte) { return byte == mark; }));
    }
}

TEST_CASE("transit: a packet on its way occupies its receive buffer until it ends") {
    Sink sink;
    PacketPool pool(sink);
    const std::vector<uint8_t> packet = packet_of(64);
    const ib::Burst burst(packet);
    std::optional<Transit> transit(std::in_place, pool, sink, burst, nullptr, kOrigin);
    SECTION("a packet that was not held") {
        transit.reset();
        CHECK(sink.released.size() == 1);
    }
    SECTION("a held packet: until its last reference ends") {
        PacketRef held = transit->hold();
        CHECK(pool.held_packets() == 1);
        CHECK(std::ranges::equal(held.bytes(), packet));
        transit.reset();
        CHECK(sink.released.empty());
        held.reset();
        CHECK(sink.released.size() == 1);
    }
    SECTION("a packet whose parts free the receive buffer themselves") {
        transit->split();
        transit.reset();
        CHECK(sink.released.empty());
    }
}

TEST_CASE("transit: only a packet that the peer can still change is copied to be read") {
    Sink sink;
    PacketPool pool(sink);
    const std::vector<uint8_t> packet = packet_of(300);
    std::vector<uint8_t> shared = packet;
    SECTION("a packet that it cannot change") {
        Transit transit(pool, sink, ib::Burst(packet), nullptr, kOrigin);
        CHECK(transit.settled().data() == packet.data());
        CHECK(pool.held_packets() == 0);
    }
    SECTION("a packet in the peer's memory") {
        const auto head = std::span(packet).first(ib::kMaxHeaders);
        const ib::Burst burst(ib::PacketBytes(head, shared));
        Transit transit(pool, sink, burst, nullptr, kOrigin);
        const std::span<const uint8_t> settled = transit.settled();
        std::ranges::fill(shared, uint8_t{0});
        CHECK(std::ranges::equal(settled, packet));
    }
}

}  // namespace pib::test
