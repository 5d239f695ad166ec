// SPDX-License-Identifier: GPL-2.0-or-later
// Datagrams to groups and to queue pairs, across the switch: each member receives one copy, other
// queue pairs none.
#include <catch2/catch_test_macros.hpp>

#include "mini_sm.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr uint16_t kMlid = 0xc001;
constexpr uint32_t kQkey = 0x1b0c;
constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kSlotBytes = 2048;
constexpr uint32_t kSlots = 16;

struct UdEnd {
    Guest& guest;
    MiniCq cq;
    MiniMr mr;
    MiniQp qp;
    uint32_t received = 0;

    explicit UdEnd(Guest& g) : guest(g) {
        MiniDriver& driver = guest.driver;
        cq = driver.create_cq(driver.create_eq(4).eqn);
        mr = driver.create_mr(guest.pd, (kSlots + 1) * kSlotBytes, PIB_HCA_ACCESS_LOCAL_WRITE);
        QpShape shape;
        shape.type = PIB_HCA_QP_UD;
        shape.pd = guest.pd;
        shape.send_cq = shape.recv_cq = cq.cqn;
        qp = driver.create_qp(shape);
        driver.connect_ud(qp, 1, kQkey);
        for (uint32_t slot = 0; slot < kSlots; ++slot) {
            const pib_hca_sge sge = driver.sge(mr, slot * kSlotBytes, kSlotBytes);
            driver.post_recv(qp, {&sge, 1});
        }
    }
    pib_hca_mcast group() const {
        pib_hca_mcast mcast{};
        mcast.mgid[0] = 0xff;
        mcast.mgid[1] = 0x12;
        mcast.mgid[15] = 7;
        mcast.mlid = kMlid;
        return mcast;
    }
    void join() {
        guest.driver.must(guest.driver.command_in(PIB_HCA_CMD_ATTACH_MCAST, qp.qpn, group()),
                          "ATTACH");
    }
    void leave() {
        guest.driver.must(guest.driver.command_in(PIB_HCA_CMD_DETACH_MCAST, qp.qpn, group()),
                          "DETACH");
    }
    void send(const pib_hca_av& av, uint32_t dest_qpn, uint32_t qkey, uint8_t fill) {
        const std::vector<uint8_t> data(1000, fill);
        mr.memory.write(kSlots * kSlotBytes, data);
        SendWr request;
        request.sges = {MiniDriver::sge(mr, kSlots * kSlotBytes, 1000)};
        request.av = av;
        request.dest_qpn = dest_qpn;
        request.qkey = qkey;
        guest.driver.post_send(qp, request);
    }
    void send_to_group(uint8_t fill) {
        pib_hca_av av{};
        av.dlid = kMlid;
        av.port = 1;
        av.flags = PIB_HCA_AV_GRH;
        av.hop_limit = 1;
        std::ranges::copy(group().mgid, av.dgid);
        send(av, 0xffffff, kQkey, fill);
    }
    // The first bytes of the messages received since the last call.
    std::vector<uint8_t> take() {
        std::vector<uint8_t> fills;
        while (const auto cqe = guest.driver.poll(cq)) {
            REQUIRE(cqe->status == PIB_HCA_WC_SUCCESS);
            if ((cqe->opcode & PIB_HCA_CQE_IS_RECV) != 0) {
                REQUIRE(cqe->byte_count == kGrhBytes + 1000);
                const uint32_t slot = received++;
                fills.push_back(mr.memory.peek<uint8_t>(slot * kSlotBytes + kGrhBytes));
            }
        }
        return fills;
    }
};

using Fills = std::vector<uint8_t>;

}  // namespace

TEST_CASE("multicast reaches every member once, the sender's own QPs included") {
    Subnet subnet(4);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    sm.set_group(kMlid, {0, 1, 2});
    std::vector<UdEnd> ends;
    for (unsigned i = 0; i < 4; ++i) {
        ends.emplace_back(subnet.guest(i));
    }
    ends[0].join();
    ends[1].join();  // guest 2 gets the packets but has not attached; guest 3 does not get them
    ends[0].send_to_group(0x11);
    subnet.settle();
    CHECK(ends[0].take() == Fills{0x11});
    CHECK(ends[1].take() == Fills{0x11});
    CHECK(ends[2].take().empty());
    CHECK(ends[3].take().empty());

    ends[2].send_to_group(0x22);  // a sender need not be a member (IBA 10.5)
    subnet.settle();
    CHECK(ends[0].take() == Fills{0x22});
    CHECK(ends[1].take() == Fills{0x22});

    ends[1].leave();
    ends[0].send_to_group(0x33);
    subnet.settle();
    CHECK(ends[0].take() == Fills{0x33});
    CHECK(ends[1].take().empty());
}

TEST_CASE("a datagram with a wrong Q_Key is dropped, counted and reported to the SM") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    sm.take_traps();
    UdEnd a(subnet.guest(0));
    UdEnd b(subnet.guest(1));
    pib_hca_av av{};
    av.dlid = sm.lid_of(1);
    av.port = 1;
    a.send(av, b.qp.qpn, kQkey, 1);
    subnet.settle();
    CHECK(b.take() == Fills{1});
    a.send(av, b.qp.qpn, kQkey + 1, 2);
    subnet.advance(1'000'000);
    CHECK(b.take().empty());
    CHECK(subnet.guest(1).query_port().qkey_violation_count == 1);
    const auto traps = sm.take_traps();
    REQUIRE(traps.size() == 1);
    CHECK(ib::get(traps[0].smp_data(), ib::notice::kTrapNumber) == ib::trap::kBadQKey);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kKey) == kQkey + 1);
}
