// SPDX-License-Identifier: GPL-2.0-or-later
// Sends the responder's answers in PSN order, and an ACK only after the responses that it implies.
#include <algorithm>

#include "qp/error_states.h"
#include "qp/page_waits.h"
#include "qp/qp_header.h"
#include "transport/inbound_request.h"
#include "transport/offer_out.h"
#include "transport/responder.h"

namespace pib::hca::responder {

namespace {

namespace op = ib::opcode;

uint8_t read_response_opcode(const ResponderResource& resource, uint32_t packet) {
    const bool first = packet == resource.first_packet;
    const bool last = packet + 1 == resource.end_packet;
    if (first) {
        return last ? op::kRdmaReadResponseOnly : op::kRdmaReadResponseFirst;
    }
    return last ? op::kRdmaReadResponseLast : op::kRdmaReadResponseMiddle;
}

// A QP with a receive queue of its own tells the peer how many WQEs wait (IBA 9.7.7.2, C9-147.2.1).
// A QP with an SRQ gives no credits: an RNR NAK tells its peer that the SRQ is empty.
ib::Aeth ack_of(QpServices& services, QueuePair& qp, uint32_t msn) {
    const bool counts =
        qp.rq.present && qp.shared_queue() == 0 && refresh_rq(services, qp) == QueueRead::kOk;
    return ib::Aeth::ack(counts ? ib::credit_code(qp.rq.ready()) : ib::Aeth::kInvalidCreditCount,
                         msn);
}

// The range of memory for the next `packets` packets of a READ response.
KeyedRange response_range(const ResponderResource& resource, uint32_t mtu, uint32_t packets) {
    const uint64_t offset = uint64_t{resource.next_packet} * mtu;
    return {.key = resource.rkey,
            .addr = resource.va + offset,
            .length = std::min(uint64_t{packets} * mtu, resource.end_bytes - offset),
            .access = access::kRemoteRead};
}

ib::PacketHeaders read_response_headers(QpServices& services, QueuePair& qp,
                                        const ResponderResource& resource, uint32_t packet) {
    ib::PacketHeaders headers =
        connected_headers(qp, services.port_of(qp), read_response_opcode(resource, packet),
                          resource.psn_first + packet);
    headers.aeth = ack_of(services, qp, resource.msn);
    return headers;
}

// Whether the response has enough MIDDLE packets left to offer. A repeated response is sent with
// its payload.
bool can_offer(QpServices& services, const QueuePair& qp, const ResponderResource& resource,
               const Budget& budget) {
    if (services.peer_copy() == nullptr || budget.is_arbitrated() ||
        resource.kind != ResponseKind::kRead || resource.replay ||
        !services.peer_copy()->attached(qp.port())) {
        return false;
    }
    const uint32_t next = std::max(resource.next_packet, resource.first_packet + 1);
    const uint64_t middles = resource.end_packet - std::min(resource.end_packet, next + 1);
    return middles * qp.path_mtu_bytes() >= services.peer_copy()->min_bytes();
}

uint32_t offer_response(QpServices& services, QueuePair& qp, const ResponderResource& resource) {
    const uint32_t mtu = qp.path_mtu_bytes();
    const uint32_t next = resource.next_packet;
    if (next == resource.first_packet) {
        return 0;
    }
    const uint32_t wanted = resource.end_packet - 1 - next;
    const BurstOut out{.first = read_response_headers(services, qp, resource, next),
                       .packets = wanted,
                       .mtu = mtu,
                       .payload_bytes = wanted * mtu};
    return send_offer(
        services, qp, out,
        [&](uint32_t n) { return read_response_headers(services, qp, resource, next + n - 1); },
        [&](uint32_t bytes, SgList& sg_list) {
            return services.mpt().locate(resource.user, response_range(resource, mtu, bytes / mtu),
                                         sg_list);
        },
        {.response = true});
}

Sent read_response_sent(ResponderResource& resource, uint32_t packets) {
    resource.next_packet += packets;
    resource.pending = resource.next_packet != resource.end_packet;
    resource.replay = resource.replay && resource.pending;
    return Sent::kYes;
}

// Sends as many packets of the response as the budget and the port allow now.
Sent send_read_response(QpServices& services, QueuePair& qp, ResponderResource& resource,
                        Budget& budget) {
    const uint32_t mtu = qp.path_mtu_bytes();
    const uint32_t next = resource.next_packet;
    const bool offers = can_offer(services, qp, resource, budget);  // rarely true
    uint32_t packets = offers ? offer_response(services, qp, resource) : 0;
    if (packets != 0) {
        budget.charge(0);
        return read_response_sent(resource, packets);
    }
    // The first packet is sent alone if the packets after it can be offered.
    const bool alone = offers && next == resource.first_packet;
    BurstOut out{.first = read_response_headers(services, qp, resource, next), .mtu = mtu};
    out.packets =
        alone ? 1 : std::max(1u, std::min(resource.end_packet - next, budget.packets_of(mtu)));
    out.payload_bytes = static_cast<uint32_t>(response_range(resource, mtu, out.packets).length);
    const Sent result = send_burst(
        services.outlet_of(qp), out,
        [&](uint32_t n) { return read_response_headers(services, qp, resource, next + n - 1); },
        [&](std::span<uint8_t> room) {
            KeyedRange range = response_range(resource, mtu, 1);
            range.length = room.size();
            return services.mpt().read(resource.user, range, room);
        },
        packets);
    if (result == Sent::kYes) {
        budget.charge(out.payload_of(packets), packets);
        return read_response_sent(resource, packets);
    }
    return result;
}

Sent send_atomic_ack(QpServices& services, QueuePair& qp, ResponderResource& resource,
                     Budget& budget) {
    ib::PacketHeaders headers =
        connected_headers(qp, services.port_of(qp), op::kAtomicAcknowledge, resource.psn_first);
    headers.aeth = ack_of(services, qp, resource.msn);
    headers.atomic_ack_eth.original_data = resource.original_data;
    const Sent result = send_packet(services.outlet_of(qp), headers);
    if (result == Sent::kYes) {
        budget.charge(0);
        resource.pending = resource.replay = false;
    }
    return result;
}

// The region of a READ has become invalid before its whole response was sent (T27 in
// docs/fault-cases.md): sends a NAK in place of the packet.
void read_failed(QpServices& services, QueuePair& qp, const ResponderResource& resource) {
    const ib::Psn psn = resource.psn_first + resource.next_packet;
    explain_read_refusal(services, qp, resource.user,
                         response_range(resource, qp.path_mtu_bytes(), 1));
    services.count(qp, HcaCounter::kRespRemoteAccessErrors);
    services.event(Event::kQpAccessError, qp);
    enter_error(services, qp);
    for (ResponderResource& other : qp.resp.resources) {
        other.pending = false;
    }
    owe(services, qp,
        {.kind = AckKind::kNak,
         .code = static_cast<uint8_t>(ib::NakCode::kRemoteAccessError),
         .psn = psn});
}

Turn send_responses(QpServices& services, QueuePair& qp, Budget& budget) {
    ResponderState& resp = qp.resp;
    const uint32_t size = resp.response_pending ? static_cast<uint32_t>(resp.resources.size()) : 0;
    for (uint32_t i = 0; i < size; ++i) {
        ResponderResource& resource = resp.resources[(resp.resource_head + i) % size];
        while (resource.pending) {
            if (budget.spent()) {
                return Turn::kMore;
            }
            const Sent result = resource.kind == ResponseKind::kAtomic
                                    ? send_atomic_ack(services, qp, resource, budget)
                                    : send_read_response(services, qp, resource, budget);
            if (result == Sent::kBlocked) {
                return Turn::kBlocked;
            }
            if (result == Sent::kNoPayload) {
                if (await_page(services, qp, QpHalf::kResponder)) {
                    qp.paging.read_waits = true;
                    return Turn::kIdle;
                }
                read_failed(services, qp, resource);
                return Turn::kIdle;
            }
        }
    }
    resp.response_pending = false;
    if (size > qp.attr.max_dest_rd_atomic) [[unlikely]] {
        resize_resources(qp);  // max_dest_rd_atomic was lowered meanwhile
    }
    return Turn::kIdle;
}

Sent send_ack(QpServices& services, QueuePair& qp) {
    const PendingAck& ack = qp.resp.ack;
    const ib::Psn psn = ack.kind == AckKind::kAck ? qp.resp.expected_psn - 1 : ack.psn;
    ib::PacketHeaders headers = connected_headers(qp, services.port_of(qp), op::kAcknowledge, psn);
    switch (ack.kind) {
        case AckKind::kRnrNak:
            headers.aeth = ib::Aeth::rnr_nak(ack.code, qp.resp.msn);
            break;
        case AckKind::kNak:
            headers.aeth = ib::Aeth::nak(static_cast<ib::NakCode>(ack.code), qp.resp.msn);
            break;
        default:
            headers.aeth = ack_of(services, qp, qp.resp.msn);
            break;
    }
    return send_packet(services.outlet_of(qp), headers);
}

}  // namespace

void owe(QpServices& services, QueuePair& qp, const PendingAck& ack) {
    if (ack.kind != AckKind::kAck || qp.resp.ack.kind == AckKind::kNone) {
        qp.resp.ack = ack;
    }
    services.schedule(qp);
}

Turn run(QpServices& services, QueuePair& qp, Budget& budget) {
    if (qp.paging.read_waits) {
        return Turn::kIdle;
    }
    if (const Turn turn = send_responses(services, qp, budget); turn != Turn::kIdle) {
        return turn;
    }
    if (qp.paging.read_waits || qp.resp.ack.kind == AckKind::kNone) {
        return Turn::kIdle;
    }
    if (budget.spent()) {
        return Turn::kMore;
    }
    if (send_ack(services, qp) == Sent::kBlocked) {
        return Turn::kBlocked;
    }
    qp.resp.ack = {};
    budget.charge(0);
    return Turn::kIdle;
}

// Sends no ACK while a READ response is incomplete: the ACK would imply that the whole response was
// sent.
void send_pending_ack(QpServices& services, QueuePair& qp) {
    const bool responding = std::ranges::any_of(qp.resp.resources, &ResponderResource::pending);
    if (qp.is_reliable() && qp.resp.ack.kind != AckKind::kNone && !responding) {
        (void)send_ack(services, qp);
        qp.resp.ack = {};
    }
}

}  // namespace pib::hca::responder
