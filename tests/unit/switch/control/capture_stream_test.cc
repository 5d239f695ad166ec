// SPDX-License-Identifier: GPL-2.0-or-later
// Live captures as tshark reads them, and the number of lost packets.
#include "control/capture_stream.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstring>
#include <string>

#include "switch/packet_tap.h"
#include "test_fabric.h"
#include "tshark.h"

namespace pib::test {
namespace {

using fabric::CaptureStream;

constexpr uint32_t kStatistics = 5;
constexpr uint32_t kPacket = 6;
constexpr size_t kBlockHeader = 28;  // before the ERF header of a packet
constexpr size_t kErfLost = 12;

uint32_t word(std::span<const uint8_t> bytes, size_t at) {
    uint32_t value = 0;
    REQUIRE(at + sizeof(value) <= bytes.size());
    std::memcpy(&value, &bytes[at], sizeof(value));
    return value;
}

// Big-endian, as in an ERF header.
uint16_t half(std::span<const uint8_t> bytes, size_t at) {
    REQUIRE(at + 2 <= bytes.size());
    return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

fabric::Arrival at(uint64_t now_ns) {
    return {.now_ns = now_ns, .lid = 0, .port = 0, .credits = std::nullopt};
}

struct Blocks {
    unsigned packets = 0;
    uint32_t dropped = 0;  // lower half of the last isb_ifdrop

    explicit Blocks(std::span<const uint8_t> bytes) {
        for (size_t at = 0; at < bytes.size();) {
            const uint32_t length = word(bytes, at + 4);
            REQUIRE(length % 4 == 0);
            REQUIRE(word(bytes, at + length - 4) == length);
            packets += word(bytes, at) == kPacket ? 1 : 0;
            dropped = word(bytes, at) == kStatistics ? word(bytes, at + 24) : dropped;
            at += length;
        }
    }
};

std::vector<uint8_t> drain(CaptureStream& stream) {
    std::vector<uint8_t> all;
    while (!stream.pending().empty()) {
        const auto part = stream.pending().first((stream.pending().size() + 1) / 2);
        all.insert(all.end(), part.begin(), part.end());
        stream.sent(part.size());
    }
    return all;
}

// Remembers the last packet's arrival.
struct ArrivalTap final : fabric::PacketTap {
    explicit ArrivalTap(FakeHca& sender) : sender(sender) {}
    void packet_seen(std::span<const uint8_t>, const fabric::Arrival& arrival) override {
        last = arrival;
        left = sender.own_end().sender().credits(0);
    }
    FakeHca& sender;
    fabric::Arrival last;
    uint32_t left = 0;  // credits, as the sender knows them
};

struct Tap final : fabric::PacketTap {
    explicit Tap(CaptureStream& stream) : stream(stream) {}
    void packet_seen(std::span<const uint8_t> packet, const fabric::Arrival& arrival) override {
        stream.add(packet, arrival);
        ++seen;
    }
    CaptureStream& stream;
    unsigned seen = 0;
};

}  // namespace

TEST_CASE("capture stream: tshark reads each packet") {
    CaptureStream stream("", 1'700'000'000'000'000'000);
    Tap tap(stream);
    TestFabric fabric(2);
    fabric.sw.set_tap(&tap);
    fabric.make_active();
    fabric.sw.set_tap(nullptr);
    const auto bytes = drain(stream);
    CHECK(Blocks(bytes).packets == tap.seen);
    CHECK(stream.lost() == 0);
    if (!have_tshark()) {
        SKIP("tshark is not installed");
    }
    char name[] = "/tmp/pib-switch-test-XXXXXX";
    const int fd = ::mkstemp(name);
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(fd);
    const auto packets = dissect(name, {"infiniband.mad.method", "frame.time_epoch"});
    ::unlink(name);
    REQUIRE(packets.size() == tap.seen);
    for (const auto& packet : packets) {
        CHECK(packet.at("_ws.malformed").empty());
        CHECK_FALSE(packet.at("infiniband.mad.method").empty());
        CHECK(packet.at("frame.time_epoch").starts_with("17000000"));
    }
}

TEST_CASE("capture stream: the greeting precedes the capture") {
    CaptureStream stream("hello\n", 0);
    CHECK(std::memcmp(stream.pending().data(), "hello\n\x0A\x0D\x0D\x0A", 10) == 0);
}

TEST_CASE("capture stream: packets without room are lost and counted") {
    constexpr unsigned kPackets = 100;
    const std::vector<uint8_t> packet(200, 0);
    CaptureStream stream("", 0, 2000);
    for (unsigned i = 0; i < kPackets; ++i) {
        stream.add(packet, at(i));
    }
    CHECK(stream.pending().size() <= 2000);
    const Blocks first(drain(stream));
    CHECK(first.packets > 0);
    CHECK(first.dropped == stream.lost());
    CHECK(first.packets + stream.lost() == kPackets);
    stream.add(packet, at(kPackets));
    const auto next = drain(stream);
    CHECK(Blocks(next).packets == 1);
    CHECK(half(next, kBlockHeader + kErfLost) == stream.lost());
    stream.add(packet, at(kPackets));
    CHECK(half(drain(stream), kBlockHeader + kErfLost) == 0);
    for (unsigned i = 0; i < kPackets; ++i) {  // a reader that takes a little each time
        stream.add(packet, at(i));
        stream.sent(std::min<size_t>(stream.pending().size(), 64));
    }
    CHECK(stream.pending().size() <= 2000);
}

TEST_CASE("capture stream: an ERF header has port, switch and credits of the arrival") {
    CaptureStream stream("", 0);
    const std::vector<uint8_t> packet(200, 0);
    stream.add(packet, {.now_ns = 1, .lid = 0x1234, .port = 7, .credits = 0x00020003});
    stream.add(packet, {.now_ns = 2, .lid = 0, .port = 0, .credits = std::nullopt});
    const auto bytes = drain(stream);
    constexpr size_t kExtension = 28 + 32 + kBlockHeader + 16;  // in the block of the first packet
    CHECK(bytes[kExtension - 8] == (21 | 0x80));
    CHECK(half(bytes, kExtension) == 0x7E07);
    CHECK(half(bytes, kExtension + 2) == 0x1234);
    CHECK(half(bytes, kExtension + 4) == 2);
    CHECK(half(bytes, kExtension + 6) == 3);
    const size_t second = kExtension + word(bytes, 28 + 32 + 4);
    CHECK(half(bytes, second) == 0x7E00);
    CHECK(half(bytes, second + 4) == 0xFFFF);
    CHECK(half(bytes, second + 6) == 0xFFFF);
}

TEST_CASE("capture stream: the credits of an arrival are those that the sender has left") {
    TestFabric fabric(2);
    fabric.make_active();
    ArrivalTap tap(fabric.hca(0));
    fabric.sw.set_tap(&tap);
    const uint32_t before = fabric.hca(0).own_end().sender().credits(0);
    const Bytes packet = make_packet(0, TestFabric::lid_of(1), 1024);
    REQUIRE(fabric.hca(0).send_packet(packet));
    fabric.settle();
    CHECK(tap.last.port == fabric.hca(0).port());
    CHECK(tap.last.lid == TestFabric::kSwitchLid);
    REQUIRE(tap.last.credits);
    CHECK(*tap.last.credits == tap.left);
    CHECK(tap.left == before - link::packet_blocks(packet.size()));
    REQUIRE(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0));
    CHECK_FALSE(tap.last.credits);
    fabric.sw.set_tap(nullptr);
}

}  // namespace pib::test
