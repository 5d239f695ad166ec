// SPDX-License-Identifier: GPL-2.0-or-later
// What comes in. What goes out is in responder_out.cc.
#include "transport/responder.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "transport/payload_target.h"
#include "transport/request_rights.h"

namespace pib::hca {
namespace {

InboundMessage message_of(ib::OpKind kind) {
    switch (kind) {
        case ib::OpKind::kSend:
            return InboundMessage::kSend;
        case ib::OpKind::kRdmaWrite:
            return InboundMessage::kRdmaWrite;
        default:
            return InboundMessage::kNone;
    }
}

// A WRITE's bytes that have not arrived before this packet.
uint32_t write_remaining(const ResponderState& resp) {
    return resp.write_length - resp.received;
}

}  // namespace

void Responder::start(QueuePair& qp) {
    ResponderState& resp = qp.resp;
    resp.expected_psn = ib::Psn(qp.attr.rq_psn);
    resp.msn = 0;
    resp.message = InboundMessage::kNone;
    resp.ack = {};
    resp.nak_sent = false;
    resp.communication_established = false;
    resp.rd.clear();
    resize_rd(qp);
}

void Responder::resize_rd(QueuePair& qp) {
    ResponderState& resp = qp.resp;
    std::vector<RdResource> ring(qp.attr.max_dest_rd_atomic);
    // The newest are those whose responses may still be asked for.
    const auto old_size = static_cast<uint32_t>(resp.rd.size());
    const auto kept = std::min(old_size, static_cast<uint32_t>(ring.size()));
    for (uint32_t i = 0; i < kept; ++i) {
        ring[i] = resp.rd[(resp.rd_head + old_size - kept + i) % old_size];
    }
    resp.rd = std::move(ring);
    resp.rd_head = resp.rd.empty() ? 0 : kept % static_cast<uint32_t>(resp.rd.size());
}

Responder::Refusal Responder::invalid_request() {
    return {.code = static_cast<uint8_t>(ib::NakCode::kInvalidRequest),
            .event = PIB_HCA_EVENT_QP_REQUEST_ERROR};
}

Responder::Refusal Responder::access_error() {
    return {.code = static_cast<uint8_t>(ib::NakCode::kRemoteAccessError),
            .event = PIB_HCA_EVENT_QP_ACCESS_ERROR};
}

Responder::Refusal Responder::operational_error(const WqeError& receive) {
    return {.code = static_cast<uint8_t>(ib::NakCode::kRemoteOperationalError), .receive = receive};
}

Responder::Refusal Responder::of_some() {
    return {.of_some = true};
}

Responder::Refusal Responder::not_ready(const QueuePair& qp) {
    return {.kind = AckKind::kRnrNak, .code = qp.attr.min_rnr_timer};
}

// The access that `packet` asks for has failed. When it was for an absent page the peer tries it
// again later; on UC, where it cannot be told so, that is an error as any other.
Responder::Refusal Responder::cannot_access(QueuePair& qp, const Refusal& error) {
    return qp.is_reliable() && services_.await_page(qp, QpHalf::kResponder) ? not_ready(qp) : error;
}

// The R_Key of a SEND with Invalidate could not be invalidated: told to the receiver alone, by the
// completion of the SEND and the end of the connection (class J).
Responder::Refusal Responder::invalidate_error() {
    return {.kind = AckKind::kNone, .receive = {PIB_HCA_WC_REM_INV_REQ_ERR, VendorError::kMemory}};
}

// The first packet tells a QP that still waits for it (IBA 11.6.3.1).
void Responder::established(QueuePair& qp) {
    if (qp.state == PIB_HCA_QPS_RTR && !qp.resp.communication_established) {
        qp.resp.communication_established = true;
        services_.event(PIB_HCA_EVENT_COMM_ESTABLISHED, qp);
    }
}

// Several packets are taken as one: what is checked of the first holds for all, and lengths are
// those of all. Where that does not say enough, they come singly.
uint32_t Responder::request_in(QueuePair& qp, const ib::Burst& burst, ib::Placement& payload) {
    ResponderState& resp = qp.resp;
    const Request request{burst, payload};
    established(qp);
    const int32_t distance = request.packet.bth().psn.distance_from(resp.expected_psn);
    if (distance != 0) {
        if (!burst.is_single()) {
            return 0;
        }
        out_of_order(qp, request.packet, distance);
        return 1;
    }
    static constexpr CheckStep kSteps[] = {
        &Responder::check_sequence,  &Responder::check_operation, &Responder::check_xrc_srq,
        &Responder::check_resources, &Responder::check_length,    &Responder::check_rkey,
        &Responder::execute,
    };
    resp.nak_sent = false;
    for (const CheckStep& step : kSteps) {
        if (const Check refusal = (this->*step)(qp, request)) [[unlikely]] {
            if (refusal->of_some) {
                return 0;
            }
            refuse(qp, *refusal);
            // The last one has executed all; the others are about the first packet.
            return &step == std::end(kSteps) - 1 ? burst.count() : 1;
        }
    }
    // A QP whose CQ has failed is in Error by now: an error of its own.
    if (qp.can_receive() && !payload.is_offered()) {
        accepted(qp, burst);
    }
    return burst.count();
}

void Responder::out_of_order(QueuePair& qp, const ib::PacketView& packet, int32_t distance) {
    if (distance < 0) {
        duplicate_in(qp, packet);
        return;
    }
    // Something is missing; said once, then silence until it comes (IBA 9.7.5.1.2, C9-111).
    services_.count(qp, PIB_HCA_COUNTER_OUT_OF_SEQUENCE);
    if (!qp.resp.nak_sent) {
        refuse(qp, {.code = static_cast<uint8_t>(ib::NakCode::kPsnSequenceError)});
    }
}

// A message's packets follow each other (IBA 9.7.4.1.2, table 56).
Responder::Check Responder::check_sequence(QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const bool in_message = qp.resp.message != InboundMessage::kNone;
    if (request.starts() ? in_message : qp.resp.message != message_of(packet.opcode().kind)) {
        return invalid_request();
    }
    return std::nullopt;
}

// Operations that this responder has and this QP allows (IBA 9.7.4.1.3).
Responder::Check Responder::check_operation(QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const ib::OpKind kind = packet.opcode().kind;
    const bool known =
        message_of(kind) != InboundMessage::kNone || packet.opcode().takes_rd_resource();
    if (!known) {
        return invalid_request();
    }
    if ((access_of(packet) & ~qp.attr.access_flags) != 0) {
        return invalid_request();
    }
    return check_rd_operation(packet);
}

// The SRQ that an XRCETH names is of the QP's domain and stays the same in a message; its PD is the
// one of the R_Keys (annex A14).
Responder::Check Responder::check_xrc_srq(QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const auto xrceth = packet.xrceth();
    if (!xrceth) {
        return std::nullopt;
    }
    ResponderState& resp = qp.resp;
    const SharedReceiveQueue* srq = services_.parts().srqs.find(xrceth->xrc_srq);
    if (srq == nullptr || srq->xrcd != qp.xrcd ||
        (!request.starts() && resp.xrc_srqn != xrceth->xrc_srq)) {
        return invalid_request();
    }
    resp.xrc_srqn = xrceth->xrc_srq;
    resp.xrc_pd = srq->pd;
    return std::nullopt;
}

// A receive WQE, or a place for a READ or atomic (IBA 9.7.4.1.4).
Responder::Check Responder::check_resources(QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    if (packet.opcode().takes_rd_resource()) {
        const auto& rd = qp.resp.rd;
        const bool room =
            !rd.empty() && !(rd[qp.resp.rd_head].pending && !rd[qp.resp.rd_head].replay);
        return room ? Check() : invalid_request();
    }
    const bool is_send = packet.opcode().kind == ib::OpKind::kSend;
    const bool takes_receive =
        is_send ? request.starts()
                : request.burst.last().opcode().consumes_receive() && request.ends();
    // A UC message that was given up has left its WQE to the next.
    if (!takes_receive || qp.resp.recv.valid) {
        return std::nullopt;
    }
    if (!qp.has_receive_queue()) {
        return invalid_request();
    }
    // The last packet of a WRITE takes it: without one, those before are executed.
    if (!request.burst.is_single() && !is_send &&
        services_.peek_recv(qp) != QpServices::Fetch::kOk) {
        return of_some();
    }
    switch (services_.fetch_recv(qp)) {
        case QpServices::Fetch::kOk:
            return std::nullopt;
        case QpServices::Fetch::kNone:
            return not_ready(qp);
        default:
            break;
    }
    return operational_error({PIB_HCA_WC_WR_FLUSH_ERR, VendorError::kNone});
}

// Packet and message lengths (IBA 9.7.4.1.6).
Responder::Check Responder::check_length(QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const ResponderState& resp = qp.resp;
    const uint32_t bytes = request.bytes();
    const bool single = request.burst.is_single();
    const uint32_t mtu = qp.path_mtu_bytes();
    if (single ? !packet.opcode().admits_payload(bytes, mtu) : request.burst.size().mtu != mtu) {
        return single ? invalid_request() : of_some();
    }
    if (packet.opcode().kind == ib::OpKind::kSend) {
        const uint32_t before = request.starts() ? 0 : resp.received;
        if (bytes > resp.recv.data.length - before || before + bytes > Limits::kMaxMessage) {
            if (!single) {
                return of_some();
            }
            services_.count(qp, PIB_HCA_COUNTER_RESP_LOCAL_LENGTH_ERROR);
            Refusal refusal = invalid_request();
            refusal.receive = {PIB_HCA_WC_LOC_LEN_ERR, VendorError::kLength};
            return refusal;
        }
        return std::nullopt;
    }
    const auto reth = packet.reth();
    if (reth && reth->dma_len > Limits::kMaxMessage) {
        return invalid_request();
    }
    if (packet.opcode().kind == ib::OpKind::kAtomicWrite) {
        return bytes == 8 && reth->dma_len == 8 ? Check() : invalid_request();
    }
    if (packet.opcode().kind != ib::OpKind::kRdmaWrite) {
        return std::nullopt;
    }
    // A WRITE brings exactly the bytes its RETH announced.
    const uint32_t remaining = reth ? reth->dma_len : write_remaining(resp);
    const bool fits = request.ends() ? bytes == remaining : bytes < remaining;
    return fits ? Check() : single ? invalid_request() : of_some();
}

// The whole range that a RETH or AtomicETH names (IBA 9.7.4.1.5).
Responder::Check Responder::check_rkey(QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const auto range = named_range(packet);
    if (!range) {
        return std::nullopt;
    }
    const auto feth = packet.feth();
    const bool allowed = feth ? services_.mpt().may_flush(qp.remote_user(), *range,
                                                          feth->selectivity == ib::Feth::kRegion)
                              : services_.mpt().check(qp.remote_user(), *range);
    return allowed ? Check() : access_error();
}

Responder::Check Responder::execute(QueuePair& qp, const Request& request) {
    switch (request.packet.opcode().kind) {
        case ib::OpKind::kSend:
            return execute_send(qp, request);
        case ib::OpKind::kRdmaWrite:
            return execute_write(qp, request);
        default:
            return execute_rd(qp, request.packet);
    }
}

// Of several packets some may have a place, and one that was pulled has none here any more.
Responder::Check Responder::cannot_place(QueuePair& qp, const Request& request,
                                         const Refusal& error) {
    return request.burst.is_single() ? cannot_access(qp, error) : of_some();
}

Responder::Check Responder::execute_send(QueuePair& qp, const Request& request) {
    ResponderState& resp = qp.resp;
    if (request.starts()) {
        resp.received = 0;
    }
    const WqeTarget target{
        .segments = {.wqe = resp.recv.bytes, .data = resp.recv.data, .user = resp.recv.user},
        .offset = resp.received};
    if (!place_payload(services_, qp, target, request.burst, request.payload)) {
        return cannot_place(qp, request,
                            operational_error({PIB_HCA_WC_LOC_PROT_ERR, VendorError::kLocalKey}));
    }
    if (request.payload.is_offered()) {
        return std::nullopt;
    }
    resp.received += request.bytes();
    if (const auto ieth = request.burst.last().ieth();
        ieth && !services_.mpt().invalidate_remote(qp.remote_user(), ieth->rkey.value())) {
        resp.expected_psn = request.burst.psn(request.burst.count() - 1);
        return invalidate_error();
    }
    complete_message(qp, request);
    return std::nullopt;
}

Responder::Check Responder::execute_write(QueuePair& qp, const Request& request) {
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
    const bool placed = place_payload(services_, qp, target, request.burst, request.payload);
    if (reth && (placed || request.burst.is_single())) {
        services_.count(qp, PIB_HCA_COUNTER_RX_WRITE_REQUESTS);
    }
    // The region may have gone since the first packet, or its memory may be no RAM (T27).
    if (!placed) {
        return cannot_place(qp, request, access_error());
    }
    if (request.payload.is_offered()) {
        return std::nullopt;
    }
    resp.received += request.bytes();
    complete_message(qp, request);
    return std::nullopt;
}

// The last packet of a SEND or WRITE: a receive completion if the message takes one, and the MSN.
void Responder::complete_message(QueuePair& qp, const Request& request) {
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
    ReceiveReport report;
    if (packet.opcode().kind == ib::OpKind::kRdmaWrite) {
        report.opcode = PIB_HCA_CQE_RECV_RDMA_WITH_IMM;
    }
    report.solicited = packet.bth().solicited_event;
    report.fields.byte_count = resp.received;
    if (const auto imm = packet.imm_dt()) {
        report.fields.flags = PIB_HCA_CQE_FLAG_IMM;
        std::memcpy(&report.fields.imm_data, imm->data.data(), imm->data.size());
    } else if (const auto ieth = packet.ieth()) {
        report.fields.flags = PIB_HCA_CQE_FLAG_INVALIDATED;
        report.fields.imm_data = ieth->rkey.value();
    }
    services_.complete_recv(qp, report);
}

void Responder::accepted(QueuePair& qp, const ib::Burst& burst) {
    ResponderState& resp = qp.resp;
    if (burst.first().opcode().takes_rd_resource()) {
        const auto newest = (resp.rd_head + resp.rd.size() - 1) % resp.rd.size();
        resp.expected_psn = resp.expected_psn + resp.rd[newest].packets;
        // Its response acknowledges everything before it (IBA 9.7.5.1.1).
        resp.ack = {};
        services_.schedule(qp);
        return;
    }
    resp.expected_psn = resp.expected_psn + burst.count();
    if (burst.last().bth().ack_req || resp.ack.kind != AckKind::kNone) {
        // A NAK that was owed and not sent is overtaken by the packet that it missed.
        resp.ack = {};
        owe(qp, {.kind = AckKind::kAck});
    }
}

void Responder::refuse(QueuePair& qp, const Refusal& refusal) {
    ResponderState& resp = qp.resp;
    resp.nak_sent = true;
    const bool sequence = refusal.kind == AckKind::kNak &&
                          refusal.code == static_cast<uint8_t>(ib::NakCode::kPsnSequenceError);
    if (sequence || refusal.kind == AckKind::kRnrNak) {
        if (!sequence) {
            services_.count(qp, PIB_HCA_COUNTER_RNR_NAK_SENT);
        }
        owe(qp, {.kind = refusal.kind, .code = refusal.code, .psn = resp.expected_psn});
        return;
    }
    if (refusal.code == static_cast<uint8_t>(ib::NakCode::kRemoteAccessError)) {
        services_.count(qp, PIB_HCA_COUNTER_RESP_REMOTE_ACCESS_ERRORS);
    }
    // The rest ends the connection (IBA 9.9.3.1: classes A and C). The receive WQE that the message
    // had taken tells why, if it is what failed; else it is flushed with the others.
    if (resp.recv.valid && refusal.receive.status != PIB_HCA_WC_WR_FLUSH_ERR) {
        ReceiveReport report;
        report.error = refusal.receive;
        services_.complete_recv(qp, report);
    }
    if (refusal.event != PIB_HCA_EVENT_COMPLETION) {
        services_.event(refusal.event, qp);
    }
    services_.enter_error_after_nak(qp);
    if (refusal.kind != AckKind::kNone) {
        owe(qp, {.kind = refusal.kind, .code = refusal.code, .psn = resp.expected_psn});
    }
}

// A NAK stands until it is sent: an ACK that becomes due meanwhile says nothing that it does not
// say.
void Responder::owe(QueuePair& qp, const PendingAck& ack) {
    if (ack.kind != AckKind::kAck || qp.resp.ack.kind == AckKind::kNone) {
        qp.resp.ack = ack;
    }
    services_.schedule(qp);
}

// A request that was executed before (IBA 9.7.5.1.4, C9-105).
void Responder::duplicate_in(QueuePair& qp, const ib::PacketView& packet) {
    services_.count(qp, PIB_HCA_COUNTER_DUPLICATE_REQUEST);
    if (packet.opcode().kind == ib::OpKind::kRdmaReadRequest) {
        duplicate_read(qp, packet);
    } else if (packet.opcode().takes_rd_resource()) {
        duplicate_other(qp, packet);
    } else {
        owe(qp, {.kind = AckKind::kAck});
    }
}

}  // namespace pib::hca
