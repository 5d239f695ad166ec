// SPDX-License-Identifier: GPL-2.0-or-later
#include "station.h"

#include <algorithm>
#include <iterator>

#include "violation.h"

namespace pib::simulation {
namespace {

constexpr uint8_t kLogCq = 7;  // room for all completions of a queue and its QPs' errors
constexpr uint32_t kQkey = 0x1b0c;
constexpr uint32_t kGroupQpn = 0xffffff;

pib_hca_mcast group() {
    pib_hca_mcast mcast{};
    mcast.mgid[0] = 0xff;
    mcast.mgid[1] = 0x12;
    mcast.mgid[15] = 7;
    mcast.mlid = Station::kGroupLid;
    return mcast;
}

std::string name_of(const Owner& owner, const char* what) {
    return "guest " + std::to_string(owner.index) + ", " + what;
}

}  // namespace

Station::Station(const Owner& owner, uint32_t number)
    : sender(number, Delivery::kDatagrams, name_of(owner, "datagrams")),
      owner_(owner),
      datagrams_(*owner.guest, owner.pd, ReceiveQueue::Kind::kDatagrams, name_of(owner, "UD QP")),
      shared_(*owner.guest, owner.pd, ReceiveQueue::Kind::kShared, name_of(owner, "SRQ")),
      xrc_(*owner.guest, owner.pd, ReceiveQueue::Kind::kShared, name_of(owner, "SRQ of XRC")) {
    create();
}

void Station::create() {
    hca::test::MiniDriver& driver = owner_.guest->driver;
    datagram_cq_ = driver.create_cq(owner_.eqn, kLogCq);
    hca::test::QpShape shape;
    shape.type = PIB_HCA_QP_UD;
    shape.pd = owner_.pd;
    shape.send_cq = shape.recv_cq = datagram_cq_.cqn;
    shape.log_rq_depth = ReceiveQueue::kLogDepth;
    qp_ = driver.create_qp(shape);
    driver.connect_ud(qp_, 1, kQkey);
    driver.must(driver.command_in(PIB_HCA_CMD_ATTACH_MCAST, qp_.qpn, group()), "ATTACH_MCAST");
    srq_ = driver.create_srq({.pd = owner_.pd, .log_depth = ReceiveQueue::kLogDepth});
    xrcd_ = driver.must(driver.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
    xrc_cq_ = driver.create_cq(owner_.eqn, kLogCq);
    xrc_srq_ = driver.create_srq(
        {.pd = owner_.pd, .xrcd = xrcd_, .cq = xrc_cq_.cqn, .log_depth = ReceiveQueue::kLogDepth});
    sender.create(owner_, PIB_HCA_QP_UD);
    driver.connect_ud(sender.qp(), 1, kQkey);
}

void Station::restore(const Owner& owner) {
    owner_ = owner;
    for (unsigned which = 0; which < kQueues; ++which) {
        queue(which).restore(owner.pd);
    }
    sender.destroy();
    create();
}

void Station::destroy() {
    hca::test::MiniDriver& driver = owner_.guest->driver;
    sender.destroy();
    driver.must(driver.command_in(PIB_HCA_CMD_DETACH_MCAST, qp_.qpn, group()), "DETACH_MCAST");
    driver.destroy(PIB_HCA_CMD_DESTROY_QP, qp_.qpn);
    driver.destroy(PIB_HCA_CMD_DESTROY_SRQ, srq_.srqn);
    driver.destroy(PIB_HCA_CMD_DESTROY_SRQ, xrc_srq_.srqn);
    driver.destroy(PIB_HCA_CMD_FREE_XRCD, xrcd_);
    driver.destroy(PIB_HCA_CMD_DESTROY_CQ, datagram_cq_.cqn);
    driver.destroy(PIB_HCA_CMD_DESTROY_CQ, xrc_cq_.cqn);
    for (unsigned which = 0; which < kQueues; ++which) {
        queue(which).destroy_key();
    }
}

void Station::check_receives() {
    for (unsigned which = 0; which < kQueues; ++which) {
        queue(which).check_untouched();
    }
    for (const unsigned which : {kShared, kXrc}) {
        pib_hca_query_srq found{};
        const uint32_t number = which == kShared ? srq_.srqn : xrc_srq_.srqn;
        hca::test::MiniDriver& driver = owner_.guest->driver;
        driver.must(driver.command_out(PIB_HCA_CMD_QUERY_SRQ, number, found), "QUERY_SRQ");
        require(found.waiting == queue(which).waiting(), name_of(owner_, "an SRQ"),
                " has lost a receive, or has one twice");
    }
}

ReceiveQueue& Station::queue(unsigned which) {
    ReceiveQueue* const queues[] = {&datagrams_, &shared_, &xrc_};
    static_assert(std::size(queues) == kQueues);
    return *queues[which];
}

void Station::post_receives(unsigned which, uint32_t count) {
    hca::test::MiniDriver& driver = owner_.guest->driver;
    queue(which).post(count, [&](std::span<const pib_hca_sge> sges, uint32_t id) {
        if (which == kDatagrams) {
            driver.post_recv(qp_, sges);
        } else {
            driver.post_srq(which == kShared ? srq_ : xrc_srq_, sges, id);
        }
    });
}

void Station::send(const Station* to, uint16_t lid, const Sent& sent,
                   const Sender::Choice& choice) {
    hca::test::SendWr wr;
    wr.av.dlid = to != nullptr ? lid : kGroupLid;
    wr.av.port = 1;
    wr.dest_qpn = to != nullptr ? to->qp_.qpn : kGroupQpn;
    wr.qkey = kQkey;
    if (to == nullptr) {
        wr.av.flags = PIB_HCA_AV_GRH;
        wr.av.hop_limit = 1;
        std::ranges::copy(group().mgid, wr.av.dgid);
    }
    sender.post(sent, choice, wr);
}

std::optional<pib_hca_cqe> Station::poll(unsigned which) {
    return owner_.guest->driver.poll(which == kXrc ? xrc_cq_ : datagram_cq_);
}

}  // namespace pib::simulation
