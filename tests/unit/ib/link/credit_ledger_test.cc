// SPDX-License-Identifier: GPL-2.0-or-later
// Credits of the VLs of a link: taking, releasing and granting blocks, and CREDIT from the peer.
#include "ib/link/credit_ledger.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib;

namespace {

constexpr uint32_t kBlocks = 400;
constexpr uint16_t kOwnEpoch = 3;
constexpr uint16_t kPeerEpoch = 9;

struct Ledger {
    link::FrameChannel channel{0};
    link::CreditLedger credits{{kBlocks, 1}, channel};

    Ledger() {
        credits.restart_sending(kOwnEpoch);
        credits.restart_receiving(kPeerEpoch);
    }
    // The CREDITs that were sent since the last call.
    std::vector<link::Credit> sent() {
        std::vector<link::Credit> found;
        link::FrameReader reader;
        const auto bytes = channel.output();
        std::ranges::copy(bytes, reader.space().begin());
        reader.commit(bytes.size());
        channel.consume(bytes.size());
        while (const auto frame = reader.next().value()) {
            found.push_back(link::Credit::parse(frame->body).value());
        }
        return found;
    }
    link::LinkResult receive(const link::Credit& credit) {
        std::vector<uint8_t> bytes;
        append(bytes, credit);
        return credits.receive({.type = link::FrameType::kCredit,
                                .body = std::span(bytes).subspan(link::kHeaderSize)});
    }
};

}  // namespace

TEST_CASE("credits: the whole receive buffer is granted after the peer's LINK") {
    Ledger ledger;
    const auto granted = ledger.sent();
    REQUIRE(granted.size() == 2);
    CHECK(granted[0].vl == 0);
    CHECK(granted[0].epoch == kPeerEpoch);
    CHECK(granted[0].limit == kBlocks);
    CHECK(granted[1].vl == 1);
    CHECK(granted[1].limit == link::CreditLedger::kMinReceiveBlocks);
}

TEST_CASE("credits: a quarter of the buffer is granted at once") {
    Ledger ledger;
    (void)ledger.sent();
    REQUIRE(ledger.credits.take(0, kBlocks));
    ledger.credits.release(0, kBlocks / 4 - 1);
    CHECK(ledger.sent().empty());
    ledger.credits.release(0, 1);
    const auto granted = ledger.sent();
    REQUIRE(granted.size() == 1);
    CHECK(granted[0].limit == kBlocks + kBlocks / 4);
}

TEST_CASE("credits: packets beyond the grant take no receive buffer") {
    Ledger ledger;
    CHECK(ledger.credits.take(0, kBlocks));
    CHECK_FALSE(ledger.credits.take(0, 1));
    CHECK_FALSE(ledger.credits.take(2, 1));  // a VL without a buffer
    // A release of more blocks than are held releases only those.
    ledger.credits.release(0, 10 * kBlocks);
    (void)ledger.sent();
    CHECK_FALSE(ledger.credits.take(0, kBlocks + 1));
}

TEST_CASE("credits: a CREDIT of the current epoch raises the limit, and never lowers it") {
    Ledger ledger;
    REQUIRE(ledger.receive({.vl = 0, .epoch = kOwnEpoch, .limit = 50}));
    CHECK(ledger.credits.available(0) == 50);
    ledger.credits.spend(0, 20);
    CHECK(ledger.credits.available(0) == 30);
    for (const uint16_t epoch : {kOwnEpoch - 1, kOwnEpoch + 1}) {
        REQUIRE(ledger.receive({.vl = 0, .epoch = epoch, .limit = 90}));
        CHECK(ledger.credits.available(0) == 30);
    }
    CHECK_FALSE(ledger.receive({.vl = 0, .epoch = kOwnEpoch, .limit = 49}));
    ledger.credits.restart_sending(kOwnEpoch + 1);
    CHECK(ledger.credits.available(0) == 0);
}

TEST_CASE("credits: limits are counted modulo 2^32") {
    Ledger ledger;
    for (const uint32_t limit : {0x60000000u, 0xc0000000u, 0xfffffff0u}) {
        REQUIRE(ledger.receive({.vl = 0, .epoch = kOwnEpoch, .limit = limit}));
    }
    ledger.credits.spend(0, 0xffffffe0);
    REQUIRE(ledger.receive({.vl = 0, .epoch = kOwnEpoch, .limit = 0x30}));
    CHECK(ledger.credits.available(0) == 0x50);
    CHECK_FALSE(ledger.receive({.vl = 0, .epoch = kOwnEpoch, .limit = 0xfffffff0}));
}

TEST_CASE("credits: a CREDIT without room is sent later, unless the link has ended") {
    Ledger ledger;
    (void)ledger.sent();
    while (!ledger.channel.reserve(64).empty()) {
        ledger.channel.commit(64);
    }
    REQUIRE(ledger.credits.take(0, kBlocks));
    ledger.credits.release(0, kBlocks);
    ledger.channel.consume(ledger.channel.output().size());
    ledger.credits.send_unsent();
    CHECK(ledger.sent().size() == 1);
    REQUIRE(ledger.credits.take(0, kBlocks));
    ledger.credits.stop();
    ledger.credits.release(0, kBlocks);
    CHECK(ledger.sent().empty());
}
