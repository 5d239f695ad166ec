// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/scheduler.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <variant>

#include "fake_host.h"
#include "port/port.h"

using namespace pib;
using namespace pib::hca;

namespace {

// A port that only has lanes: the SL is the VL, and one DLID is the port's own.
class LanePort : public Port {
  public:
    static constexpr uint16_t kOwnLid = 9;

    unsigned lane(const TxRequest& request) const override {
        return request.vl15 ? kVl15Lane : owns_lid(request.dlid) ? kLoopbackLane : request.sl;
    }
    bool owns_lid(uint16_t dlid) const override { return dlid == kOwnLid; }

    link::BurstRoom begin(const TxRequest& /*request*/) override { return {}; }
    void commit(const ib::BurstSize& /*size*/, const link::OfferedPayload& /*offered*/) override {}
    VlGrant arbitrate(ib::VlMask /*ready*/) override { return {}; }
    void end_grant() override {}
    bool is_active() const override { return true; }
    uint16_t lid() const override { return kOwnLid; }
    uint8_t lmc() const override { return 0; }
    uint32_t mtu_bytes() const override { return 4096; }
    uint16_t pkey(unsigned /*index*/) const override { return 0; }
    unsigned pkey_count() const override { return 0; }
    const uint8_t* gid(unsigned /*index*/) const override { return nullptr; }
    void pkey_violation(const ib::PacketView& /*packet*/) override {}
    void qkey_violation(const ib::PacketView& /*packet*/) override {}
    void mad_dropped(bool /*vl15*/) override {}
};

struct Setup {
    hca::test::FakeHost host;
    LanePort port;
    std::array<Port*, 2> ports{&port, &port};
    Scheduler scheduler{host, ports};
    QpTable qps;

    QueuePair& connected(uint8_t port_number, uint8_t sl) {
        QueuePair qp;
        qp.state = QpState::kRts;
        qp.attr.port = port_number;
        qp.attr.av = {.dlid = 1, .sl = sl};
        return qps.insert(std::move(qp));
    }
    // Whether schedule() has requested Device::run() since the last call.
    bool takes_wake() { return std::exchange(host.woken, false); }
    uint32_t pop(unsigned port_number, unsigned lane) {
        const uint32_t qpn = scheduler.run_queue().pop(port_number, lane);
        qps.find(qpn)->scheduling.queued = false;
        return qpn;
    }
};

}  // namespace

TEST_CASE("scheduler: Device::run() is requested once until it is called") {
    Setup setup;
    setup.scheduler.schedule(setup.connected(1, 0));
    CHECK(setup.takes_wake());
    setup.scheduler.schedule(setup.connected(1, 0));
    CHECK_FALSE(setup.takes_wake());
    setup.scheduler.woken();
    setup.scheduler.schedule(setup.connected(1, 0));
    CHECK(setup.takes_wake());
}

TEST_CASE("scheduler: a caller that gives the turns itself needs no Device::run()") {
    Setup setup;
    QueuePair& qp = setup.connected(1, 0);
    setup.scheduler.begin_turns();
    setup.scheduler.schedule(qp);
    CHECK_FALSE(setup.takes_wake());
    CHECK(setup.scheduler.has_work());
    setup.scheduler.end_turns();
    setup.scheduler.schedule(qp);
    CHECK(setup.takes_wake());
}

TEST_CASE("scheduler: a QP that is scheduled again while it waits gets one turn") {
    Setup setup;
    QueuePair& qp = setup.connected(2, 3);
    CHECK_FALSE(setup.scheduler.has_work());
    setup.scheduler.schedule(qp);
    setup.scheduler.schedule(qp);
    CHECK(setup.pop(2, 3) == qp.qpn);
    CHECK_FALSE(setup.scheduler.has_work());
}

TEST_CASE("scheduler: the destination of a QP's next packet gives the lane") {
    Setup setup;
    QueuePair qp;
    qp.state = QpState::kRts;
    qp.attr.port = 1;
    qp.attr.av = {.dlid = 1, .sl = 4};
    SECTION("a connected QP") {
        CHECK(setup.scheduler.lane_of(qp) == 4);
        qp.attr.av.dlid = LanePort::kOwnLid;
        CHECK(setup.scheduler.lane_of(qp) == kLoopbackLane);
    }
    SECTION("an SMI QP sends in VL15 only") {
        qp.type = QpType::kSmi;
        qp.special_port = 1;
        CHECK(setup.scheduler.lane_of(qp) == kVl15Lane);
    }
    SECTION("a datagram QP: without a request, the last destination") {
        qp.type = QpType::kUd;
        qp.scheduling.last_dlid = 1;
        qp.scheduling.last_sl = 6;
        CHECK(setup.scheduler.lane_of(qp) == 6);
        qp.scheduling.last_dlid = LanePort::kOwnLid;
        CHECK(setup.scheduler.lane_of(qp) == kLoopbackLane);
        SnapshotBudget budget;
        REQUIRE_FALSE(qp.window.reserve(64, budget).empty());
        AddressVector& next = qp.window.push(0, {}).wqe.op.emplace<DatagramOp>().av;
        next = {.dlid = 1, .sl = 5};
        CHECK(setup.scheduler.lane_of(qp) == 5);
        next.dlid = LanePort::kOwnLid;
        CHECK(setup.scheduler.lane_of(qp) == kLoopbackLane);
    }
}

TEST_CASE("scheduler: a QP that sends no packets waits for no VL") {
    Setup setup;
    QueuePair& qp = setup.connected(1, 4);
    for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kSqe, QpState::kErr}) {
        qp.state = state;
        CHECK(setup.scheduler.lane_of(qp) == kLoopbackLane);
    }
    for (const QpState state : {QpState::kRtr, QpState::kRts, QpState::kSqd}) {
        qp.state = state;
        CHECK(setup.scheduler.lane_of(qp) == 4);
    }
    qp.state = QpState::kErr;
    qp.attr.port = 0;
    setup.scheduler.schedule(qp);
    CHECK(setup.pop(1, kLoopbackLane) == qp.qpn);
}

TEST_CASE("scheduler: others_wait() finds QPs that wait in other lanes of the same link") {
    Setup setup;
    QueuePair& waiting = setup.connected(1, 4);
    const QueuePair& other = setup.connected(1, 5);
    const QueuePair& elsewhere = setup.connected(2, 5);
    CHECK_FALSE(setup.scheduler.others_wait(other));
    setup.scheduler.schedule(waiting);
    CHECK(setup.scheduler.others_wait(other));
    CHECK_FALSE(setup.scheduler.others_wait(waiting));
    CHECK_FALSE(setup.scheduler.others_wait(elsewhere));
}

TEST_CASE("scheduler: a parked QP waits until its port has room") {
    Setup setup;
    QueuePair& qp = setup.connected(2, 3);
    setup.scheduler.park(qp);
    setup.scheduler.park(qp);
    CHECK(qp.scheduling.blocked);
    CHECK_FALSE(setup.scheduler.has_work());
    SECTION("another port's room does not help") {
        setup.scheduler.room(1, setup.qps);
        CHECK(qp.scheduling.blocked);
        CHECK_FALSE(setup.scheduler.has_work());
    }
    SECTION("its port's room gives it one turn") {
        setup.scheduler.room(2, setup.qps);
        CHECK_FALSE(qp.scheduling.blocked);
        CHECK(setup.takes_wake());
        CHECK(setup.pop(2, 3) == qp.qpn);
        setup.scheduler.room(2, setup.qps);
        CHECK_FALSE(setup.scheduler.has_work());
    }
    SECTION("it can be parked again") {
        setup.scheduler.room(2, setup.qps);
        setup.pop(2, 3);
        setup.scheduler.park(qp);
        setup.scheduler.room(2, setup.qps);
        CHECK(setup.scheduler.has_work());
    }
    SECTION("a QP that no longer waits gets no turn") {
        setup.scheduler.unpark(qp);
        CHECK_FALSE(qp.scheduling.blocked);
        setup.scheduler.room(2, setup.qps);
        CHECK_FALSE(setup.scheduler.has_work());
    }
}

TEST_CASE("scheduler: parked QPs get turns in the order in which they were parked") {
    Setup setup;
    QueuePair& second = setup.connected(1, 0);
    QueuePair& gone = setup.connected(1, 0);
    QueuePair& first = setup.connected(1, 0);
    for (QueuePair* qp : {&first, &gone, &second}) {
        setup.scheduler.park(*qp);
    }
    setup.scheduler.forget(gone);
    setup.qps.erase(gone.qpn);
    setup.scheduler.room(1, setup.qps);
    CHECK(setup.pop(1, 0) == first.qpn);
    CHECK(setup.pop(1, 0) == second.qpn);
    CHECK_FALSE(setup.scheduler.has_work());
}

TEST_CASE("scheduler: a QP that is parked anew waits behind the others") {
    Setup setup;
    QueuePair& qp = setup.connected(1, 0);
    QueuePair& other = setup.connected(1, 0);
    setup.scheduler.park(qp);
    setup.scheduler.park(other);
    setup.scheduler.unpark(qp);
    setup.scheduler.park(qp);
    setup.scheduler.room(1, setup.qps);
    CHECK(setup.pop(1, 0) == other.qpn);
    REQUIRE(setup.scheduler.has_work());
    CHECK(setup.pop(1, 0) == qp.qpn);
}

TEST_CASE("scheduler: a forgotten QP leaves the run queue") {
    Setup setup;
    QueuePair& qp = setup.connected(1, 0);
    QueuePair& other = setup.connected(1, 0);
    setup.scheduler.schedule(qp);
    setup.scheduler.schedule(other);
    setup.scheduler.forget(qp);
    CHECK(setup.pop(1, 0) == other.qpn);
    CHECK_FALSE(setup.scheduler.has_work());
}

TEST_CASE("scheduler: extra work adds up until it is taken") {
    Setup setup;
    setup.scheduler.add_extra(100);
    setup.scheduler.add_extra(20);
    CHECK(setup.scheduler.extra() == 120);
    CHECK(setup.scheduler.take_extra() == 120);
    CHECK(setup.scheduler.take_extra() == 0);
}

TEST_CASE("scheduler: a cleared scheduler has no QPs, no work and no pending request") {
    Setup setup;
    QueuePair& queued = setup.connected(1, 0);
    QueuePair& parked = setup.connected(1, 0);
    setup.scheduler.schedule(queued);
    setup.scheduler.park(parked);
    setup.scheduler.add_extra(100);
    setup.scheduler.begin_turns();
    CHECK(setup.takes_wake());
    setup.scheduler.clear();
    CHECK_FALSE(setup.scheduler.has_work());
    setup.scheduler.room(1, setup.qps);
    CHECK_FALSE(setup.scheduler.has_work());
    CHECK(setup.scheduler.extra() == 0);
    setup.scheduler.schedule(setup.connected(1, 0));
    CHECK(setup.takes_wake());
}
