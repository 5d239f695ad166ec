// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/responder.h"

#include <algorithm>
#include <iterator>

#include "qp/completions.h"
#include "qp/error_states.h"
#include "transport/inbound_request.h"

namespace pib::hca::responder {

namespace {

void refuse(QpServices& services, QueuePair& qp, const RequestError& error) {
    ResponderState& resp = qp.resp;
    resp.nak_sent = true;
    const bool sequence = error.kind == AckKind::kNak &&
                          error.code == static_cast<uint8_t>(ib::NakCode::kPsnSequenceError);
    if (sequence || error.kind == AckKind::kRnrNak) {
        if (!sequence) {
            services.count(qp, HcaCounter::kRnrNakSent);
        }
        owe(services, qp, {.kind = error.kind, .code = error.code, .psn = resp.expected_psn});
        return;
    }
    if (error.code == static_cast<uint8_t>(ib::NakCode::kRemoteAccessError)) {
        services.count(qp, HcaCounter::kRespRemoteAccessErrors);
    }
    // Other errors end the connection (IBA 9.9.3.1: classes A and C). If the message's receive WQE
    // is the reason, the WQE completes with the error; else it is flushed with the other WQEs.
    if (resp.recv.valid && error.receive.status != WcStatus::kWrFlushErr) {
        fail_recv(services, qp, error.receive);
    }
    if (error.event != Event::kCompletion) {
        services.event(error.event, qp);
    }
    enter_error_after_nak(services, qp);
    if (error.kind != AckKind::kNone) {
        owe(services, qp, {.kind = error.kind, .code = error.code, .psn = resp.expected_psn});
    }
}

void accepted(QpServices& services, QueuePair& qp, const ib::Burst& burst) {
    ResponderState& resp = qp.resp;
    if (burst.first().opcode().takes_responder_resource()) {
        const auto newest =
            (resp.resource_head + resp.resources.size() - 1) % resp.resources.size();
        resp.expected_psn = resp.expected_psn + resp.resources[newest].packets;
        // The response to this request acknowledges all requests before it (IBA 9.7.5.1.1).
        resp.ack = {};
        services.schedule(qp);
        return;
    }
    resp.expected_psn = resp.expected_psn + burst.count();
    if (burst.last().bth().ack_req || resp.ack.kind != AckKind::kNone) {
        // A NAK that has not been sent yet is out of date: its packet has arrived.
        resp.ack = {};
        owe(services, qp, {.kind = AckKind::kAck});
    }
}

// Answers a request that was executed before (IBA 9.7.5.1.4, C9-105).
void duplicate_in(QpServices& services, QueuePair& qp, const ib::PacketView& packet) {
    services.count(qp, HcaCounter::kDuplicateRequest);
    if (packet.opcode().takes_responder_resource()) {
        duplicate_with_resource(services, qp, packet);
    } else {
        owe(services, qp, {.kind = AckKind::kAck});
    }
}

void out_of_order(QpServices& services, QueuePair& qp, const ib::PacketView& packet,
                  int32_t distance) {
    if (distance < 0) {
        duplicate_in(services, qp, packet);
        return;
    }
    // A packet is missing: sends one NAK, and no other until the packet arrives (IBA 9.7.5.1.2,
    // C9-111).
    services.count(qp, HcaCounter::kOutOfSequence);
    if (!qp.resp.nak_sent) {
        refuse(services, qp, {.code = static_cast<uint8_t>(ib::NakCode::kPsnSequenceError)});
    }
}

}  // namespace

void start(QueuePair& qp) {
    ResponderState& resp = qp.resp;
    resp.expected_psn = ib::Psn(qp.attr.rq_psn);
    resp.msn = 0;
    resp.message = InboundMessage::kNone;
    resp.ack = {};
    resp.nak_sent = false;
    resp.communication_established = false;
    resp.resources.clear();
    resize_resources(qp);
}

void resize_resources(QueuePair& qp) {
    ResponderState& resp = qp.resp;
    // Keeps the newest resources, because the peer may ask for their responses again. Also keeps
    // the oldest resource whose response has not been sent, and all after it.
    const auto old_size = static_cast<uint32_t>(resp.resources.size());
    uint32_t owed = 0;
    for (uint32_t back = 1; back <= old_size; ++back) {
        const uint32_t index = (resp.resource_head + old_size - back) % old_size;
        owed = resp.resources[index].pending ? back : owed;
    }
    std::vector<ResponderResource> ring(std::max<uint32_t>(qp.attr.max_dest_rd_atomic, owed));
    const auto kept = std::min(old_size, static_cast<uint32_t>(ring.size()));
    for (uint32_t i = 0; i < kept; ++i) {
        ring[i] = resp.resources[(resp.resource_head + old_size - kept + i) % old_size];
    }
    resp.resources = std::move(ring);
    resp.resource_head =
        resp.resources.empty() ? 0 : kept % static_cast<uint32_t>(resp.resources.size());
}

// Takes a burst as one request: the checks of the first packet hold for all packets, and lengths
// are those of the burst. If a check needs single packets, the caller delivers them singly.
uint32_t request_in(QpServices& services, QueuePair& qp, const ib::Burst& burst,
                    ib::Placement& payload) {
    ResponderState& resp = qp.resp;
    const Request request{burst, payload};
    established(services, qp);
    const int32_t distance = request.packet.bth().psn.distance_from(resp.expected_psn);
    if (distance != 0) {
        if (!burst.is_single()) {
            return 0;
        }
        out_of_order(services, qp, request.packet, distance);
        return 1;
    }
    static constexpr CheckStep kSteps[] = {
        check_sequence, check_operation, check_xrc_srq, check_resources,
        check_length,   check_rkey,      execute,
    };
    resp.nak_sent = false;
    for (const CheckStep& step : kSteps) {
        if (const Check error = step(services, qp, request)) [[unlikely]] {
            if (error->singly) {
                return 0;
            }
            if (error->event == Event::kQpAccessError) {
                explain_refusal(services, qp, request);
            }
            refuse(services, qp, *error);
            // The last step, execute(), has handled all packets; other steps refuse the first one.
            return &step == std::end(kSteps) - 1 ? burst.count() : 1;
        }
    }
    // The completion may have overrun its CQ: then the QP is in Error and sends no answer.
    if (qp.can_receive() && !payload.is_offered()) {
        accepted(services, qp, burst);
    }
    return burst.count();
}

}  // namespace pib::hca::responder
