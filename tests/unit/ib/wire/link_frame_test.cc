// SPDX-License-Identifier: GPL-2.0-or-later
// Frames against the numbers of docs/fabric-protocol.md, and the reader against hostile streams.
#include "ib/wire/link_frame.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

#include "ib/wire/field.h"

using namespace pib::ib;
using namespace pib::link;

namespace {

using Bytes = std::vector<uint8_t>;

Hello a_hello() {
    return {.version_minor = 0,
            .features = 0,
            .role = Role::kChannelAdapter,
            .port_number = 2,
            .node_guid = Guid(0x0102030405060708),
            .port_guid = Guid(0x1112131415161718),
            .node_description = "vm0 pib-hca"};
}

Link a_link() {
    return {.up = true,
            .width_enabled = 3,
            .speed_enabled = 7,
            .speed_ext_enabled = 3,
            .mtu_cap = 5,
            .vl_cap = 4,
            .epoch = 0x0102};
}

template <typename T>
Bytes body_of(const T& value) {
    Bytes out;
    append(out, value);
    return Bytes(out.begin() + kHeaderSize, out.end());
}

template <typename T>
FrameError error_of(const Bytes& body) {
    const auto parsed = T::parse(body);
    REQUIRE_FALSE(parsed.has_value());
    return parsed.error();
}

void feed(FrameReader& reader, std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
        const auto space = reader.space();
        REQUIRE_FALSE(space.empty());
        const size_t count = std::min(space.size(), bytes.size());
        std::ranges::copy(bytes.first(count), space.begin());
        reader.commit(count);
        bytes = bytes.subspan(count);
    }
}

}  // namespace

TEST_CASE("HELLO has the layout of the protocol") {
    Bytes out;
    append(out, a_hello());
    REQUIRE(out.size() == 8 + 112);
    CHECK(out[0] == 1);
    CHECK(out[1] == 0);
    CHECK(load_be<uint32_t>(&out[4]) == 112);
    const Bytes body(out.begin() + 8, out.end());
    CHECK(std::string(body.begin(), body.begin() + 4) == "PIBL");
    CHECK(load_be<uint16_t>(&body[4]) == 1);
    CHECK(load_be<uint16_t>(&body[6]) == 0);
    CHECK(body[12] == 1);
    CHECK(body[13] == 2);
    CHECK(load_be<uint64_t>(&body[16]) == 0x0102030405060708);
    CHECK(load_be<uint64_t>(&body[24]) == 0x1112131415161718);
    CHECK(std::string(body.begin() + 40, body.begin() + 51) == "vm0 pib-hca");
    CHECK(Hello::parse(body) == a_hello());
}

TEST_CASE("HELLO is checked field by field") {
    const Bytes good = body_of(a_hello());
    const auto with = [&](size_t at, uint8_t value) {
        Bytes bytes = good;
        bytes[at] = value;
        return bytes;
    };
    CHECK(error_of<Hello>(with(0, 'Q')) == FrameError::kMalformedHello);
    CHECK(error_of<Hello>(with(5, 2)) == FrameError::kVersion);
    CHECK(error_of<Hello>(with(12, 0)) == FrameError::kMalformedHello);
    CHECK(error_of<Hello>(with(12, 3)) == FrameError::kMalformedHello);
    CHECK(error_of<Hello>(with(13, 0)) == FrameError::kMalformedHello);
    CHECK(error_of<Hello>(with(13, 255)) == FrameError::kMalformedHello);
    for (const size_t reserved : {14, 15, 32, 39, 104, 111}) {
        CHECK(error_of<Hello>(with(reserved, 1)) == FrameError::kMalformedHello);
    }
    CHECK(error_of<Hello>(with(40, '\n')) == FrameError::kMalformedHello);
    CHECK(error_of<Hello>(with(103, 'x')) == FrameError::kMalformedHello);
    Bytes no_guid = good;
    std::fill_n(no_guid.begin() + 24, 8, uint8_t{0});
    CHECK(error_of<Hello>(no_guid) == FrameError::kMalformedHello);
    no_guid = good;
    std::fill_n(no_guid.begin() + 16, 8, uint8_t{0});
    CHECK(error_of<Hello>(no_guid) == FrameError::kMalformedHello);
    // HELLO may have any minor version and features. One of another major version may be longer.
    CHECK(Hello::parse(with(7, 9)).value().version_minor == 9);
    CHECK(Hello::parse(with(8, 0x80)).value().features == 0x80000000);
    Bytes other_major = with(5, 2);
    other_major.resize(300);
    CHECK(error_of<Hello>(other_major) == FrameError::kVersion);
}

TEST_CASE("every truncation of a body is refused") {
    const Bytes hello = body_of(a_hello());
    const Bytes welcome = body_of(Welcome{.switch_guid = Guid(5), .port_number = 3});
    const Bytes refuse = body_of(Refuse{RefuseReason::kNoFreePort, "full"});
    const Bytes link = body_of(a_link());
    const Bytes credit = body_of(Credit{.vl = 1, .epoch = 2, .limit = 3});
    const auto head = [](const Bytes& bytes, size_t length) {
        return Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    };
    for (size_t n = 0; n < hello.size(); ++n) {
        CHECK_FALSE(Hello::parse(head(hello, n)).has_value());
    }
    for (size_t n = 0; n < welcome.size(); ++n) {
        CHECK_FALSE(Welcome::parse(head(welcome, n)).has_value());
    }
    for (size_t n = 0; n < refuse.size(); ++n) {
        CHECK_FALSE(Refuse::parse(head(refuse, n)).has_value());
    }
    for (size_t n = 0; n < link.size(); ++n) {
        CHECK_FALSE(Link::parse(head(link, n)).has_value());
    }
    for (size_t n = 0; n < credit.size(); ++n) {
        CHECK_FALSE(Credit::parse(head(credit, n)).has_value());
    }
}

TEST_CASE("WELCOME has the layout of the protocol") {
    const Welcome welcome{
        .version_minor = 0, .features = 0, .switch_guid = Guid(0xABCDEF), .port_number = 36};
    Bytes body = body_of(welcome);
    REQUIRE(body.size() == 32);
    CHECK(body[16] == 36);
    CHECK(Welcome::parse(body) == welcome);
    body[31] = 1;
    CHECK(error_of<Welcome>(body) == FrameError::kReserved);
    body[1] = 2;
    CHECK(error_of<Welcome>(body) == FrameError::kVersion);
}

TEST_CASE("REFUSE carries one line") {
    const Refuse refuse{RefuseReason::kDuplicatePortGuid, "port GUID in use; choose another"};
    Bytes body = body_of(refuse);
    CHECK(Refuse::parse(body) == refuse);
    body.back() = '\n';
    CHECK(error_of<Refuse>(body) == FrameError::kValue);
    body[3] ^= 1;
    CHECK(error_of<Refuse>(body) == FrameError::kLength);
    CHECK(error_of<Refuse>(Bytes(4 + Refuse::kMaxText + 1, 'x')) == FrameError::kLength);
    const Refuse huge{RefuseReason::kVersion, std::string(1000, 'x')};
    CHECK(Refuse::parse(body_of(huge)).value().text.size() == Refuse::kMaxText);
}

TEST_CASE("LINK and CREDIT have the layout of the protocol") {
    Bytes link = body_of(a_link());
    CHECK(link == Bytes{1, 3, 7, 3, 5, 4, 1, 2, 0, 0, 0, 0});
    CHECK(Link::parse(link) == a_link());
    link[11] = 1;
    CHECK(error_of<Link>(link) == FrameError::kReserved);
    link[11] = 0;
    for (const size_t at : {0, 4, 5}) {
        Bytes bad = link;
        bad[at] = 6;
        CHECK(error_of<Link>(bad) == FrameError::kValue);
    }
    for (const size_t at : {4, 5}) {
        Bytes bad = link;
        bad[at] = 0;
        CHECK(error_of<Link>(bad) == FrameError::kValue);
    }
    const Credit credit{.vl = 14, .epoch = 0x1234, .limit = 0xFFFFFFFF};
    Bytes bytes = body_of(credit);
    CHECK(bytes == Bytes{14, 0, 0x12, 0x34, 0xFF, 0xFF, 0xFF, 0xFF});
    CHECK(Credit::parse(bytes) == credit);
    bytes[0] = 15;
    CHECK(error_of<Credit>(bytes) == FrameError::kValue);
    bytes[0] = 0;
    bytes[1] = 1;
    CHECK(error_of<Credit>(bytes) == FrameError::kReserved);
}

TEST_CASE("MEMORY is checked field by field") {
    Bytes body = body_of(Memory{{4096, 8192}});
    REQUIRE(body.size() == Memory::kFixed + 16);
    CHECK(Memory::parse(body)->blocks == std::vector<uint64_t>{4096, 8192});
    for (size_t n = 0; n < body.size(); ++n) {
        CHECK(error_of<Memory>(Bytes(body.begin(), body.begin() + static_cast<ptrdiff_t>(n))) ==
              FrameError::kLength);
    }
    for (size_t at = 2; at < Memory::kFixed; ++at) {
        Bytes bad = body;
        bad[at] = 1;
        CHECK(error_of<Memory>(bad) == FrameError::kReserved);
    }
    body[1] = 3;
    CHECK(error_of<Memory>(body) == FrameError::kLength);
    CHECK(error_of<Memory>(body_of(Memory{{4096, 0}})) == FrameError::kValue);
}

TEST_CASE("PULL is checked field by field") {
    const Pull good{.handle = 5,
                    .sequence = 1,
                    .offset = 64,
                    .length = 300,
                    .segments = {{.offset = 0, .block = 0, .length = 100},
                                 {.offset = 4096, .block = 1, .length = 200}}};
    const Bytes body = body_of(good);
    const auto parsed = Pull::parse(body);
    REQUIRE(parsed);
    CHECK(parsed->segments == good.segments);
    for (size_t n = 0; n < body.size(); ++n) {
        CHECK(error_of<Pull>(Bytes(body.begin(), body.begin() + static_cast<ptrdiff_t>(n))) ==
              FrameError::kLength);
    }
    const auto refused = [&](auto&& change) {
        Pull bad = good;
        change(bad);
        return error_of<Pull>(body_of(bad));
    };
    CHECK(refused([](Pull& pull) { pull.handle = 0; }) == FrameError::kValue);
    CHECK(refused([](Pull& pull) { pull.sequence = 0; }) == FrameError::kValue);
    CHECK(refused([](Pull& pull) { pull.length = 0; }) == FrameError::kValue);
    CHECK(refused([](Pull& pull) { pull.length = 299; }) == FrameError::kValue);
    CHECK(refused([](Pull& pull) { pull.length = kMaxOfferBytes + 1; }) == FrameError::kValue);
    CHECK(refused([](Pull& pull) { pull.offset = kMaxOfferBytes - 299; }) == FrameError::kValue);
    CHECK(refused([](Pull& pull) { pull.segments[1].length = 0; }) == FrameError::kLength);
    CHECK(refused([](Pull& pull) { pull.segments.assign(kMaxSegments + 1, {0, 0, 1}); }) ==
          FrameError::kLength);
    Pull last = good;
    last.offset = kMaxOfferBytes - 300;
    CHECK(Pull::parse(body_of(last)));
}

TEST_CASE("an offer is checked field by field") {
    const std::vector<BlockSegment> segments = {{.offset = 8, .block = 0, .length = 100},
                                                {.offset = 0, .block = 2, .length = 156}};
    const auto body = [](uint64_t handle, uint32_t bytes, const std::vector<BlockSegment>& of) {
        Bytes out(Offer::kFixed + BlockSegment::kSize * of.size());
        write_offer(out, handle, bytes, of);
        return out;
    };
    const Bytes good = body(7, 256, segments);
    CHECK(Offer::parse(good)->segments == segments);
    CHECK(Offer::parse(body(7, kMaxOfferBytes, {})).has_value());
    for (size_t n = 0; n < good.size(); ++n) {
        CHECK(error_of<Offer>(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(n))) ==
              FrameError::kLength);
    }
    CHECK(error_of<Offer>(body(0, 256, segments)) == FrameError::kValue);
    CHECK(error_of<Offer>(body(7, 255, segments)) == FrameError::kValue);
    CHECK(error_of<Offer>(body(7, 0, {})) == FrameError::kValue);
    CHECK(error_of<Offer>(body(7, kMaxOfferBytes + 1, {})) == FrameError::kValue);
}

TEST_CASE("a packet of n bytes takes n/64 blocks, rounded up") {
    CHECK(credit_blocks(1) == 1);
    CHECK(credit_blocks(64) == 1);
    CHECK(credit_blocks(65) == 2);
    CHECK(credit_blocks(4096) == 64);
}

TEST_CASE("negotiation selects the best common width and speed") {
    const Link mine = a_link();
    Link theirs = a_link();
    CHECK(negotiate(mine, theirs) == ActiveLink{.width = 2, .speed = 4, .speed_ext = 2});
    theirs.speed_ext_enabled = 1;
    CHECK(negotiate(mine, theirs) == ActiveLink{.width = 2, .speed = 4, .speed_ext = 1});
    theirs.speed_ext_enabled = 8;
    theirs.speed_enabled = 2;
    theirs.width_enabled = 0x11;
    CHECK(negotiate(mine, theirs) == ActiveLink{.width = 1, .speed = 2, .speed_ext = 0});
    theirs.speed_enabled = 8;
    CHECK_FALSE(negotiate(mine, theirs).has_value());
    theirs = a_link();
    theirs.width_enabled = 0x18;
    CHECK_FALSE(negotiate(mine, theirs).has_value());
    theirs = a_link();
    theirs.up = false;
    CHECK_FALSE(negotiate(mine, theirs).has_value());
    CHECK_FALSE(negotiate(theirs, mine).has_value());
}

TEST_CASE("width 2x ranks between 1x and 4x, and 12x above them") {
    Link mine = a_link();
    Link theirs = a_link();
    mine.width_enabled = theirs.width_enabled = 1 | 16;
    CHECK(negotiate(mine, theirs)->width == 16);
    mine.width_enabled = theirs.width_enabled = 2 | 16;
    CHECK(negotiate(mine, theirs)->width == 2);
    mine.width_enabled = theirs.width_enabled = 31;
    CHECK(negotiate(mine, theirs)->width == 8);
}

TEST_CASE("without an extended speed the basic one is active") {
    Link mine = a_link();
    Link theirs = a_link();
    mine.speed_ext_enabled = 30;
    theirs.speed_ext_enabled = 3;
    CHECK(negotiate(mine, theirs) == ActiveLink{.width = 2, .speed = 4, .speed_ext = 0});
    theirs.speed_ext_enabled = 30;
    CHECK(negotiate(mine, theirs) == ActiveLink{.width = 2, .speed = 4, .speed_ext = 0});
}

TEST_CASE("the reader finds the frames of a stream in any fragmentation") {
    Bytes stream;
    append(stream, a_hello());
    append(stream, a_link());
    const Bytes packet(100, 0x5A);
    append_packet(stream, packet, true);
    append(stream, Credit{.vl = 0, .epoch = 1, .limit = 2});
    for (size_t chunk = 1; chunk <= stream.size(); ++chunk) {
        FrameReader reader;
        std::vector<FrameType> seen;
        for (size_t at = 0; at < stream.size(); at += chunk) {
            feed(reader, std::span(stream).subspan(at, std::min(chunk, stream.size() - at)));
            for (;;) {
                const auto frame = reader.next();
                REQUIRE(frame.has_value());
                if (!frame->has_value()) {
                    break;
                }
                seen.push_back((*frame)->type);
                if ((*frame)->type == FrameType::kPacket) {
                    CHECK((*frame)->crc_elided());
                    CHECK(std::ranges::equal((*frame)->body, packet));
                }
            }
        }
        CHECK(seen == std::vector{FrameType::kHello, FrameType::kLink, FrameType::kPacket,
                                  FrameType::kCredit});
    }
}

TEST_CASE("the reader refuses an invalid frame header and stays in error") {
    const auto error = [](Bytes header) {
        header.resize(kHeaderSize);
        FrameReader reader;
        feed(reader, header);
        const auto first = reader.next();
        REQUIRE_FALSE(first.has_value());
        CHECK(reader.next().error() == first.error());
        return first.error();
    };
    CHECK(error({0, 0, 0, 0, 0, 0, 0, 8}) == FrameError::kType);
    CHECK(error({10, 0, 0, 0, 0, 0, 0, 8}) == FrameError::kType);
    CHECK(error({8, 0, 0, 0, 0, 0, 0, 8}) == FrameError::kLength);
    CHECK(error({9, 0, 0, 0, 0, 0, 0, 48}) == FrameError::kType);  // PULL, which no stream has
    CHECK(error({7, 0, 0, 0, 0, 0, 4, 0}) == FrameError::kType);   // BURST, which no stream has
    CHECK(error({5, 1, 0, 0, 0, 0, 0, 8}) == FrameError::kFlags);
    CHECK(error({6, 2, 0, 0, 0, 0, 0, 8}) == FrameError::kFlags);
    CHECK(error({5, 0, 1, 0, 0, 0, 0, 8}) == FrameError::kReserved);
    CHECK(error({5, 0, 0, 0, 0, 0, 0, 9}) == FrameError::kLength);
    CHECK(error({4, 0, 0, 0, 0, 0, 0, 8}) == FrameError::kLength);
    CHECK(error({6, 0, 0, 0, 0, 0, 0x20, 1}) == FrameError::kLength);
    CHECK(error({6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF}) == FrameError::kLength);
    CHECK(error({6, 0, 0, 0, 0, 0, 0, 7}) == FrameError::kLength);
}

TEST_CASE("the reader needs bounded memory for any number of largest frames") {
    FrameReader reader(0);
    Bytes frame;
    append_packet(frame, Bytes(kMaxBody, 7), false);
    for (int i = 0; i < 100; ++i) {
        feed(reader, frame);
        const auto got = reader.next();
        REQUIRE(got.has_value());
        REQUIRE(got->has_value());
        CHECK((*got)->body.size() == kMaxBody);
    }
}

TEST_CASE("random streams end in an error or wait, without reading beyond their bytes") {
    std::mt19937 random(7);
    for (int run = 0; run < 500; ++run) {
        FrameReader reader(0);
        Bytes stream(random() % 600);
        for (auto& byte : stream) {
            byte = static_cast<uint8_t>(random() % 9);
        }
        feed(reader, stream);
        for (size_t frames = 0; frames <= stream.size(); ++frames) {
            const auto frame = reader.next();
            if (!frame || !*frame) {
                break;
            }
            REQUIRE(frames < stream.size() / kHeaderSize);
        }
    }
}
