// SPDX-License-Identifier: GPL-2.0-or-later
// Multicast: one copy for each attached QP, at the sender's HCA too, and none for other QPs.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "base/config.h"
#include "pair.h"
#include "qp/turn.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kQkey = 0x22222222;

pib_hca_mcast group(uint8_t number, uint16_t mlid = 0xc001) {
    pib_hca_mcast mcast{};
    mcast.mgid[0] = 0xff;
    mcast.mgid[1] = 0x12;
    mcast.mgid[15] = number;
    mcast.mlid = mlid;
    return mcast;
}

struct Multicast {
    Qp member(Hca& hca, Buffer& buffer, const pib_hca_mcast* mcast, uint32_t qkey = kQkey) {
        Qp qp = hca.create({.type = PIB_HCA_QP_UD});
        start_datagram(hca, qp, qkey);
        buffer = hca.make_buffer(4096);
        hca.post_recv(qp, {buffer.all()});
        if (mcast != nullptr) {
            REQUIRE(attach_mcast(hca, qp.qpn, *mcast) == CmdStatus::kOk);
        }
        return qp;
    }
    void send(Qp& qp, const Buffer& from, const pib_hca_mcast& mcast) {
        SendWr wr{.sges = {from.sge(0, 100)}, .dest_qpn = 0xffffff, .qkey = kQkey};
        wr.av.dlid = mcast.mlid;
        wr.av.port = 1;
        wr.av.flags = PIB_HCA_AV_GRH;
        std::memcpy(wr.av.dgid, mcast.mgid, 16);
        pair.a.post(qp, wr);
        pair.settle();
    }

    Pair pair;
};

}  // namespace

TEST_CASE("members on both HCAs get one copy each, the sender included") {
    Multicast t;
    const auto g = group(1);
    const auto other = group(2);
    Buffer b0, b1, b2, b3, b4;
    Qp sender = t.member(t.pair.a, b0, &g);
    const Qp local = t.member(t.pair.a, b1, &g);
    const Qp remote = t.member(t.pair.b, b2, &g);
    const Qp stranger = t.member(t.pair.b, b3, &other);
    const Qp unattached = t.member(t.pair.b, b4, nullptr);
    REQUIRE(attach_mcast(t.pair.a, local.qpn, g) == CmdStatus::kOk);  // attached a second time
    t.send(sender, b0, g);

    const auto at_sender = t.pair.a.poll_all(sender);
    REQUIRE(at_sender.size() == 2);  // its receive, then its send
    CHECK(at_sender[0].opcode == PIB_HCA_CQE_RECV);
    CHECK(at_sender[1].opcode == PIB_HCA_CQE_SEND);
    const auto at_local = t.pair.a.poll_all(local);
    REQUIRE(at_local.size() == 1);
    CHECK(at_local[0].byte_count == 140);
    CHECK(at_local[0].flags == PIB_HCA_CQE_FLAG_GRH);
    CHECK(at_local[0].src_qp == sender.qpn);
    CHECK(at_local[0].slid == 1);
    CHECK(t.pair.b.poll_all(remote).size() == 1);
    CHECK(t.pair.b.poll_all(stranger).empty());
    CHECK(t.pair.b.poll_all(unattached).empty());
}

TEST_CASE("a member receives packets with its group's GID, LID and keys only") {
    Multicast t;
    const auto g = group(1);
    const auto same_gid = group(1, 0xc002);
    Buffer b0, b1, b2;
    Qp sender = t.member(t.pair.a, b0, nullptr);
    const Qp member = t.member(t.pair.b, b1, &g);
    const Qp wrong_qkey = t.member(t.pair.b, b2, &g, kQkey + 1);
    t.send(sender, b0, same_gid);
    CHECK(t.pair.b.poll_all(member).empty());
    t.send(sender, b0, g);
    CHECK(t.pair.b.poll_all(member).size() == 1);
    CHECK(t.pair.b.poll_all(wrong_qkey).empty());
    CHECK(t.pair.b.port.qkey_violations == 0);
}

// Entry 1 of the P_Key table is 0x8001, entry 2 is 0x0002 (limited member).
TEST_CASE("a member receives packets of its partition, and others count no violation") {
    struct Case {
        uint16_t sender;
        uint16_t member;
        bool arrives;
    };
    const Case c = GENERATE(Case{0, 0, true}, Case{0, 1, false}, Case{1, 0, false},
                            Case{1, 1, true}, Case{2, 2, false});
    Multicast t;
    const auto g = group(1);
    Buffer from = t.pair.a.make_buffer(4096);
    const Buffer to = t.pair.b.make_buffer(4096);
    Qp sender = t.pair.a.create({.type = PIB_HCA_QP_UD});
    start_datagram(t.pair.a, sender, kQkey, c.sender);
    Qp member = t.pair.b.create({.type = PIB_HCA_QP_UD});
    start_datagram(t.pair.b, member, kQkey, c.member);
    t.pair.b.post_recv(member, {to.all()});
    REQUIRE(attach_mcast(t.pair.b, member.qpn, g) == CmdStatus::kOk);
    t.send(sender, from, g);
    CHECK(t.pair.b.poll_all(member).size() == (c.arrives ? 1 : 0));
    CHECK(t.pair.b.port.pkey_violations == 0);
}

TEST_CASE("ATTACH_MCAST and DETACH_MCAST refuse invalid requests") {
    Hca hca(1);
    const Qp ud = hca.create({.type = PIB_HCA_QP_UD});
    const Qp rc = hca.create();
    Transport& transport = hca.transport;
    const auto g = group(1);
    CHECK(attach_mcast(hca, 999, g) == CmdStatus::kBadResource);
    CHECK(attach_mcast(hca, rc.qpn, g) == CmdStatus::kBadParam);
    CHECK(attach_mcast(hca, ud.qpn, group(1, 0xbfff)) == CmdStatus::kBadParam);
    CHECK(attach_mcast(hca, ud.qpn, group(1, 0xffff)) == CmdStatus::kBadParam);
    auto unicast = g;
    unicast.mgid[0] = 0xfe;
    CHECK(attach_mcast(hca, ud.qpn, unicast) == CmdStatus::kBadParam);
    auto reserved = g;
    reserved.reserved[5] = 1;
    CHECK(attach_mcast(hca, ud.qpn, reserved) == CmdStatus::kBadReserved);
    CHECK(detach_mcast(hca, ud.qpn, g) == CmdStatus::kBadResource);

    CHECK(attach_mcast(hca, ud.qpn, g) == CmdStatus::kOk);
    CHECK(transport.verbs().destroy(ud.qpn) == CmdStatus::kBusy);
    CHECK(detach_mcast(hca, ud.qpn, g) == CmdStatus::kOk);
    CHECK(detach_mcast(hca, ud.qpn, g) == CmdStatus::kBadResource);
    CHECK(transport.verbs().destroy(ud.qpn) == CmdStatus::kOk);
}

TEST_CASE("the numbers of groups and of members are limited") {
    Hca hca(1);
    std::vector<Qp> qps;
    for (uint32_t i = 0; i <= Limits::kMcastAttachPerGroup; ++i) {
        const CmdStatus expected =
            i < Limits::kMcastAttachPerGroup ? CmdStatus::kOk : CmdStatus::kNoResources;
        qps.push_back(hca.create({.type = PIB_HCA_QP_UD, .log_depth = 0, .log_cq_depth = 0}));
        REQUIRE(attach_mcast(hca, qps.back().qpn, group(1)) == expected);
    }
    for (uint32_t i = 1; i <= Limits::kMcastGroups; ++i) {
        auto g = group(2);
        std::memcpy(g.mgid + 8, &i, sizeof i);
        const CmdStatus expected =
            i < Limits::kMcastGroups ? CmdStatus::kOk : CmdStatus::kNoResources;
        REQUIRE(attach_mcast(hca, qps[0].qpn, g) == expected);
    }
}

// T41 in docs/fault-cases.md: the packet was sent before the member detached.
TEST_CASE("a member that detaches while a packet is in flight does not get it") {
    Multicast t;
    const auto g = group(1);
    Buffer b0, b1, b2;
    Qp sender = t.member(t.pair.a, b0, nullptr);
    const Qp stays = t.member(t.pair.b, b1, &g);
    const Qp leaves = t.member(t.pair.b, b2, &g);
    bool left = false;
    t.pair.tap = [&](const pib::ib::PacketView&) {
        if (!left) {
            left = true;
            CHECK(detach_mcast(t.pair.b, leaves.qpn, g) == CmdStatus::kOk);
        }
    };
    t.send(sender, b0, g);
    CHECK(left);
    CHECK(t.pair.b.poll_all(stays).size() == 1);
    CHECK(t.pair.b.poll_all(leaves).empty());
    CHECK(t.pair.b.transport.verbs().destroy(leaves.qpn) == CmdStatus::kOk);
}

TEST_CASE("one QP in a thousand groups gets one copy of what is sent to each") {
    Multicast t;
    Buffer b0, b1;
    Qp sender = t.member(t.pair.a, b0, nullptr);
    Qp member = t.member(t.pair.b, b1, nullptr);
    for (uint16_t i = 0; i < 1000; ++i) {
        auto g = group(3, static_cast<uint16_t>(0xc000 + i % 50));
        std::memcpy(g.mgid + 8, &i, sizeof i);
        REQUIRE(attach_mcast(t.pair.b, member.qpn, g) == CmdStatus::kOk);
    }
    for (uint16_t i = 0; i < 1000; ++i) {
        auto g = group(3, static_cast<uint16_t>(0xc000 + i % 50));
        std::memcpy(g.mgid + 8, &i, sizeof i);
        t.send(sender, b0, g);
        REQUIRE(t.pair.a.poll_all(sender).size() == 1);
        REQUIRE(t.pair.b.poll_all(member).size() == 1);
        t.pair.b.post_recv(member, {b1.all()});
    }
}

// One multicast packet makes 256 copies, each of which costs 512 bytes besides its payload. A call
// of the device may exceed the budgets of its turns by the copies of one such packet.
TEST_CASE("copies to own members count as work of the turn") {
    constexpr uint32_t kSends = 16;
    constexpr uint64_t kTurnBytes = 64u << 10;
    const uint32_t payload = GENERATE(0u, 4096u);
    const uint64_t packet_bytes = Limits::kMcastAttachPerGroup * (payload + kCopyCost);
    Hca hca(1);
    const auto g = group(1);
    const uint32_t cqn = hca.make_cq(13).cqn;
    const Buffer buffer = hca.make_buffer(8192);
    std::vector<Qp> members;
    for (uint32_t i = 0; i < Limits::kMcastAttachPerGroup; ++i) {
        members.push_back(hca.create({.type = PIB_HCA_QP_UD, .log_depth = 4, .cqn = cqn}));
        start_datagram(hca, members.back(), kQkey);
        REQUIRE(attach_mcast(hca, members.back().qpn, g) == CmdStatus::kOk);
        for (uint32_t n = 0; n < kSends; ++n) {
            hca.post_recv(members.back(), {buffer.sge(0, 40 + payload)});
        }
    }
    SendWr wr{.dest_qpn = 0xffffff, .qkey = kQkey};
    if (payload != 0) {
        wr.sges = {buffer.sge(0, payload)};
    }
    wr.av.dlid = g.mlid;
    wr.av.port = 1;
    wr.av.flags = PIB_HCA_AV_GRH;
    std::memcpy(wr.av.dgid, g.mgid, 16);
    for (uint32_t n = 0; n < kSends; ++n) {
        hca.write_send(members[0], wr);
    }
    uint64_t received = 0;
    const auto received_now = [&] {
        uint64_t copies = 0;
        while (const auto cqe = hca.poll(cqn)) {
            copies += cqe->opcode == PIB_HCA_CQE_RECV ? 1 : 0;
        }
        received += copies;
        return copies * (payload + kCopyCost);
    };
    hca.ring(members[0]);
    CHECK(received_now() <= kTurnBytes + packet_bytes);
    for (bool more = true; more;) {
        more = hca.transport.run();
        CHECK(received_now() <= 64 * kTurnBytes + packet_bytes);
    }
    CHECK(received == uint64_t{kSends} * members.size());
}

TEST_CASE("a doorbell after many multicast copies is served in the next turn") {
    Multicast t;
    const auto g = group(1);
    Hca& hca = t.pair.a;
    const Buffer buffer = hca.make_buffer(8192);
    const uint32_t cqn = hca.make_cq(10).cqn;
    std::vector<Qp> members;
    for (uint32_t i = 0; i < 64; ++i) {
        members.push_back(hca.create({.type = PIB_HCA_QP_UD, .log_depth = 2, .cqn = cqn}));
        start_datagram(hca, members.back(), kQkey);
        REQUIRE(attach_mcast(hca, members.back().qpn, g) == CmdStatus::kOk);
        for (int n = 0; n < 4; ++n) {
            hca.post_recv(members.back(), {buffer.sge(0, 40 + 4096)});
        }
    }
    SendWr wr{.sges = {buffer.sge(0, 4096)}, .dest_qpn = 0xffffff, .qkey = kQkey};
    wr.av.dlid = g.mlid;
    wr.av.port = 1;
    wr.av.flags = PIB_HCA_AV_GRH;
    std::memcpy(wr.av.dgid, g.mgid, 16);
    for (int n = 0; n < 4; ++n) {
        hca.post(members[static_cast<size_t>(n)], wr);
    }
    uint64_t copies = 0;
    while (const auto cqe = hca.poll(cqn)) {
        copies += cqe->opcode == PIB_HCA_CQE_RECV ? 1 : 0;
    }
    CHECK(copies == 64);  // only copies of the first doorbell's packet
    t.pair.settle();
    while (const auto cqe = hca.poll(cqn)) {
        copies += cqe->opcode == PIB_HCA_CQE_RECV ? 1 : 0;
    }
    CHECK(copies == 4 * 64);
}

TEST_CASE("each copy of a received multicast counts for the link's turn") {
    Multicast t;
    const auto g = group(1);
    Buffer from;
    Qp sender = t.member(t.pair.a, from, nullptr);
    std::vector<Buffer> buffers(10);
    for (Buffer& buffer : buffers) {
        (void)t.member(t.pair.b, buffer, &g);
    }
    t.send(sender, from, g);
    const uint64_t ten = t.pair.b.transport.take_copied();
    CHECK(ten >= 10 * 100);
    CHECK(t.pair.b.transport.take_copied() == 0);
    CHECK(t.pair.a.transport.take_copied() == 0);
}

TEST_CASE("the QPs of all CQs that one multicast overruns are found in one search") {
    constexpr uint32_t kMembers = Limits::kMcastAttachPerGroup;
    Multicast t;
    const auto g = group(1);
    Buffer from;
    Qp sender = t.member(t.pair.a, from, nullptr);
    Hca& hca = t.pair.b;
    const Buffer buffer = hca.make_buffer(4096);
    std::vector<Qp> members;
    std::vector<Qp> others;  // send to the CQs of the members
    for (uint32_t i = 0; i < kMembers; ++i) {
        members.push_back(hca.create({.type = PIB_HCA_QP_UD, .log_depth = 1, .log_cq_depth = 0}));
        start_datagram(hca, members.back(), kQkey);
        hca.post_recv(members.back(), {buffer.all()});
        hca.post_recv(members.back(), {buffer.all()});
        REQUIRE(attach_mcast(hca, members.back().qpn, g) == CmdStatus::kOk);
        others.push_back(
            hca.create({.type = PIB_HCA_QP_UD, .log_depth = 0, .cqn = members.back().cqn}));
        start_datagram(hca, others.back(), kQkey);
    }
    const Qp bystander = hca.create({.type = PIB_HCA_QP_UD});
    start_datagram(hca, bystander, kQkey);
    t.send(sender, from, g);
    (void)hca.transport.take_copied();
    CHECK(hca.events().empty());
    t.send(sender, from, g);
    const uint64_t search = (members.size() + others.size() + 1) * kLookCost;
    CHECK(hca.transport.take_copied() == kMembers * (100 + kCopyCost) + search);
    const auto events = hca.events();
    CHECK(std::ranges::count(events, PIB_HCA_EVENT_CQ_ERROR, &pib_hca_eqe::type) == kMembers);
    CHECK(std::ranges::count(events, PIB_HCA_EVENT_QP_FATAL, &pib_hca_eqe::type) == 2 * kMembers);
    for (uint32_t i = 0; i < kMembers; ++i) {
        CHECK(hca.state(members[i]) == PIB_HCA_QPS_ERR);
        CHECK(hca.state(others[i]) == PIB_HCA_QPS_ERR);
    }
    CHECK(hca.state(bystander) == PIB_HCA_QPS_RTS);
}
