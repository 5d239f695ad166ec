// SPDX-License-Identifier: GPL-2.0-or-later
// The transport behind transport.h: the QPs by number, commands on them, and whose turn it is.
#pragma once

#include <array>
#include <vector>

#include "base/table.h"
#include "qp/qp_services.h"
#include "qp/suspicions.h"
#include "transport/completer.h"
#include "transport/datagram.h"
#include "transport/mcast_table.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/transport.h"

namespace pib::hca {

class TransportImpl final : public Transport, private QpOwner {
  public:
    explicit TransportImpl(const TransportParts& parts);

    CmdResult<uint32_t> create_qp(const pib_hca_create_qp& in) override;
    CmdStatus modify_qp(uint32_t qpn, const pib_hca_modify_qp& in) override;
    CmdResult<pib_hca_modify_qp> query_qp(uint32_t qpn) override;
    CmdStatus destroy_qp(uint32_t qpn) override;
    CmdStatus attach_mcast(uint32_t qpn, const pib_hca_mcast& in) override;
    CmdStatus detach_mcast(uint32_t qpn, const pib_hca_mcast& in) override;
    pib_hca_page_fault next_page_fault() override { return services_.page_faults().take(); }
    CmdStatus resume_page_fault(uint32_t qpn, const pib_hca_resume_page_fault& in) override;
    uint32_t qps_of_pd(uint32_t pd) override;
    uint32_t qps_of_uar(uint32_t uar) override;
    uint32_t qps_of_xrcd(uint32_t xrcd) override;
    void srq_destroyed(uint32_t srqn) override;
    const QueuePair* look_at(uint32_t qpn) override { return find_qp(qpn); }
    CmdStatus inject_event(pib_hca_event type, uint32_t number) override;
    void set_knobs(const Knobs& knobs) override;
    void visit_qps(const std::function<void(const QueuePair&)>& visitor) override;

    bool send_doorbell(uint32_t uar, uint32_t qpn) override;
    bool recv_doorbell(uint32_t uar, uint32_t qpn) override;

    bool has_work() const override { return services_.has_work(); }
    bool run() override;
    void run_follows() override { services_.set_running(true); }
    uint64_t timer(uint64_t now_ns) override;
    uint64_t next_deadline() const override;

    void packet_in(unsigned port, const ib::PacketView& packet) override;
    uint32_t run_in(unsigned port, const ib::PacketRun& run, uint32_t from) override;
    bool reference_in(unsigned port, const ib::PacketRun& run,
                      std::vector<ib::link::RamPiece>& where) override;
    bool placed_in(unsigned port, const ib::PacketRun& run,
                   std::span<const ib::link::RamPiece> where) override;
    void port_ready(unsigned port) override;
    void port_changed(unsigned port) override;

    void reset() override;

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
    // Whom packets of a run are for, if nothing else is to be said of them.
    QueuePair* run_target(unsigned port, const ib::PacketRun& run);
    QueuePair* locate_run(unsigned port, const ib::PacketRun& run);
    void connected_in(QueuePair& qp, unsigned port, const ib::PacketView& packet);

    QpServices services_;
    McastTable mcast_;
    Requester requester_;
    Completer completer_;
    Responder responder_;
    Datagram datagram_;
    Table<QueuePair> qps_;
    std::array<std::unique_ptr<QueuePair>, kSpecialQps> special_qps_;
    std::array<std::vector<uint32_t>, PIB_HCA_MAX_PORTS> parked_;
    uint64_t pages_left_ = Limits::kQpPages;
    Suspicions suspicions_;
    Located located_;  // of the run that was asked for last
};

}  // namespace pib::hca
