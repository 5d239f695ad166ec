// SPDX-License-Identifier: GPL-2.0-or-later
// Queue pairs and everything that runs on them: the QPs by number, commands on them, and whose turn
// it is. Requester, responder, completer and datagram service (IBA vol. 1, chapters 9 to 11) do the
// rest.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "base/table.h"
#include "port/port.h"
#include "qp/qp_services.h"
#include "qp/suspicions.h"
#include "qp/transport_parts.h"
#include "transport/completer.h"
#include "transport/datagram.h"
#include "transport/mcast_table.h"

namespace pib::hca {

class Transport final : public PortClient, private QpOwner {
  public:
    explicit Transport(const TransportParts& parts);

    // Commands. The device has checked length and reserved fields of the structures, and that PD
    // and UAR exist; the transport checks the rest and counts itself as a user of the CQs and the
    // SRQ.
    CmdResult<uint32_t> create_qp(const pib_hca_create_qp& in);
    CmdStatus modify_qp(uint32_t qpn, const pib_hca_modify_qp& in);
    CmdResult<pib_hca_modify_qp> query_qp(uint32_t qpn);
    CmdStatus destroy_qp(uint32_t qpn);
    CmdStatus attach_mcast(uint32_t qpn, const pib_hca_mcast& in);
    CmdStatus detach_mcast(uint32_t qpn, const pib_hca_mcast& in);
    pib_hca_page_fault next_page_fault() { return services_.page_faults().take(); }
    CmdStatus resume_page_fault(uint32_t qpn, const pib_hca_resume_page_fault& in);
    uint32_t qps_of_pd(uint32_t pd);
    uint32_t qps_of_uar(uint32_t uar);
    uint32_t qps_of_xrcd(uint32_t xrcd);
    void srq_destroyed(uint32_t srqn);
    // nullptr when there is none.
    const QueuePair* look_at(uint32_t qpn) { return find_qp(qpn); }
    // Raises an event of a QP or CQ that has not happened, with the state change that belongs to it
    // (INJECT_EVENT).
    CmdStatus inject_event(pib_hca_event type, uint32_t number);
    void set_knobs(const Knobs& knobs);
    void visit_qps(const std::function<void(const QueuePair&)>& visitor);

    // Doorbells; false when the QP does not exist or is another UAR's. A send doorbell works at
    // once, within a budget; the rest is done in run().
    bool send_doorbell(uint32_t uar, uint32_t qpn);
    bool recv_doorbell(uint32_t uar, uint32_t qpn);

    // Whether run() has work, which it will be called for.
    bool has_work() const { return services_.has_work(); }
    // Does a bounded amount of queued work; true when some is left.
    bool run();
    // The caller will call run() before it returns to the host, which need not be asked to.
    void run_follows() { services_.set_running(true); }
    // Handles timers that are due; the next deadline, or kNever.
    uint64_t timer(uint64_t now_ns);
    uint64_t next_deadline() const;

    // Forgets every QP without completions: device reset.
    void reset();

    // ---- PortClient
    uint32_t burst_in(unsigned port, const ib::Burst& burst, ib::Placement& payload) override;
    void port_ready(unsigned port) override;
    void port_changed(unsigned port) override;

  private:
    static constexpr unsigned kSpecialQps = 2 * PIB_HCA_MAX_PORTS;

    QueuePair* find_qp(uint32_t qpn) override;
    void cq_failed(uint32_t cqn) override;
    QueuePair* find_wire_qp(unsigned port, ib::Qpn qpn);
    template <typename F>
    void for_each_qp(F&& f);
    bool queues_exist(const pib_hca_create_qp& in);
    void use_queues(const QueuePair& qp, bool use);
    uint32_t room_of_cqs(const QueuePair& qp);
    CmdResult<uint32_t> place(QueuePair&& qp);
    void forget(QueuePair& qp);

    void enter_state(QueuePair& qp, QpState to, uint32_t attr_mask);
    void finish_send_flush(QueuePair& qp);

    void ring(QueuePair& qp);
    void serve(unsigned port);
    void give_turn(uint32_t qpn, Budget budget);
    Turn turn(QueuePair& qp, Budget& budget);
    void after_turn(QueuePair& qp, Turn turn);
    void unpark(QueuePair& qp) override;
    uint32_t take(unsigned port, const ib::Burst& burst, ib::Placement& payload);
    uint32_t connected_in(QueuePair& qp, unsigned port, const ib::Burst& burst,
                          ib::Placement& payload);
    uint32_t drop(unsigned port, const ib::Burst& burst);

    QpServices services_;
    McastTable mcast_;
    Completer completer_;
    Datagram datagram_;
    Table<QueuePair> qps_;
    std::array<std::unique_ptr<QueuePair>, kSpecialQps> special_qps_;
    std::array<std::vector<uint32_t>, PIB_HCA_MAX_PORTS> parked_;
    uint64_t pages_left_ = Limits::kQpPages;
    Suspicions suspicions_;
};

}  // namespace pib::hca
