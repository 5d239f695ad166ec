// SPDX-License-Identifier: GPL-2.0-or-later
// Queue pairs and everything that runs on them: the seam between the device (commands, doorbells,
// clock) and the requester, responder, completer and datagram services behind it (IBA vol. 1,
// chapters 9 to 11).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/config.h"
#include "base/status.h"
#include "port/port.h"
#include "qp/transport_parts.h"

namespace pib::hca {

struct QueuePair;

class Transport : public PortClient {
  public:
    static std::unique_ptr<Transport> create(const TransportParts& parts);

    // Commands. The device has checked length and reserved fields of the structures, and that PD
    // and UAR exist; the transport checks the rest and counts itself as a user of the CQs and the
    // SRQ.
    virtual CmdResult<uint32_t> create_qp(const pib_hca_create_qp& in) = 0;
    virtual CmdStatus modify_qp(uint32_t qpn, const pib_hca_modify_qp& in) = 0;
    virtual CmdResult<pib_hca_modify_qp> query_qp(uint32_t qpn) = 0;
    virtual CmdStatus destroy_qp(uint32_t qpn) = 0;
    virtual CmdStatus attach_mcast(uint32_t qpn, const pib_hca_mcast& in) = 0;
    virtual CmdStatus detach_mcast(uint32_t qpn, const pib_hca_mcast& in) = 0;
    virtual pib_hca_page_fault next_page_fault() = 0;
    virtual CmdStatus resume_page_fault(uint32_t qpn, const pib_hca_resume_page_fault& in) = 0;
    virtual uint32_t qps_of_pd(uint32_t pd) = 0;
    virtual uint32_t qps_of_uar(uint32_t uar) = 0;
    virtual uint32_t qps_of_xrcd(uint32_t xrcd) = 0;
    virtual void srq_destroyed(uint32_t srqn) = 0;
    // nullptr when there is none.
    virtual const QueuePair* look_at(uint32_t qpn) = 0;
    // Raises an event of a QP or CQ that has not happened, with the state change that belongs to it
    // (INJECT_EVENT).
    virtual CmdStatus inject_event(pib_hca_event type, uint32_t number) = 0;
    virtual void set_knobs(const Knobs& knobs) = 0;
    virtual void visit_qps(const std::function<void(const QueuePair&)>& visitor) = 0;

    // Doorbells; false when the QP does not exist or is another UAR's. A send doorbell works at
    // once, within a budget; the rest is done in run().
    virtual bool send_doorbell(uint32_t uar, uint32_t qpn) = 0;
    virtual bool recv_doorbell(uint32_t uar, uint32_t qpn) = 0;

    // Whether run() has work, which it will be called for.
    virtual bool has_work() const = 0;
    // Does a bounded amount of queued work; true when some is left.
    virtual bool run() = 0;
    // The caller will call run() before it returns to the host, which need not be asked to.
    virtual void run_follows() = 0;
    // Handles timers that are due; the next deadline, or kNever.
    virtual uint64_t timer(uint64_t now_ns) = 0;
    virtual uint64_t next_deadline() const = 0;

    // Forgets every QP without completions: device reset.
    virtual void reset() = 0;
};

}  // namespace pib::hca
