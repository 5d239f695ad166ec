// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a UC QP (IBA vol. 1, 9.8.2.2). It makes the checks of RC, drops a packet that
// fails them together with the rest of its message, and sends no answers.
#include <iterator>

#include "qp/completions.h"
#include "qp/error_states.h"
#include "transport/inbound_request.h"
#include "transport/responder.h"

namespace pib::hca::responder {

namespace {

// Whether the responder refuses the request because of an error of its own receive WQE.
bool is_local(const RequestError& error) {
    return error.kind == AckKind::kNak &&
           error.code == static_cast<uint8_t>(ib::NakCode::kRemoteOperationalError);
}

// IBA table 59. Class D, an error of the peer: the message's receive WQE, if it has one, stays for
// the next message. Class E, an error of the WQE: the WQE completes in error, unless
// check_resources() has completed it, and the QP enters Error.
void drop_message(QpServices& services, QueuePair& qp, const RequestError& error) {
    qp.resp.message = InboundMessage::kNone;
    services.count(qp, HcaCounter::kRxDropped);
    if (!is_local(error)) {
        return;
    }
    if (qp.resp.recv.valid) {
        fail_recv(services, qp, error.receive);
    }
    enter_error(services, qp);
}

}  // namespace

uint32_t unreliable_in(QpServices& services, QueuePair& qp, const ib::Burst& burst,
                       ib::Placement& payload) {
    ResponderState& resp = qp.resp;
    const Request request{burst, payload};
    established(services, qp);
    // A gap in the PSNs ends the message in progress; the responder takes the next message that
    // begins (IBA 9.8.2.2.1). The expected PSN continues after this packet.
    if (request.packet.bth().psn != resp.expected_psn) {
        if (!burst.is_single()) {
            return 0;
        }
        services.count(qp, HcaCounter::kOutOfSequence);
        resp.message = InboundMessage::kNone;
    }
    if (request.starts()) {
        resp.message = InboundMessage::kNone;  // ends a message whose last packets are missing
    }
    static constexpr CheckStep kSteps[] = {
        check_sequence, check_operation, check_resources, check_length, check_rkey, execute,
    };
    for (const CheckStep& step : kSteps) {
        const uint32_t refused = &step == std::end(kSteps) - 1 ? burst.count() : 1;
        const Check error = step(services, qp, request);
        if (error && error->singly) {
            return 0;
        }
        if (error || !qp.can_receive()) {  // !can_receive(): the QP's CQ or queue has failed
            resp.expected_psn = burst.psn(refused);
            if (error) {
                drop_message(services, qp, *error);
            }
            return refused;
        }
    }
    if (!payload.is_offered()) {
        resp.expected_psn = burst.psn(burst.count());
    }
    return burst.count();
}

}  // namespace pib::hca::responder
