// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "completions.h"
#include "violation.h"

namespace pib::simulation {
namespace {

// PIB_SIMULATION_TRACE=1 prints all completions.
void trace(const std::string& title, unsigned end, const pib_hca_cqe& cqe) {
    static const bool is_wanted = std::getenv("PIB_SIMULATION_TRACE") != nullptr;
    if (is_wanted) {
        std::cerr << title << ", end " << end << ": opcode " << unsigned{cqe.opcode} << ", request "
                  << cqe.wqe_counter << ", status " << unsigned{cqe.status} << '\n';
    }
}

constexpr uint8_t kLogCq = 7;  // room for four times the completions of one QP

hca::test::RcPath path_to(uint16_t dlid, uint32_t qpn, const Connection::Attributes& attributes) {
    hca::test::RcPath path;
    path.av.dlid = dlid;
    path.dest_qpn = qpn;
    path.path_mtu = attributes.path_mtu;
    path.timeout = attributes.timeout;
    path.max_rd_atomic = path.max_dest_rd_atomic = attributes.max_rd_atomic;
    return path;
}

}  // namespace

void move_to_error(test::Guest& guest, const hca::test::MiniQp& qp, const std::string& name) {
    pib_hca_modify_qp to{};
    to.state = PIB_HCA_QPS_ERR;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE;
    require(guest.driver.modify(qp, to).ok(), name, ": a QP does not move to Error");
}

Connection::Connection(const Owner& a, const Owner& b, const std::string& title)
    : title_(title),
      owners_{a, b},
      ends_{End{.guest = a.guest, .pd = a.pd}, End{.guest = b.guest, .pd = b.pd}},
      flows{Flow(ends_[0], ends_[1], title + " forth"), Flow(ends_[1], ends_[0], title + " back")} {
    flows[0].reverse = &flows[1];
    flows[1].reverse = &flows[0];
}

void Connection::open(const test::MiniSm& sm, const Attributes& attributes) {
    for (unsigned i = 0; i < 2; ++i) {
        End& end = ends_[i];
        hca::test::QpShape shape;
        end.cq = end.guest->driver.create_cq(owners_[i].eqn, kLogCq);
        shape.pd = end.pd;
        shape.send_cq = shape.recv_cq = end.cq.cqn;
        shape.log_sq_depth = shape.log_rq_depth = Flow::kLogDepth;
        end.qp = end.guest->driver.create_qp(shape);
        end.is_killed = end.is_lost = false;
        flows[i].is_lossy = flows[i].had_outage = false;
    }
    for (unsigned i = 0; i < 2; ++i) {
        hca::test::RcPath path =
            path_to(sm.lid_of(owners_[1 - i].index), ends_[1 - i].qp.qpn, attributes);
        path.sq_psn = attributes.psn[i];
        path.rq_psn = attributes.psn[1 - i];
        ends_[i].guest->driver.connect_rc(ends_[i].qp, path);
    }
    is_open_ = true;
}

void Connection::close() {
    if (!std::exchange(is_open_, false)) {
        return;
    }
    poll();
    for (End& end : ends_) {
        if (!end.is_lost) {
            end.guest->driver.destroy(PIB_HCA_CMD_DESTROY_QP, end.qp.qpn);
        }
    }
    poll();
    for (Flow& flow : flows) {
        flow.restart();
    }
    for (End& end : ends_) {
        if (!end.is_lost) {
            require(!end.guest->driver.poll(end.cq), title_, ": a destroyed QP completes");
            end.guest->driver.destroy(PIB_HCA_CMD_DESTROY_CQ, end.cq.cqn);
        }
    }
}

void Connection::check_completed() {
    for (Flow& flow : flows) {
        if (!flow.from.is_lost) {
            rest_completed(flow);
        }
    }
}

Connection::Completions Connection::poll() {
    Completions completions;
    for (unsigned i = 0; i < 2; ++i) {
        End& end = ends_[i];
        while (!end.is_lost) {
            const auto cqe = end.guest->driver.poll(end.cq);
            if (!cqe) {
                break;
            }
            trace(title_, i, *cqe);
            ++completions.all;
            completions.errors += cqe->status != PIB_HCA_WC_SUCCESS ? 1 : 0;
            require(cqe->qpn == end.qp.qpn, title_, ": a completion of another QP");
            if ((cqe->opcode & PIB_HCA_CQE_IS_RECV) != 0) {
                receive_completed(flows[1 - i], *cqe);
            } else {
                send_completed(flows[i], *cqe);
            }
        }
    }
    for (const Flow& flow : flows) {
        check_delivery(flow);
    }
    return completions;
}

bool Connection::is_done() const {
    const bool failed = has_failed();
    return std::ranges::all_of(flows, [&](const Flow& flow) {
        return flow.from.is_lost ||
               (!flow.awaits_completion() && (failed || flow.received == flow.messages.size()));
    });
}

void Connection::kill(unsigned end) {
    if (!is_open_ || ends_[end].is_lost) {
        return;
    }
    ends_[end].is_killed = true;
    move_to_error(*ends_[end].guest, ends_[end].qp, title_);
}

void Connection::lose(unsigned guest) {
    for (unsigned i = 0; i < 2; ++i) {
        if (owners_[i].index == guest) {
            ends_[i].is_lost = true;
            flows[i].local.lose_key();
            flows[1 - i].remote.lose_key();
            flows[1 - i].window.lose();
            flows[1 - i].inbox.lose_key();
        }
    }
}

void Connection::restore(const Owner& owner) {
    for (unsigned i = 0; i < 2; ++i) {
        if (owners_[i].index == owner.index) {
            owners_[i] = owner;
            ends_[i].pd = owner.pd;
            flows[i].local.create_key(owner.pd);
            flows[1 - i].remote.create_key(owner.pd);
            flows[1 - i].window.restore(owner.pd);
            flows[1 - i].inbox.create_key(owner.pd);
        }
    }
}

bool Connection::has_failed() const {
    return std::ranges::any_of(ends_,
                               [](const End& end) { return end.is_lost || end.is_killed; }) ||
           std::ranges::any_of(flows,
                               [](const Flow& flow) { return flow.has_failed || flow.is_flushed; });
}

}  // namespace pib::simulation
