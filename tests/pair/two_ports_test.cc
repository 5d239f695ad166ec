// SPDX-License-Identifier: GPL-2.0-or-later
// QPs of an HCA with two ports. Each port is in a subnet of its own, so that the same LIDs name
// other nodes there: a QP sends and receives only by the port of its path.
#include <catch2/catch_test_macros.hpp>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint16_t kLid = 1;
constexpr uint16_t kPeerLid = 2;
constexpr uint32_t kQkey = 0x22222222;

struct TwoPorts : Hca {
    TwoPorts() : Hca(kLid, 2) {}

    // An RC QP whose peer is at port 1.
    Qp connected() {
        const Qp qp = create();
        pib_hca_av av{};
        av.dlid = kPeerLid;
        to_init(*this, qp);
        to_rtr(*this, qp, av, 0x77);
        to_rts(*this, qp);
        return qp;
    }
    // A packet without payload from a node whose LID is kPeerLid comes to a port.
    void arrive(unsigned at_port, const ib::PacketHeaders& headers) {
        std::vector<uint8_t> bytes(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(bytes, headers, 0, ib::Crcs::kElided).value();
        const auto packet = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
        ib::Placement here;
        transport.burst_in(at_port, ib::Burst(packet), here);
        run();
    }
    void run() {
        while (transport.run()) {
        }
    }
    Verdict ask_for(uint8_t migration, const Qp& qp, pib_hca_modify_qp in) {
        in.attr_mask |= PIB_HCA_QP_ATTR_PATH_MIG_STATE;
        in.path_mig_state = migration;
        return modify_qp(*this, qp.qpn, in);
    }
};

ib::PacketHeaders from_peer(uint8_t opcode, uint16_t dlid, uint32_t dest_qpn) {
    ib::PacketHeaders headers;
    headers.lrh.slid = ib::Lid(kPeerLid);
    headers.lrh.dlid = ib::Lid(dlid);
    headers.bth.opcode = opcode;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(dest_qpn);
    return headers;
}

}  // namespace

TEST_CASE("a connection takes packets that arrive at its port, and drops those at another") {
    TwoPorts hca;
    Qp qp = hca.connected();
    hca.post_recv(qp, {});
    const auto message = from_peer(ib::opcode::kSendOnly, kLid, qp.qpn);
    hca.arrive(2, message);
    CHECK_FALSE(hca.poll(qp));
    hca.arrive(1, message);
    const auto received = hca.poll(qp);
    REQUIRE(received);
    CHECK(received->status == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("a member of a group gets the group's packets that arrive at its port") {
    TwoPorts hca;
    Qp qp = hca.create({.type = PIB_HCA_QP_UD});
    start_datagram(hca, qp, kQkey);
    const Buffer buffer = hca.make_buffer(4096);
    hca.post_recv(qp, {buffer.all()});
    pib_hca_mcast group{};
    group.mgid[0] = 0xff;
    group.mgid[1] = 0x12;
    group.mlid = 0xc001;
    REQUIRE(attach_mcast(hca, qp.qpn, group) == CmdStatus::kOk);
    auto packet = from_peer(ib::opcode::kUdSendOnly, group.mlid, ib::kMulticastQpn.value());
    packet.deth = {.qkey = ib::QKey(kQkey), .src_qp = ib::Qpn(0x77)};
    packet.grh = ib::Grh{};
    std::ranges::copy(group.mgid, packet.grh->dgid.bytes.begin());
    hca.arrive(2, packet);
    CHECK_FALSE(hca.poll(qp));
    hca.arrive(1, packet);
    CHECK(hca.poll(qp));
}

// The port of the former path may never have room again.
TEST_CASE("a QP that waits for room at its port migrates to the other port and sends there") {
    TwoPorts hca;
    Qp qp = hca.connected();
    hca.post_recv(qp, {});
    pib_hca_modify_qp path{};
    path.attr_mask = PIB_HCA_QP_ATTR_ALT_PATH;
    path.alt_av.dlid = kPeerLid;
    path.alt_port = 2;
    REQUIRE(hca.ask_for(PIB_HCA_MIG_REARM, qp, path) == CmdStatus::kOk);
    hca.arrive(1, from_peer(ib::opcode::kSendOnly, kLid, qp.qpn));
    REQUIRE(query_qp(hca, qp.qpn)->path_mig_state == PIB_HCA_MIG_ARMED);
    hca.port.sent.clear();
    hca.port.capacity = 0;
    hca.post(qp, {});
    hca.run();
    REQUIRE(hca.second_port.sent.empty());
    REQUIRE(hca.ask_for(PIB_HCA_MIG_MIGRATED, qp, {}) == CmdStatus::kOk);
    hca.run();
    CHECK(hca.second_port.sent.size() == 1);
    CHECK(hca.port.sent.empty());
}
