// SPDX-License-Identifier: GPL-2.0-or-later
// Answers of the SMA to a subnet manager: versions, methods, attributes, M_Key, and the common
// attributes of a channel adapter and of a switch.
#include "ib/mgmt/mad_agent.h"

#include <catch2/catch_test_macros.hpp>
#include <initializer_list>

using namespace pib::ib;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

SmaNode an_hca(unsigned num_ports = 2) {
    SmaNode node;
    node.type = NodeType::kChannelAdapter;
    node.node_guid = Guid(0x100);
    node.system_image_guid = Guid(0x101);
    node.vendor_id = 0x123456;
    node.device_id = 0x7777;
    node.revision = 0xA0;
    node.set_description("vm0 pib-hca");
    for (unsigned i = 1; i <= num_ports; ++i) {
        node.ports.push_back(
            make_port({.port_number = static_cast<uint8_t>(i),
                       .guid = Guid(0x100 + i),
                       .capability_mask = port_cap::kIsClientReregistrationSupported}));
    }
    return node;
}

SmaNode a_switch() {
    SmaNode node;
    node.type = NodeType::kSwitch;
    node.ports.push_back(make_port(
        {.kind = PortKind::kSwitchPort0, .port_number = 0, .guid = Guid(0x200), .guid_cap = 1}));
    for (uint8_t i = 1; i <= 8; ++i) {
        node.ports.push_back(make_port({.kind = PortKind::kSwitchExternal,
                                        .port_number = i,
                                        .pkey_cap = 24,
                                        .sl2vl_inputs = 9}));
    }
    return node;
}

Mad make_smp(Method method, uint16_t attribute, uint32_t modifier = 0, uint64_t m_key = 0) {
    Mad mad;
    mad.set(mad_header::kBaseVersion, 1);
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kSubnLidRouted));
    mad.set(mad_header::kClassVersion, 1);
    mad.set(mad_header::kMethod, static_cast<unsigned>(method));
    mad.set(mad_header::kTransactionId, 0x1234);
    mad.set(mad_header::kAttributeId, attribute);
    mad.set(mad_header::kAttributeModifier, modifier);
    mad.set(smp::kMKey, m_key);
    return mad;
}

Mad ask(SmaNode& node, const Mad& request, const SmpArrival& arrival = {}) {
    const SmaAnswer answer = sma_answer(node, request, arrival);
    REQUIRE(answer.disposition == SmaDisposition::kReply);
    return answer.reply;
}

uint16_t status_of(SmaNode& node, const Mad& request) {
    return ask(node, request).status();
}

Mad set_info(const SmaNode& node, unsigned port,
             std::initializer_list<std::pair<Field, uint64_t>> values, uint64_t m_key = 0) {
    Mad mad = make_smp(Method::kSet, attr::kPortInfo, port, m_key);
    std::ranges::copy(node.port(port)->info, mad.smp_data().begin());
    set(mad.smp_data(), port_info::kPortState, 0);
    set(mad.smp_data(), port_info::kPortPhysicalState, 0);
    if (get(mad.smp_data(), port_info::kLid) == 0) {
        set(mad.smp_data(), port_info::kLid, 1);
        set(mad.smp_data(), port_info::kMasterSmLid, 1);
    }
    for (const auto& [field, value] : values) {
        set(mad.smp_data(), field, value);
    }
    return mad;
}

SmpArrival at(uint64_t now_ns) {
    return {.port = 1, .slid = Lid(9), .now_ns = now_ns};
}

}  // namespace

TEST_CASE("a reply is the request with R bit, status and data") {
    SmaNode node = an_hca();
    const Mad reply = ask(node, make_smp(Method::kGet, attr::kNodeDescription));
    CHECK(reply.method() == Method::kGetResp);
    CHECK(reply.transaction_id() == 0x1234);
    CHECK(reply.status() == mad_status::kOk);
    CHECK(std::string(reinterpret_cast<const char*>(reply.smp_data().data())) == "vm0 pib-hca");
}

TEST_CASE("a directed-route reply reverses the route") {
    SmaNode node = an_hca();
    Mad request = make_smp(Method::kGet, attr::kNodeInfo);
    request.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kSubnDirectedRoute));
    request.set(smp::kHopCount, 2);
    request.set(smp::kHopPointer, 3);
    const Mad reply = ask(node, request);
    CHECK(is_returning(reply));
    CHECK(reply.status() == mad_status::kOk);
    CHECK(hop_pointer(reply) == 3);
    request.set(mad_header::kAttributeId, 0x7777);
    const Mad refused = ask(node, request);
    CHECK(is_returning(refused));
    CHECK(refused.status() == mad_status::kBadMethodAttribute);
}

TEST_CASE("malformed requests get a status, and other MADs get no answer") {
    SmaNode node = an_hca();
    const SmaNode before = node;
    Mad version = make_smp(Method::kGet, attr::kNodeInfo);
    version.set(mad_header::kClassVersion, 2);
    CHECK(status_of(node, version) == mad_status::kBadVersion);
    CHECK(status_of(node, make_smp(Method::kSend, attr::kNodeInfo)) == mad_status::kBadMethod);
    CHECK(status_of(node, make_smp(static_cast<Method>(0x42), attr::kNodeInfo)) ==
          mad_status::kBadMethod);
    CHECK(status_of(node, make_smp(Method::kGet, 0x0099)) == mad_status::kBadMethodAttribute);
    CHECK(status_of(node, make_smp(Method::kSet, attr::kNodeInfo)) ==
          mad_status::kBadMethodAttribute);
    CHECK(status_of(node, make_smp(Method::kGet, attr::kSwitchInfo)) ==
          mad_status::kBadMethodAttribute);
    CHECK(status_of(node, make_smp(Method::kGet, attr::kPortInfo, 3)) == mad_status::kBadField);
    CHECK(status_of(node, make_smp(Method::kGet, attr::kPKeyTable, 1)) == mad_status::kBadField);

    Mad base = make_smp(Method::kGet, attr::kNodeInfo);
    base.set(mad_header::kBaseVersion, 2);
    CHECK(sma_answer(node, base, {}).disposition == SmaDisposition::kDiscard);
    CHECK(sma_answer(node, make_smp(Method::kGetResp, attr::kNodeInfo), {}).disposition ==
          SmaDisposition::kDiscard);
    CHECK(sma_answer(node, make_smp(Method::kTrap, attr::kNotice), {}).disposition ==
          SmaDisposition::kDiscard);
    CHECK(sma_answer(node, make_smp(Method::kGet, attr::kSmInfo), {}).disposition ==
          SmaDisposition::kDiscard);
    Mad perf = make_smp(Method::kGet, attr::kNodeInfo);
    perf.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kPerf));
    CHECK(sma_answer(node, perf, {}).disposition == SmaDisposition::kDiscard);
    CHECK(sma_answer(node, make_smp(Method::kGet, attr::kNodeInfo), {.port = 9}).disposition ==
          SmaDisposition::kDiscard);
    CHECK(node == before);
}

TEST_CASE("NodeInfo of a channel adapter depends on the queried port") {
    SmaNode node = an_hca();
    const Mad reply = ask(node, make_smp(Method::kGet, attr::kNodeInfo), {.port = 2});
    const auto data = reply.smp_data();
    CHECK(get(data, node_info::kBaseVersion) == 1);
    CHECK(get(data, node_info::kNodeType) == 1);
    CHECK(get(data, node_info::kNumPorts) == 2);
    CHECK(get(data, node_info::kNodeGuid) == 0x100);
    CHECK(get(data, node_info::kSystemImageGuid) == 0x101);
    CHECK(get(data, node_info::kPortGuid) == 0x102);
    CHECK(get(data, node_info::kLocalPortNum) == 2);
    CHECK(get(data, node_info::kPartitionCap) == 32);
    CHECK(get(data, node_info::kVendorId) == 0x123456);
    CHECK(get(data, node_info::kDeviceId) == 0x7777);
}

TEST_CASE("NodeInfo of a switch counts external ports and names port 0") {
    SmaNode node = a_switch();
    const Mad reply = ask(node, make_smp(Method::kGet, attr::kNodeInfo), {.port = 5});
    CHECK(get(reply.smp_data(), node_info::kNodeType) == 2);
    CHECK(get(reply.smp_data(), node_info::kNumPorts) == 8);
    CHECK(get(reply.smp_data(), node_info::kPortGuid) == 0x200);
    CHECK(get(reply.smp_data(), node_info::kLocalPortNum) == 5);
}

TEST_CASE("the modifier of PortInfo selects the port") {
    SmaNode hca = an_hca();
    hca.port(2)->set(port_info::kLid, 22);
    CHECK(get(ask(hca, make_smp(Method::kGet, attr::kPortInfo, 2)).smp_data(), port_info::kLid) ==
          22);
    const Mad own = ask(hca, make_smp(Method::kGet, attr::kPortInfo, 0), {.port = 2});
    CHECK(get(own.smp_data(), port_info::kLid) == 22);
    CHECK(get(own.smp_data(), port_info::kLocalPortNum) == 2);
    // Bit 31 means that the SM knows extended speeds.
    CHECK(status_of(hca, make_smp(Method::kGet, attr::kPortInfo, 0x80000001)) == mad_status::kOk);

    SmaNode sw = a_switch();
    CHECK(get(ask(sw, make_smp(Method::kGet, attr::kPortInfo, 0)).smp_data(),
              port_info::kPortState) == static_cast<unsigned>(PortState::kActive));
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kPortInfo, 9)) == mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kPortInfo, 0x101)) == mad_status::kBadField);
}

TEST_CASE("Set(PortInfo) answers with the new values and reports events") {
    SmaNode node = an_hca();
    const Mad request =
        set_info(node, 1, {{port_info::kLid, 7}, {port_info::kClientReregister, 1}});
    const SmaAnswer answer = sma_answer(node, request, {});
    CHECK(answer.disposition == SmaDisposition::kReply);
    CHECK(answer.reply.status() == mad_status::kOk);
    CHECK(answer.port == 1);
    CHECK(answer.events.has(PortEvent::kLidChange));
    CHECK(answer.events.has(PortEvent::kClientReregister));
    CHECK(get(answer.reply.smp_data(), port_info::kLid) == 7);
    CHECK(get(answer.reply.smp_data(), port_info::kClientReregister) == 1);
    const Mad later = ask(node, make_smp(Method::kGet, attr::kPortInfo));
    CHECK(get(later.smp_data(), port_info::kClientReregister) == 0);
}

TEST_CASE("a bad Set gets status 0x1C and the current values") {
    SmaNode node = an_hca();
    node.port(1)->set(port_info::kLid, 7);
    const Mad reply = ask(node, set_info(node, 1, {{port_info::kLid, 0xFFFF}}));
    CHECK(reply.status() == mad_status::kBadField);
    CHECK(get(reply.smp_data(), port_info::kLid) == 7);
}

TEST_CASE("a channel adapter's port is set only through itself, a switch's port through any port") {
    SmaNode hca = an_hca();
    CHECK(status_of(hca, set_info(hca, 2, {{port_info::kLid, 7}})) == mad_status::kBadField);
    CHECK(hca.port(2)->lid() == Lid(0));
    SmaNode sw = a_switch();
    CHECK(status_of(sw, set_info(sw, 3, {{port_info::kNeighborMtu, 2}})) == mad_status::kOk);
    CHECK(sw.port(3)->neighbor_mtu() == Mtu::k512);
    CHECK(sw.port(4)->neighbor_mtu() == Mtu::k4096);
}

TEST_CASE("tables of a switch are addressed by port in the modifier") {
    SmaNode sw = a_switch();
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kPKeyTable, 8 << 16)) == mad_status::kOk);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kPKeyTable, 8 << 16 | 1)) ==
          mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kPKeyTable, 9 << 16)) ==
          mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kSlToVlMappingTable, 0x0805)) ==
          mad_status::kOk);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kSlToVlMappingTable, 0x0905)) ==
          mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kSlToVlMappingTable, 0x0509)) ==
          mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kSlToVlMappingTable, 0x10000)) ==
          mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kVlArbitrationTable, 1 << 16 | 8)) ==
          mad_status::kOk);
    CHECK(status_of(sw, make_smp(Method::kGet, attr::kVlArbitrationTable, 1 << 16 | 9)) ==
          mad_status::kBadField);

    Mad map = make_smp(Method::kSet, attr::kSlToVlMappingTable, 0x0205);
    map.smp_data()[0] = 0x30;
    const SmaAnswer answer = sma_answer(sw, map, {});
    CHECK(answer.port == 5);
    CHECK(answer.events.has(PortEvent::kLinkAttribute));
    CHECK(sw.port(5)->sl_to_vl[2][0] == 3);
}

TEST_CASE("Set and Get at a port that a switch does not have are refused") {
    SmaNode sw = a_switch();
    const auto before = sw.ports;
    struct Absent {
        uint16_t attribute;
        uint32_t modifier;
    };
    const Absent absent[] = {{attr::kPKeyTable, 9 << 16},
                             {attr::kSlToVlMappingTable, 9},
                             {attr::kSlToVlMappingTable, 0x10005},
                             {attr::kVlArbitrationTable, 1 << 16 | 9},
                             {attr::kVlArbitrationTable, 1 << 16 | 0x105},
                             {attr::kLedInfo, 9}};
    for (const auto& [attribute, modifier] : absent) {
        CAPTURE(attribute, modifier);
        Mad set = make_smp(Method::kSet, attribute, modifier);
        set.smp_data()[0] = 0x10;
        const SmaAnswer answer = sma_answer(sw, set, {});
        CHECK(answer.reply.status() == mad_status::kBadField);
        CHECK_FALSE(answer.events.any());
        CHECK(status_of(sw, make_smp(Method::kGet, attribute, modifier)) == mad_status::kBadField);
    }
    CHECK(sw.ports == before);
}

TEST_CASE("Set(VLArbitrationTable) writes a block of the port that it names") {
    SmaNode sw = a_switch();
    const auto others = sw.port(4)->vl_arb_low;
    Mad low = make_smp(Method::kSet, attr::kVlArbitrationTable, 1 << 16 | 3);
    low.smp_data()[0] = 2;
    low.smp_data()[1] = 9;
    CHECK(sma_answer(sw, low, {}).port == 3);
    CHECK(sw.port(3)->vl_arb_low[0] == VlArbEntry{2, 9});
    CHECK(sw.port(4)->vl_arb_low == others);
    Mad high = make_smp(Method::kSet, attr::kVlArbitrationTable, 3 << 16 | 3);
    high.smp_data()[0] = 1;
    high.smp_data()[1] = 255;
    CHECK(status_of(sw, high) == mad_status::kOk);
    CHECK(sw.port(3)->vl_arb_high[0] == VlArbEntry{1, 255});
    CHECK(sw.port(3)->vl_arb_low[0] == VlArbEntry{2, 9});
    CHECK(status_of(sw, make_smp(Method::kSet, attr::kVlArbitrationTable, 3)) ==
          mad_status::kBadField);
    CHECK(status_of(sw, make_smp(Method::kSet, attr::kVlArbitrationTable, 5 << 16 | 3)) ==
          mad_status::kBadField);

    SmaNode hca = an_hca();
    low.set(mad_header::kAttributeModifier, 1 << 16);
    CHECK(sma_answer(hca, low, {.port = 2}).port == 2);
    CHECK(hca.port(2)->vl_arb_low[0] == VlArbEntry{2, 9});
    CHECK(hca.port(1)->vl_arb_low[0] != VlArbEntry{2, 9});
}

TEST_CASE("P_Keys of a channel adapter belong to the port of the SMP's arrival") {
    SmaNode hca = an_hca();
    Mad request = make_smp(Method::kSet, attr::kPKeyTable, 0);
    store_be(request.smp_data().data(), uint16_t{0x8001});
    const SmaAnswer answer = sma_answer(hca, request, {.port = 2});
    CHECK(answer.events.has(PortEvent::kPKeyChange));
    CHECK(answer.port == 2);
    CHECK(hca.port(2)->pkeys[0] == PKey(0x8001));
    CHECK(hca.port(1)->pkeys[0] == kDefaultPKey);
}

TEST_CASE("LedInfo is set and VendorDiag is read") {
    SmaNode hca = an_hca();
    Mad on = make_smp(Method::kSet, attr::kLedInfo);
    on.smp_data()[0] = 0x80;
    CHECK(ask(hca, on).smp_data()[0] == 0x80);
    CHECK(hca.port(1)->led);
    CHECK(ask(hca, make_smp(Method::kGet, attr::kLedInfo)).smp_data()[0] == 0x80);
    CHECK(status_of(hca, make_smp(Method::kGet, attr::kVendorDiag)) == mad_status::kOk);
    CHECK(status_of(hca, make_smp(Method::kGet, attr::kVendorDiag, 1)) == mad_status::kBadField);
}

TEST_CASE("each M_Key protection level admits its methods") {
    struct {
        unsigned level;
        Method method;
        bool right_key;
        bool answered;
        bool key_shown;
    } const cases[] = {
        {0, Method::kGet, false, true, true},   {1, Method::kGet, false, true, false},
        {2, Method::kGet, false, false, false}, {3, Method::kGet, false, false, false},
        {0, Method::kSet, false, false, false}, {1, Method::kSet, false, false, false},
        {0, Method::kGet, true, true, true},    {1, Method::kGet, true, true, true},
        {2, Method::kGet, true, true, true},    {3, Method::kSet, true, true, true},
    };
    for (const auto& c : cases) {
        CAPTURE(c.level, static_cast<int>(c.method), c.right_key);
        SmaNode node = an_hca();
        node.port(1)->set(port_info::kMKey, 0xABCD);
        node.port(1)->set(port_info::kMKeyProtectBits, c.level);
        const uint64_t key = c.right_key ? 0xABCD : 0xEEEE;
        const Mad request = c.method == Method::kGet
                                ? make_smp(Method::kGet, attr::kPortInfo, 1, key)
                                : set_info(node, 1, {{port_info::kLid, 3}}, key);
        const SmaAnswer answer = sma_answer(node, request, at(0));
        CHECK((answer.disposition == SmaDisposition::kReply) == c.answered);
        CHECK(answer.m_key_violation == !c.answered);
        CHECK(node.port(1)->get(port_info::kMKeyViolations) == (c.answered ? 0U : 1U));
        if (c.answered) {
            CHECK(get(answer.reply.smp_data(), port_info::kMKey) == (c.key_shown ? 0xABCD : 0));
        } else {
            CHECK(node.port(1)->lid() == Lid(0));
        }
    }
}

TEST_CASE("an M_Key of zero protects nothing") {
    SmaNode node = an_hca();
    node.port(1)->set(port_info::kMKeyProtectBits, 3);
    CHECK(status_of(node, set_info(node, 1, {{port_info::kLid, 3}}, 0x99)) == mad_status::kOk);
}

TEST_CASE("the M_Key lease runs from a violation and lifts the protection") {
    SmaNode node = an_hca();
    PortAttrs& port = *node.port(1);
    port.set(port_info::kMKey, 0xABCD);
    port.set(port_info::kMKeyProtectBits, 2);
    port.set(port_info::kMKeyLeasePeriod, 10);
    const Mad wrong = make_smp(Method::kGet, attr::kPortInfo, 1, 1);
    const Mad right = make_smp(Method::kGet, attr::kPortInfo, 1, 0xABCD);
    const auto answered = [&](const Mad& request, uint64_t now_ns) {
        return sma_answer(node, request, at(now_ns)).disposition == SmaDisposition::kReply;
    };
    CHECK_FALSE(answered(wrong, 1 * kSecond));
    CHECK_FALSE(answered(wrong, 5 * kSecond));
    // The owner answers in time: the lease period stops, and starts again with the next violation.
    CHECK(answered(right, 10 * kSecond));
    CHECK_FALSE(answered(wrong, 12 * kSecond));
    CHECK_FALSE(answered(wrong, 21 * kSecond));
    CHECK(answered(wrong, 22 * kSecond));
    CHECK(port.get(port_info::kMKeyProtectBits) == 0);
    CHECK(port.get(port_info::kMKey) == 0xABCD);
}

TEST_CASE("a lease period of zero never ends") {
    SmaNode node = an_hca();
    node.port(1)->set(port_info::kMKey, 0xABCD);
    node.port(1)->set(port_info::kMKeyProtectBits, 2);
    const Mad wrong = make_smp(Method::kGet, attr::kPortInfo, 1, 1);
    CHECK(sma_answer(node, wrong, at(0)).disposition == SmaDisposition::kDiscard);
    CHECK(sma_answer(node, wrong, at(1'000'000 * kSecond)).disposition == SmaDisposition::kDiscard);
}

TEST_CASE("an M_Key violation queues trap 256, and TrapRepress removes it") {
    SmaNode node = an_hca();
    PortAttrs& port = *node.port(1);
    port.set(port_info::kMKey, 0xABCD);
    port.set(port_info::kMKeyProtectBits, 2);
    port.set(port_info::kLid, 5);
    port.set(port_info::kMasterSmLid, 6);
    port.set(port_info::kPortState, static_cast<unsigned>(PortState::kActive));
    CHECK(sma_answer(node, make_smp(Method::kGet, attr::kPortInfo, 1, 1), at(0)).m_key_violation);
    const auto trap = next_trap(node, port, 0);
    REQUIRE(trap.has_value());
    CHECK(trap->method() == Method::kTrap);
    CHECK(get(trap->smp_data(), notice::kTrapNumber) == 256);
    CHECK(get(trap->smp_data(), notice_details::kLid) == 9);
    CHECK(get(trap->smp_data(), notice_details::kMKey) == 1);

    Mad repress = *trap;
    repress.set(mad_header::kMethod, static_cast<unsigned>(Method::kTrapRepress));
    CHECK(sma_answer(node, repress, at(0)).disposition == SmaDisposition::kDiscard);
    repress.set(smp::kMKey, 0xABCD);
    CHECK(sma_answer(node, repress, at(0)).disposition == SmaDisposition::kConsumed);
    // The TrapRepress without the key was itself a violation; only its trap is left.
    const auto left = next_trap(node, port, 100 * kSecond);
    REQUIRE(left.has_value());
    CHECK(get(left->smp_data(), notice_details::kMethod) == 7);
}

namespace {

// A node with an attribute of its own, as switches have.
struct CountingNode : SmaNode {
    unsigned value = 0;
};

AttributeResult get_value(CountingNode& node, const SmpRequest&,
                          std::span<uint8_t, kSmpDataSize> data) {
    data[0] = static_cast<uint8_t>(node.value);
    return {};
}
AttributeResult set_value(CountingNode& node, const SmpRequest&,
                          std::span<uint8_t, kSmpDataSize> data) {
    node.value = data[0];
    return {};
}
constexpr AttributeRow<CountingNode> kRows[] = {{attr::kSwitchInfo, get_value, set_value}};

}  // namespace

TEST_CASE("a node's own attributes come before the common ones") {
    CountingNode node{an_hca(), 0};
    Mad set = make_smp(Method::kSet, attr::kSwitchInfo);
    set.smp_data()[0] = 5;
    const std::span<const AttributeRow<CountingNode>> rows(kRows);
    CHECK(sma_answer(node, rows, set, {}).reply.smp_data()[0] == 5);
    CHECK(node.value == 5);
    CHECK(sma_answer(node, rows, make_smp(Method::kGet, attr::kNodeInfo), {}).reply.status() ==
          mad_status::kOk);
}
