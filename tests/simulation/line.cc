// SPDX-License-Identifier: GPL-2.0-or-later
#include "line.h"

namespace pib::simulation {
namespace {

constexpr uint8_t kLogCq = 7;  // room for all completions of the receive queue

pib_hca_qp_type sender_type(Line::Service service) {
    switch (service) {
        case Line::Service::kXrc:
            return PIB_HCA_QP_XRC_INI;
        case Line::Service::kUc:
            return PIB_HCA_QP_UC;
        default:
            return PIB_HCA_QP_RC;
    }
}

std::string name_of(const Station& from, const Station& to, uint32_t number) {
    return "line " + std::to_string(number) + " from guest " + std::to_string(from.owner().index) +
           " to guest " + std::to_string(to.owner().index);
}

hca::test::RcPath path_to(uint16_t dlid, uint32_t qpn, const Connection::Attributes& attributes) {
    hca::test::RcPath path;
    path.av.dlid = dlid;
    path.dest_qpn = qpn;
    path.path_mtu = attributes.path_mtu;
    path.timeout = attributes.timeout;
    path.sq_psn = attributes.psn[0];
    path.rq_psn = attributes.psn[1];
    return path;
}

}  // namespace

Line::Line(Station& from, Station& to, Service service, uint32_t number)
    : sender(number, service == Service::kUc ? Delivery::kMayBeLost : Delivery::kReliable,
             name_of(from, to, number)),
      from_(from),
      to_(to),
      service_(service),
      own_(*to.owner().guest, to.owner().pd, ReceiveQueue::Kind::kMessages,
           name_of(from, to, number)) {}

hca::test::MiniQp Line::create_receiver() {
    const Owner& owner = to_.owner();
    hca::test::QpShape shape;
    if (service_ == Service::kXrc) {
        shape.type = PIB_HCA_QP_XRC_TGT;
        shape.xrcd = to_.xrcd();
        return owner.guest->driver.create_qp(shape);
    }
    receive_cq_ = owner.guest->driver.create_cq(owner.eqn, kLogCq);
    shape.type = sender_type(service_);
    shape.pd = owner.pd;
    shape.send_cq = shape.recv_cq = receive_cq_.cqn;
    shape.log_rq_depth = ReceiveQueue::kLogDepth;
    shape.flags = PIB_HCA_QP_NO_SQ;
    if (service_ == Service::kRc) {
        shape.flags |= PIB_HCA_QP_SRQ | PIB_HCA_QP_NO_RQ;
        shape.srq = to_.srqn();
    }
    return owner.guest->driver.create_qp(shape);
}

void Line::open(const test::MiniSm& sm, const Connection::Attributes& attributes) {
    sender.create(from_.owner(), sender_type(service_));
    receiver_ = create_receiver();
    is_receiver_lost_ = is_receiver_killed_ = false;
    own_.restart();
    const auto connect = [&](const Station& station, const hca::test::MiniQp& qp,
                             const hca::test::RcPath& path) {
        station.owner().guest->driver.connect_rc(qp, path);
    };
    // The path back has the PSNs of the path there. The receiver sends no requests, so it needs no
    // PSNs of its own.
    hca::test::RcPath there = path_to(sm.lid_of(to_.owner().index), receiver_.qpn, attributes);
    hca::test::RcPath back = path_to(sm.lid_of(from_.owner().index), sender.qp().qpn, attributes);
    back.rq_psn = there.sq_psn;
    back.sq_psn = there.rq_psn;
    connect(to_, receiver_, back);
    connect(from_, sender.qp(), there);
}

void Line::kill_receiver() {
    is_receiver_killed_ = true;
    sender.peer_is_gone = true;
    move_to_error(*to_.owner().guest, receiver_, sender.ledger.name() + ", receiver");
}

void Line::kill(unsigned end) {
    if (end == 0) {
        sender.kill();
    } else if (!is_receiver_lost_) {
        kill_receiver();
    }
}

void Line::stop() {
    kill(0);
    kill(1);
}

void Line::destroy() {
    sender.destroy();
    if (!is_receiver_lost_) {
        hca::test::MiniDriver& driver = to_.owner().guest->driver;
        driver.destroy(PIB_HCA_CMD_DESTROY_QP, receiver_.qpn);
        if (service_ != Service::kXrc) {
            driver.destroy(PIB_HCA_CMD_DESTROY_CQ, receive_cq_.cqn);
        }
    }
    is_receiver_lost_ = true;
    own_.restart();
}

void Line::lose(unsigned guest) {
    if (from_.owner().index == guest) {
        sender.lose();
    }
    if (to_.owner().index == guest) {
        is_receiver_lost_ = true;
        sender.peer_is_gone = true;
    }
}

void Line::restore(const Owner& owner) {
    if (to_.owner().index == owner.index) {
        own_.restore(owner.pd);
    }
}

uint32_t Line::srqn() const {
    switch (service_) {
        case Service::kRc:
            return to_.srqn();
        case Service::kXrc:
            return to_.xrc_srqn();
        default:
            return 0;
    }
}

void Line::post(const Sent& sent, const Sender::Choice& choice) {
    hca::test::SendWr wr;
    wr.srqn = service_ == Service::kXrc ? srqn() : 0;
    sender.post(sent, choice, wr);
}

void Line::post_receives(uint32_t count) {
    if (service_ == Service::kUc && !is_receiver_lost_) {
        own_.post(count, [&](std::span<const pib_hca_sge> sges, uint32_t) {
            to_.owner().guest->driver.post_recv(receiver_, sges);
        });
    }
}

std::optional<pib_hca_cqe> Line::poll_receives() {
    if (service_ == Service::kXrc || is_receiver_lost_) {
        return std::nullopt;
    }
    return to_.owner().guest->driver.poll(receive_cq_);
}

ReceiveQueue& Line::queue() {
    if (service_ == Service::kUc) {
        return own_;
    }
    return to_.queue(service_ == Service::kRc ? Station::kShared : Station::kXrc);
}

}  // namespace pib::simulation
