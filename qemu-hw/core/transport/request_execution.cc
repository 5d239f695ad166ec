// SPDX-License-Identifier: GPL-2.0-or-later
// Executes SENDs and RDMA WRITEs.
#include <cstring>

#include "qp/completions.h"
#include "transport/inbound_request.h"
#include "transport/payload_target.h"

namespace pib::hca::responder {

namespace {

// The R_Key of a SEND with Invalidate could not be invalidated (class J). The completion of the
// SEND and the end of the connection tell the receiver; the sender gets no answer.
RequestError invalidate_error(uint32_t rkey) {
    return {.kind = AckKind::kNone,
            .receive = {WcStatus::kRemInvReqErr, refuse(Rule::kRecvInvalidate, rkey)}};
}

// The target of some packets of a burst may be accessible, so the caller delivers them singly.
// If the payload was pulled, the link endpoint delivers the packets again with their payload.
Check cannot_place(QpServices& services, QueuePair& qp, const Request& request,
                   const RequestError& error) {
    return request.burst.is_single() ? cannot_access(services, qp, error) : singly();
}

// Ends a SEND or WRITE at its last packet: counts the MSN and completes the receive WQE if the
// message takes one. Before the last packet, notes that the message is in progress.
void complete_message(QpServices& services, QueuePair& qp, const Request& request) {
    ResponderState& resp = qp.resp;
    const ib::PacketView& packet = request.burst.last();
    if (!request.ends()) {
        resp.message = message_of(packet.opcode().kind);
        return;
    }
    resp.message = InboundMessage::kNone;
    resp.msn = (resp.msn + 1) & 0xffffff;
    if (!packet.opcode().consumes_receive()) {
        return;
    }
    const bool is_write = packet.opcode().kind == ib::OpKind::kRdmaWrite;
    Completion completion{
        .byte_count = resp.received,
        .opcode = is_write ? CompletionOpcode::kRecvRdmaWithImm : CompletionOpcode::kRecv};
    if (const auto imm = packet.imm_dt()) {
        completion.flags = completion_flag::kImm;
        std::memcpy(&completion.imm_data, imm->data.data(), imm->data.size());
    } else if (const auto ieth = packet.ieth()) {
        completion.flags = completion_flag::kInvalidated;
        completion.imm_data = ieth->rkey.value();
    }
    if (packet.bth().solicited_event) {
        completion.flags |= completion_flag::kSolicited;
    }
    complete_recv(services, qp, completion);
}

Check execute_send(QpServices& services, QueuePair& qp, const Request& request) {
    ResponderState& resp = qp.resp;
    if (request.starts()) {
        resp.received = 0;
    }
    const WqeTarget target{.segments = resp.recv.segments(), .offset = resp.received};
    if (!place_payload(services, qp, target, request.burst, request.payload)) {
        return cannot_place(services, qp, request,
                            operational_error(protection_error(services.mpt(), target.segments,
                                                               access::kLocalWrite)));
    }
    if (request.payload.is_offered()) {
        return std::nullopt;
    }
    resp.received += request.bytes();
    if (const auto ieth = request.burst.last().ieth();
        ieth && !services.mpt().invalidate_remote(qp.remote_user(), ieth->rkey.value())) {
        resp.expected_psn = request.burst.psn(request.burst.count() - 1);
        return invalidate_error(ieth->rkey.value());
    }
    complete_message(services, qp, request);
    return std::nullopt;
}

Check execute_write(QpServices& services, QueuePair& qp, const Request& request) {
    ResponderState& resp = qp.resp;
    const auto reth = request.packet.reth();
    if (reth) {
        resp.write_va = reth->va;
        resp.write_rkey = reth->rkey.value();
        resp.write_length = reth->dma_len;
        resp.received = 0;
    }
    const KeyTarget target{
        .user = qp.remote_user(), .key = resp.write_rkey, .addr = resp.write_va + resp.received};
    const bool placed = place_payload(services, qp, target, request.burst, request.payload);
    if (reth && (placed || request.burst.is_single())) {
        services.count(qp, HcaCounter::kRxWriteRequests);
    }
    // The region may have become invalid after the first packet (T27 in docs/fault-cases.md), or
    // its memory may not be RAM.
    if (!placed) {
        return cannot_place(services, qp, request, access_error());
    }
    if (request.payload.is_offered()) {
        return std::nullopt;
    }
    resp.received += request.bytes();
    complete_message(services, qp, request);
    return std::nullopt;
}

}  // namespace

Check execute(QpServices& services, QueuePair& qp, const Request& request) {
    switch (request.packet.opcode().kind) {
        case ib::OpKind::kSend:
            return execute_send(services, qp, request);
        case ib::OpKind::kRdmaWrite:
            return execute_write(services, qp, request);
        default:
            return execute_with_resource(services, qp, request.packet);
    }
}

}  // namespace pib::hca::responder
