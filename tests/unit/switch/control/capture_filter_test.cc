// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of live captures: the packets that they take, and refused ones.
#include "control/capture_filter.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "ib/wire/packet.h"

using namespace pib;
using fabric::CaptureFilter;
using nlohmann::json;

namespace {

std::vector<uint8_t> packet(uint16_t slid, uint16_t dlid, uint8_t opcode, uint32_t qp,
                            uint32_t source_qp = 0) {
    ib::PacketHeaders headers{};
    headers.lrh.slid = ib::Lid(slid);
    headers.lrh.dlid = ib::Lid(dlid);
    headers.lrh.lnh = ib::Lnh::kIbaLocal;
    headers.bth.opcode = opcode;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(qp);
    headers.deth = {.qkey = ib::QKey(1), .src_qp = ib::Qpn(source_qp)};
    std::vector<uint8_t> buffer(ib::kMaxPacket);
    auto builder = ib::PacketBuilder::begin(buffer, headers, 64, ib::Crcs::kElided);
    REQUIRE(builder);
    const auto bytes = builder->finish();
    return {bytes.begin(), bytes.end()};
}

constexpr uint8_t kRcSendOnly = 0x04;
constexpr uint8_t kUdSendOnly = 0x64;

CaptureFilter filter(const char* rules) {
    auto found = CaptureFilter::from(json::parse(rules));
    REQUIRE(found);
    return *found;
}

}  // namespace

TEST_CASE("capture filter: a filter without rules takes all packets") {
    CHECK(filter("[]").takes(packet(1, 2, kRcSendOnly, 0x40)));
    CHECK(filter("[]").takes({}));
}

TEST_CASE("capture filter: each member of a rule limits it, and each rule adds packets") {
    const auto one = filter(R"([{"slid":1,"dlid":2,"qp":64}])");
    CHECK(one.takes(packet(1, 2, kRcSendOnly, 64)));
    CHECK_FALSE(one.takes(packet(3, 2, kRcSendOnly, 64)));
    CHECK_FALSE(one.takes(packet(1, 3, kRcSendOnly, 64)));
    CHECK_FALSE(one.takes(packet(1, 2, kRcSendOnly, 65)));
    const auto two = filter(R"([{"slid":1},{"dlid":1}])");
    CHECK(two.takes(packet(1, 2, kRcSendOnly, 64)));
    CHECK(two.takes(packet(2, 1, kRcSendOnly, 64)));
    CHECK_FALSE(two.takes(packet(2, 3, kRcSendOnly, 64)));
}

TEST_CASE("capture filter: only a datagram has a source QP") {
    const auto one = filter(R"([{"source_qp":65}])");
    CHECK(one.takes(packet(1, 2, kUdSendOnly, 64, 65)));
    CHECK_FALSE(one.takes(packet(1, 2, kUdSendOnly, 65, 64)));
    CHECK_FALSE(one.takes(packet(1, 2, kRcSendOnly, 65, 65)));
}

TEST_CASE("capture filter: no rule matches a malformed packet") {
    const std::vector<uint8_t> bytes(7, 0xFF);
    CHECK_FALSE(filter(R"([{"slid":65535}])").takes(bytes));
    CHECK_FALSE(filter(R"([{"qp":1}])").takes(std::span(bytes).first(0)));
    auto reserved = packet(1, 2, kUdSendOnly, 64, 65);
    CHECK(filter(R"([{"qp":64}])").takes(reserved));
    reserved[8] = 0xFF;  // a reserved opcode
    CHECK_FALSE(filter(R"([{"qp":64}])").takes(reserved));
    CHECK(filter(R"([{"slid":1}])").takes(reserved));
}

TEST_CASE("capture filter: malformed rules are refused") {
    constexpr const char* kList = "rules are a list of at most 256";
    constexpr const char* kRule = "a rule is an object with slid, dlid, qp or source_qp";
    const std::pair<const char*, const char*> refused[] = {
        {"7", kList},
        {"{}", kList},
        {"null", kList},
        {"[7]", kRule},
        {"[{}]", kRule},
        {R"([{"lid":1}])", "a rule has slid, dlid, qp or source_qp, not lid"},
        {R"([{"slid":65536}])", "slid is 0 to 65535"},
        {R"([{"slid":null}])", "slid is 0 to 65535"},
        {R"([{"dlid":-1}])", "dlid is 0 to 65535"},
        {R"([{"dlid":true}])", "dlid is 0 to 65535"},
        {R"([{"qp":16777216}])", "qp is 0 to 16777215"},
        {R"([{"qp":"0x40"}])", "qp is 0 to 16777215"},
        {R"([{"source_qp":1.5}])", "source_qp is 0 to 16777215"},
    };
    for (const auto& [text, expected] : refused) {
        INFO(text);
        const auto found = CaptureFilter::from(json::parse(text));
        REQUIRE_FALSE(found);
        CHECK(found.error() == expected);
    }
    json many = json::array();
    for (size_t i = 0; i <= CaptureFilter::kMostRules; ++i) {
        many.push_back({{"qp", 1}});
    }
    CHECK_FALSE(CaptureFilter::from(many));
    many.erase(0);
    CHECK(CaptureFilter::from(many));
}
