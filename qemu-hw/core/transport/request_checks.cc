// SPDX-License-Identifier: GPL-2.0-or-later
// The checks of a request, in the order of the specification (IBA 9.7.4.1).
#include <algorithm>

#include "qp/page_waits.h"
#include "qp/receive_queue.h"
#include "transport/inbound_request.h"
#include "transport/request_rights.h"

namespace pib::hca::responder {

RequestError invalid_request() {
    return {.code = static_cast<uint8_t>(ib::NakCode::kInvalidRequest),
            .event = Event::kQpRequestError};
}

RequestError access_error() {
    return {.code = static_cast<uint8_t>(ib::NakCode::kRemoteAccessError),
            .event = Event::kQpAccessError};
}

RequestError operational_error(const WqeError& receive) {
    return {.code = static_cast<uint8_t>(ib::NakCode::kRemoteOperationalError), .receive = receive};
}

RequestError singly() {
    return {.singly = true};
}

RequestError not_ready(const QueuePair& qp) {
    return {.kind = AckKind::kRnrNak, .code = qp.attr.min_rnr_timer};
}

RequestError cannot_access(QpServices& services, QueuePair& qp, const RequestError& error) {
    return qp.is_reliable() && await_page(services, qp, QpHalf::kResponder) ? not_ready(qp) : error;
}

void established(QpServices& services, QueuePair& qp) {
    if (qp.state == QpState::kRtr && !qp.resp.communication_established) {
        qp.resp.communication_established = true;
        services.event(Event::kCommEstablished, qp);
    }
}

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

namespace {

// Bytes of the WRITE in progress that have not arrived yet.
uint32_t write_remaining(const ResponderState& resp) {
    return resp.write_length - resp.received;
}

constexpr uint32_t kWordBytes = sizeof(uint64_t);

// Checks the alignment of atomics and ATOMIC WRITE, and the fields of FLUSH.
Check check_operands(const ib::PacketView& packet) {
    if (packet.opcode().is_atomic() && atomic_request(packet).eth.va % kWordBytes != 0) {
        return invalid_request();  // C9-158
    }
    if (packet.opcode().kind == ib::OpKind::kAtomicWrite && packet.reth()->va % kWordBytes != 0) {
        return invalid_request();
    }
    if (const auto feth = packet.feth()) {
        const bool known =
            feth->selectivity <= ib::Feth::kRegion && feth->placement != 0 &&
            feth->placement <= (ib::Feth::kGlobalVisibility | ib::Feth::kPersistence);
        return known ? Check() : invalid_request();
    }
    return std::nullopt;
}

}  // namespace

// The packets of a message must follow each other (IBA 9.7.4.1.2, table 56).
Check check_sequence(QpServices& /*services*/, QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const bool in_message = qp.resp.message != InboundMessage::kNone;
    if (request.starts() ? in_message : qp.resp.message != message_of(packet.opcode().kind)) {
        return invalid_request();
    }
    return std::nullopt;
}

// The responder must support the operation, and the QP must allow it (IBA 9.7.4.1.3).
Check check_operation(QpServices& /*services*/, QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const ib::OpKind kind = packet.opcode().kind;
    const bool known =
        message_of(kind) != InboundMessage::kNone || packet.opcode().takes_responder_resource();
    if (!known) {
        return invalid_request();
    }
    if ((access_of(packet) & ~qp.attr.access_flags) != 0) {
        return invalid_request();
    }
    return check_operands(packet);
}

// The SRQ that an XRCETH names must belong to the QP's XRC domain and stay the same in a message.
// R_Keys are checked against the SRQ's PD, xrc_pd (annex A14).
Check check_xrc_srq(QpServices& services, QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const auto xrceth = packet.xrceth();
    if (!xrceth) {
        return std::nullopt;
    }
    ResponderState& resp = qp.resp;
    const SharedReceiveQueue* srq = services.parts().srqs.find(xrceth->xrc_srq);
    if (srq == nullptr || srq->xrcd != qp.xrcd ||
        (!request.starts() && resp.xrc_srqn != xrceth->xrc_srq)) {
        return invalid_request();
    }
    resp.xrc_srqn = xrceth->xrc_srq;
    resp.xrc_pd = srq->pd;
    return std::nullopt;
}

// Whether max_dest_rd_atomic was lowered while responses were owed, and at least as many responses
// as it permits now are still owed. The ring has not shrunk yet, so it would have room for a
// request that is not permitted.
bool awaits_smaller_ring(const QueuePair& qp) {
    const auto& resources = qp.resp.resources;
    const auto is_owed = [](const ResponderResource& resource) {
        return resource.pending && !resource.replay;
    };
    return resources.size() > qp.attr.max_dest_rd_atomic &&
           std::ranges::count_if(resources, is_owed) >= qp.attr.max_dest_rd_atomic;
}

// The request must get the receive WQE or the responder resource that it needs (IBA 9.7.4.1.4).
Check check_resources(QpServices& services, QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    if (packet.opcode().takes_responder_resource()) {
        if (awaits_smaller_ring(qp)) [[unlikely]] {
            return invalid_request();
        }
        const auto& resources = qp.resp.resources;
        const uint32_t head = qp.resp.resource_head;
        const bool room =
            !resources.empty() && !(resources[head].pending && !resources[head].replay);
        return room ? Check() : invalid_request();
    }
    const bool is_send = packet.opcode().kind == ib::OpKind::kSend;
    const bool takes_receive =
        is_send ? request.starts()
                : request.burst.last().opcode().consumes_receive() && request.ends();
    // The message in progress has lost its receive WQE, because its SRQ was destroyed.
    if (is_send && !takes_receive && !qp.resp.recv.valid) {
        return invalid_request();
    }
    // A UC message that was dropped has left its receive WQE to the next message.
    if (!takes_receive || qp.resp.recv.valid) {
        return std::nullopt;
    }
    if (!qp.has_receive_queue()) {
        return invalid_request();
    }
    // The last packet of a WRITE takes the receive WQE. If there is none, the packets before the
    // last one are executed.
    if (!request.burst.is_single() && !is_send && peek_recv(services, qp) != Fetch::kOk) {
        return singly();
    }
    switch (fetch_recv(services, qp)) {
        case Fetch::kOk:
            return std::nullopt;
        case Fetch::kNone:
            return not_ready(qp);
        default:
            break;
    }
    return operational_error({WcStatus::kWrFlushErr});
}

// The lengths of packet and message must be valid (IBA 9.7.4.1.6).
Check check_length(QpServices& services, QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const ResponderState& resp = qp.resp;
    const uint32_t bytes = request.bytes();
    const bool single = request.burst.is_single();
    const uint32_t mtu = qp.path_mtu_bytes();
    if (single ? !packet.opcode().admits_payload(bytes, mtu) : request.burst.size().mtu != mtu) {
        return single ? invalid_request() : singly();
    }
    if (packet.opcode().kind == ib::OpKind::kSend) {
        const uint32_t before = request.starts() ? 0 : resp.received;
        if (bytes > resp.recv.data.length - before || before + bytes > Limits::kMaxMessage) {
            if (!single) {
                return singly();
            }
            services.count(qp, HcaCounter::kRespLocalLengthError);
            RequestError error = invalid_request();
            error.receive = {WcStatus::kLocLenErr, refuse(Rule::kRecvShort, resp.recv.data.length,
                                                          uint64_t{before} + bytes)};
            return error;
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
    // The payload of a WRITE must have the length that its RETH has announced.
    const uint32_t remaining = reth ? reth->dma_len : write_remaining(resp);
    const bool fits = request.ends() ? bytes == remaining : bytes < remaining;
    return fits ? Check() : single ? invalid_request() : singly();
}

// The R_Key must allow the whole range that a RETH or AtomicETH names (IBA 9.7.4.1.5).
Check check_rkey(QpServices& services, QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const auto range = named_range(packet);
    if (!range) {
        return std::nullopt;
    }
    const auto feth = packet.feth();
    const bool allowed = feth ? services.mpt().may_flush(qp.remote_user(), *range,
                                                         feth->selectivity == ib::Feth::kRegion)
                              : services.mpt().check(qp.remote_user(), *range);
    return allowed ? Check() : access_error();
}

}  // namespace pib::hca::responder
