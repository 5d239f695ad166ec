// SPDX-License-Identifier: GPL-2.0-or-later
// The order of packets of QPs on several VLs (IBA 7.6.9): counts the VLs' shares in bytes, at a
// port that takes a few packets at a time.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "hca.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint16_t kPeerLid = 7;

// One HCA without a peer. Its UC and UD QPs always have something to send.
struct Sender {
    Sender() : hca(1) {
        hca.port.vl_port.vl_arb_low.assign(8, {});
        hca.port.capacity = 6;
        data = hca.make_buffer(65536);
    }

    void set_tables(std::vector<ib::VlArbEntry> high, std::vector<ib::VlArbEntry> low,
                    unsigned limit = 255) {
        hca.port.vl_port.vl_arb_high = std::move(high);
        hca.port.vl_port.vl_arb_low = std::move(low);
        hca.port.vl_port.set(ib::port_info::kVlHighLimit, limit);
    }
    // A datagram's address vector names the port; a connection uses the port of its QP.
    static pib_hca_av path(uint8_t sl, uint8_t port = 0) {
        pib_hca_av av{};
        av.dlid = kPeerLid;
        av.sl = sl;
        av.port = port;
        return av;
    }

    // Adds a UC QP with `messages` SENDs to send; SL n maps to VL n.
    Qp& add_uc(uint8_t sl, uint32_t bytes, unsigned messages = 60) {
        Qp& qp = qps.emplace_back(hca.create({.type = PIB_HCA_QP_UC, .log_depth = 10}));
        to_init(hca, qp);
        to_rtr(hca, qp, path(sl), 99);
        to_rts(hca, qp);
        for (unsigned i = 0; i < messages; ++i) {
            hca.write_send(qp, {.sges = {data.sge(0, bytes)}});
        }
        return qp;
    }
    // An RC QP that is ready to receive.
    const Qp& add_responder(uint8_t sl) {
        Qp& qp = qps.emplace_back(hca.create());
        to_init(hca, qp);
        to_rtr(hca, qp, path(sl), 99);
        return qp;
    }
    // The packet of an atomic arrives.
    void fetch_and_add(const Qp& qp, uint32_t psn) {
        ib::PacketHeaders headers;
        headers.lrh.dlid = ib::Lid(1);
        headers.lrh.slid = ib::Lid(kPeerLid);
        headers.bth.opcode = ib::opcode::kFetchAdd;
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(qp.qpn);
        headers.bth.psn = ib::Psn(psn);
        headers.atomic_eth = {.va = data.addr, .rkey = ib::RKey(data.key), .swap_or_add = 1};
        std::vector<uint8_t> bytes(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(bytes, headers, 0, ib::Crcs::kElided).value();
        const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
        ib::Placement here;
        REQUIRE(hca.transport.burst_in(1, ib::Burst(view), here) == 1);
    }
    // A UD QP whose datagrams go to these SLs in turn.
    Qp& add_ud(const std::vector<uint8_t>& sls, uint32_t bytes) {
        Qp& qp = qps.emplace_back(hca.create({.type = PIB_HCA_QP_UD}));
        start_datagram(hca, qp, 5);
        for (unsigned i = 0; i < 60; ++i) {
            hca.write_send(qp, {.sges = {data.sge(0, bytes)},
                                .av = path(sls[i % sls.size()], 1),
                                .dest_qpn = 99,
                                .qkey = 5});
        }
        return qp;
    }

    // Sends at least `total` bytes; returns the bytes by SL. They are counted as VL weights are:
    // LRH to padding of each packet, rounded up to a multiple of 64.
    std::array<uint64_t, 16> send(uint64_t total) {
        for (const Qp& qp : qps) {
            hca.ring(qp);
        }
        std::array<uint64_t, 16> by_sl{};
        while (sum(by_sl) < total) {
            while (hca.transport.run()) {
            }
            REQUIRE_FALSE(hca.port.sent.empty());
            for (const auto& packet : hca.port.sent) {
                by_sl[packet[1] >> 4] += (packet.size() + 63) / 64 * 64;
                order.push_back(packet[1] >> 4);
            }
            hca.port.sent.clear();
            hca.transport.port_ready(1);
        }
        return by_sl;
    }
    static uint64_t sum(const std::array<uint64_t, 16>& counts) {
        uint64_t all = 0;
        for (const uint64_t n : counts) {
            all += n;
        }
        return all;
    }

    Hca hca;
    Buffer data;
    std::deque<Qp> qps;
    std::vector<unsigned> order;  // SL of each sent packet
};

// Whether `part` is `share` of `whole`, give or take 5 % of the whole.
bool is_near(uint64_t part, uint64_t whole, double share) {
    const double off = static_cast<double>(part) / static_cast<double>(whole) - share;
    return off < 0.05 && off > -0.05;
}

}  // namespace

TEST_CASE("VLs share the port by the weights of the low-priority table, with any number of QPs") {
    const unsigned qps_on_vl0 = GENERATE(1u, 4u);
    Sender sender;
    sender.set_tables({}, {{0, 32}, {1, 96}});
    for (unsigned i = 0; i < qps_on_vl0; ++i) {
        sender.add_uc(0, 65536);
    }
    sender.add_uc(1, 65536);
    const auto sent = sender.send(1'000'000);
    CHECK(is_near(sent[1], Sender::sum(sent), 0.75));
}

TEST_CASE("VL weights count bytes, not packets") {
    Sender sender;
    sender.set_tables({}, {{0, 34}, {1, 34}});
    sender.add_uc(0, GENERATE(64u, 200u, 900u), 700);
    sender.add_uc(0, 64, 700);
    sender.add_uc(1, 65536);
    const auto sent = sender.send(120'000);
    CHECK(is_near(sent[1], Sender::sum(sent), 0.5));
}

TEST_CASE("the high-priority table is served first, up to VLHighLimit") {
    Sender all;
    all.set_tables({{3, 1}}, {{0, 255}});
    all.add_uc(0, 65536);
    all.add_uc(3, 65536);
    const auto high = all.send(500'000);
    CHECK(high[0] <= 65536 + 4096);  // sent by VL0's doorbell, before VL3 had work

    Sender some;  // limit 4096 bytes: four packets of the path's MTU, then one of low priority
    some.set_tables({{3, 1}}, {{0, 255}}, 1);
    some.add_uc(0, 65536);
    some.add_uc(3, 65536);
    const auto limited = some.send(1'000'000);
    CHECK(is_near(limited[3], Sender::sum(limited), 0.8));
}

TEST_CASE("a doorbell does not overtake waiting packets of another VL") {
    Sender sender;
    sender.set_tables({{3, 1}}, {{0, 255}});
    sender.add_uc(3, 65536);
    sender.add_uc(3, 65536);
    (void)sender.send(100'000);
    sender.order.clear();
    Qp& late = sender.add_uc(0, 1024);
    sender.hca.ring(late);
    CHECK(sender.hca.port.sent.empty());
    const auto sent = sender.send(300'000);
    CHECK(sent[0] == 0);
}

TEST_CASE("datagrams take turns by their VL, and those of one QP stay in order") {
    Sender sender;
    sender.set_tables({}, {{0, 16}, {1, 48}});
    sender.add_ud({1}, 1024);
    sender.add_ud({0}, 1024);
    const auto sent = sender.send(70'000);
    CHECK(is_near(sent[1], Sender::sum(sent), 0.75));

    Sender mixed;  // one QP for both: its datagrams stay in their order
    mixed.set_tables({{1, 1}}, {{0, 16}});
    mixed.add_ud({0, 1}, 1024);
    mixed.add_uc(1, 1024);
    (void)mixed.send(60'000);
    CHECK(query_qp(mixed.hca, mixed.qps[0].qpn)->state == PIB_HCA_QPS_RTS);
    const auto zeros = std::ranges::count(mixed.order, 0u);
    CHECK(zeros <= 6);  // high priority has more than enough to send
}

TEST_CASE("VL15 precedes all data VLs") {
    Sender sender;
    sender.set_tables({{3, 1}}, {{0, 255}});
    sender.add_uc(3, 65536);
    sender.add_uc(0, 65536);
    (void)sender.send(100'000);
    Qp smi = sender.hca.create({.type = PIB_HCA_QP_SMI, .port = 1});
    start_datagram(sender.hca, smi, 0);
    sender.hca.write_send(
        smi, {.sges = {sender.data.sge(0, 256)}, .av = Sender::path(9, 1), .dest_qpn = 0});
    sender.hca.port.capacity = 0;
    sender.hca.ring(smi);  // no room: the SMP waits as other packets do
    sender.hca.port.capacity = 1;
    sender.hca.transport.port_ready(1);
    while (sender.hca.transport.run()) {
    }
    REQUIRE(sender.hca.port.sent.size() == 1);
    CHECK(sender.hca.port.sent[0][1] >> 4 == 9);
}

TEST_CASE("the other VLs take the share of a VL that may not send") {
    Sender sender;
    sender.set_tables({}, {{0, 255}, {1, 255}});
    sender.add_uc(0, 4096, 4);
    sender.add_uc(1, 65536);
    const auto sent = sender.send(500'000);
    CHECK(sent[0] > 4 * 4096);
    CHECK(sent[1] > 450'000);
}

TEST_CASE("acknowledgements of atomics take their VL's share") {
    Sender sender;
    sender.set_tables({}, {{0, 1}, {1, 1}});
    sender.hca.port.capacity = 0;
    for (const uint8_t sl : {uint8_t{0}, uint8_t{1}}) {
        const Qp& qp = sender.add_responder(sl);
        for (uint32_t psn = 0; psn < 16; ++psn) {
            sender.fetch_and_add(qp, psn);
        }
    }
    sender.hca.port.capacity = 6;
    const auto sent = sender.send(16 * 64);
    CHECK(is_near(sent[1], Sender::sum(sent), 0.5));
}
