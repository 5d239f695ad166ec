// SPDX-License-Identifier: GPL-2.0-or-later
// The verbs of queue pairs and multicast groups (IBA vol. 1, 11.2.4, 11.3). All checks of a verb
// come before its first change.
#pragma once

#include <cstdint>

#include "base/config.h"
#include "base/verdict.h"
#include "qp/qp_create.h"
#include "qp/qp_services.h"
#include "qp/usage_warnings.h"
#include "transport/mcast_table.h"

namespace pib::hca {

class QpVerbs {
  public:
    QpVerbs(QpServices& services, McastTable& mcast)
        : services_(services), mcast_(mcast), warnings_(services.host()) {}

    // The caller has checked length and reserved fields of the structures, and that PD, UAR and XRC
    // domain exist. A QP counts as a user of its CQs and its SRQ.
    CmdResult<uint32_t> create(const QpRequest& in);
    Verdict modify(uint32_t qpn, const QpAttributes& in);
    CmdResult<QpAttributes> query(uint32_t qpn);
    Verdict destroy(uint32_t qpn);
    Verdict attach_mcast(uint32_t qpn, const McastGroup& in);
    Verdict detach_mcast(uint32_t qpn, const McastGroup& in);

    PageFault next_page_fault() { return services_.page_faults().take(); }
    Verdict resume_page_fault(uint32_t qpn, QpHalf half, bool refused);
    // Raises an event of a QP or CQ that has not happened, with the state change that belongs to it
    // (INJECT_EVENT).
    Verdict inject_event(Event type, uint32_t number);

    // nullptr: no QP has this number.
    const QueuePair* look_at(uint32_t qpn) { return services_.qps().find(qpn); }
    template <typename F>
    void for_each(F&& f) {
        services_.qps().for_each([&](const QueuePair& qp) { f(qp); });
    }
    // Number of QPs for which `matches` is true.
    template <typename F>
    uint32_t count_if(F&& matches) {
        return services_.qps().count_if([&](const QueuePair& qp) {
            services_.scheduler().add_extra(kLookCost);
            return matches(qp);
        });
    }
    // Charges a command for a search through this number of other objects.
    void note_search(uint32_t objects) {
        services_.scheduler().add_extra(uint64_t{objects} * kLookCost);
    }
    void srq_destroyed(uint32_t srqn);
    void set_knobs(const TestKnobs& knobs);
    void reset();

  private:
    Verdict check_queues(const QpRequest& in);
    void use_queues(const QueuePair& qp, bool use);
    uint32_t room_of_cqs(const QueuePair& qp);
    void stop(QueuePair& qp);
    void enter_state(QueuePair& qp, QpState to, uint32_t attr_mask);
    Verdict inject_cq_error(uint32_t cqn);

    QpServices& services_;
    McastTable& mcast_;
    UsageWarnings warnings_;
    uint64_t pages_left_ = Limits::kQpPages;
};

}  // namespace pib::hca
