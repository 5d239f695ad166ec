// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/requester.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/adversary.h"
#include "qp/completions.h"
#include "qp/error_states.h"
#include "qp/page_waits.h"
#include "qp/qp_header.h"
#include "qp/qp_offers.h"
#include "qp/retry_budget.h"
#include "queues/segments.h"
#include "queues/work_queue.h"
#include "transport/offer_out.h"
#include "transport/receive_credits.h"

namespace pib::hca::requester {

namespace {

// Maximum number of unacknowledged PSNs (IBA 9.7.1).
constexpr uint32_t kWindowPsns = 1u << 23;

// BTH opcodes of a message that carries data, by the position of the packet. Index: SendOpcode.
struct MessageOpcodes {
    uint8_t first;
    uint8_t middle;
    uint8_t last;
    uint8_t only;
};
namespace op = ib::opcode;
constexpr std::array<MessageOpcodes, 8> kMessageOpcodes = {{
    {op::kSendFirst, op::kSendMiddle, op::kSendLast, op::kSendOnly},
    {op::kSendFirst, op::kSendMiddle, op::kSendLastImm, op::kSendOnlyImm},
    {op::kRdmaWriteFirst, op::kRdmaWriteMiddle, op::kRdmaWriteLast, op::kRdmaWriteOnly},
    {op::kRdmaWriteFirst, op::kRdmaWriteMiddle, op::kRdmaWriteLastImm, op::kRdmaWriteOnlyImm},
    {},
    {},
    {},  // READ and atomics carry no data
    {op::kSendFirst, op::kSendMiddle, op::kSendLastInvalidate, op::kSendOnlyInvalidate},
}};
static_assert(static_cast<int>(SendOpcode::kSend) == 0 &&
              static_cast<int>(SendOpcode::kRdmaWriteWithImm) == 3 &&
              static_cast<int>(SendOpcode::kSendWithInv) == 7);

uint8_t opcode_at(const SendRequest& request, uint32_t packet) {
    const MessageOpcodes& row = kMessageOpcodes[static_cast<size_t>(request.wqe.opcode)];
    const bool first = packet == 0;
    const bool last = packet + 1 == request.packets;
    return first ? (last ? row.only : row.first) : (last ? row.last : row.middle);
}

ib::ImmDt immediate(uint32_t imm_data) {
    ib::ImmDt imm;
    std::memcpy(imm.data.data(), &imm_data, imm.data.size());
    return imm;
}

// Packets of SENDs and WRITEs that may be unacknowledged: enough for 2 MiB at MTU 4096.
constexpr uint32_t kWindowPackets = 512;
// Packets of a retry that may be unacknowledged. The peer drops all packets after one more loss, so
// a larger window wastes more of them.
constexpr uint32_t kRetryWindow = 128;
// Replaces kWindowPackets on a link with peer copy: a round trip has two more wake-ups, and offered
// payload takes no room on the link.
constexpr uint32_t kOfferWindow = 2048;
// The requester asks for an ACK at the end of every message and after this many packets within a
// message, so that an answer is under way whenever the window is full.
constexpr uint8_t kAckInterval = 32;

uint32_t window_packets(QpServices& services, const QueuePair& qp) {
    if (qp.req.cursor != qp.req.sent_end) [[unlikely]] {
        return kRetryWindow;
    }
    return services.peer_copy() == nullptr             ? kWindowPackets
           : services.peer_copy()->attached(qp.port()) ? kOfferWindow
                                                       : kWindowPackets;
}

// Packets that may be sent now, before an acknowledgement arrives.
uint32_t window_left(QpServices& services, const QueuePair& qp) {
    const uint32_t window = window_packets(services, qp);
    return window - std::min(psn_distance(qp.req.cursor, qp.req.una), window);
}

SegmentView segments_of(const QueuePair& qp, const SendRequest& request) {
    const uint32_t n = request.counter - (qp.sq.consumer - qp.window.size());
    return qp.window.segments_at(n, qp.key_user());
}

// Finds the errors of a request that are known before its first packet is sent (IBA 9.9.2.2,
// 10.6.3.4).
WqeError prepare(QpServices& services, QueuePair& qp, SendRequest& request, uint32_t slot) {
    if (request.wqe.needs_response() && qp.attr.max_rd_atomic == 0) {
        return {WcStatus::kLocQpOpErr,
                refuse(Rule::kWqeRdAtomic, static_cast<uint8_t>(request.wqe.opcode))};
    }
    return check_segments(services.mpt(), qp.window.segments_at(slot, qp.key_user()),
                          request.wqe.local_access());
}

SendRequest* fetch(QpServices& services, QueuePair& qp) {
    const std::span<uint8_t> place = qp.window.reserve(qp.sq.stride(), services.snapshots());
    if (place.empty()) {
        return nullptr;
    }
    if (!copy_wqe(services, qp, qp.sq, place)) {
        fatal(services, qp);
        return nullptr;
    }
    SendRequest& placed = qp.window.push(qp.sq.consumer, qp.req.next);
    const SendRules rules{.type = qp.type, .max_inline = qp.max_inline};
    const auto decoded = decode_send_wqe(place, rules, placed.wqe);
    ++qp.sq.consumer;
    if (!decoded) {
        placed.error = decoded.error();
    } else {
        placed.error = prepare(services, qp, placed, qp.window.size() - 1);
        if (RegListWatch* lists = services.reg_lists(); lists != nullptr) [[unlikely]] {
            lists->copied(qp, placed);
        }
    }
    if (!placed.failed()) {
        placed.packets =
            placed.wqe.is_local() ? 0 : packet_count(placed.wqe.data.length, qp.path_mtu_bytes());
        placed.ssn = placed.wqe.is_local() ? qp.req.ssn : ++qp.req.ssn;
        qp.req.next = placed.psn_end();
    }
    services.trace_send(qp, placed, place);
    return &placed;
}

// Whether current() would find a request; does not copy it.
bool has_more(const QueuePair& qp) {
    return qp.req.cursor_wqe != qp.sq.consumer || (qp.state == QpState::kRts && qp.sq.ready() != 0);
}

// The request that `cursor` belongs to, copied from the send queue if it is a new one.
SendRequest* current(QpServices& services, QueuePair& qp) {
    if (qp.req.cursor_wqe != qp.sq.consumer) {
        return &qp.window.at(qp.req.cursor_wqe - (qp.sq.consumer - qp.window.size()));
    }
    // SQD: started requests continue, and no new request starts (IBA 10.3.1.5).
    if (qp.state != QpState::kRts || qp.sq.ready() == 0) {
        return nullptr;
    }
    return fetch(services, qp);
}

bool may_start(const QueuePair& qp, const SendRequest& request) {
    const RequesterState& req = qp.req;
    if ((request.wqe.flags & send_flag::kFence) != 0 && req.rd_atomic_outstanding != 0) {
        return false;
    }
    // Earlier requests may be sent again, with their keys, so the invalidation waits for them. IBA
    // 10.8.3.3 requires only the order of execution.
    if (request.wqe.opcode == SendOpcode::kLocalInv) {
        return &request == &qp.window.front();
    }
    if (!request.wqe.needs_response()) {
        return has_credit(qp, request);
    }
    return req.rd_atomic_outstanding < qp.attr.max_rd_atomic &&
           psn_distance(request.psn_first, req.una) + request.packets <= kWindowPsns;
}

struct LocalExecutor {
    Mpt& mpt;
    KeyUser user;

    bool operator()(const InvalidateOp& op) { return mpt.invalidate_local(user, op.key); }
    bool operator()(const BindOp& op) { return mpt.bind(user, op.bind); }
    bool operator()(const RegisterOp& op) { return mpt.fast_register(user, op.reg); }
    bool operator()(const auto&) { return false; }
};

// Names the rule that an operation on a key has broken.
struct RefusedKey {
    Verdict operator()(const InvalidateOp& op) { return refuse(Rule::kWqeInvalidate, op.key); }
    Verdict operator()(const BindOp& op) {
        return refuse(Rule::kWqeBind, op.bind.rkey, op.bind.lkey);
    }
    Verdict operator()(const RegisterOp& op) { return refuse(Rule::kWqeRegister, op.reg.key); }
    Verdict operator()(const auto&) { return CmdStatus::kOk; }
};

// An operation on a key takes effect once and completes in order. A retry skips it.
void execute_local(QpServices& services, QueuePair& qp, SendRequest& request) {
    if (!request.started) {
        request.started = true;
        if (RegListWatch* lists = services.reg_lists(); lists != nullptr) [[unlikely]] {
            lists->executing(qp, request);
        }
        if (!std::visit(LocalExecutor{services.mpt(), qp.key_user()}, request.wqe.op)) {
            request.error = {WcStatus::kMwBindErr, std::visit(RefusedKey{}, request.wqe.op)};
            return;
        }
    }
    ++qp.req.cursor_wqe;
    complete_local(services, qp);
}

// Headers of the packet that is `ahead` packets after the next one.
ib::PacketHeaders headers(QpServices& services, QueuePair& qp, const SendRequest& request,
                          uint8_t operation, bool ack_req, uint32_t ahead = 0) {
    ib::PacketHeaders headers =
        connected_headers(qp, services.port_of(qp), operation, qp.req.cursor + ahead);
    headers.xrceth.xrc_srq = request.wqe.srqn;
    headers.bth.ack_req =
        qp.is_reliable() && (ack_req || qp.req.packets_since_ack_req + ahead + 1 >= kAckInterval);
    return headers;
}

ib::PacketHeaders data_headers(QpServices& services, QueuePair& qp, const SendRequest& request,
                               uint32_t ahead) {
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first) + ahead;
    const bool last = packet + 1 == request.packets;
    ib::PacketHeaders out = headers(services, qp, request, opcode_at(request, packet), last, ahead);
    out.bth.solicited_event = last && (request.wqe.flags & send_flag::kSolicited) != 0;
    out.imm_dt = immediate(request.wqe.imm_data);
    out.ieth.rkey = ib::RKey(request.wqe.imm_data);
    if (const auto* rdma = std::get_if<RdmaOp>(&request.wqe.op)) {
        out.reth = {.va = rdma->remote_addr,
                    .rkey = ib::RKey(rdma->rkey),
                    .dma_len = request.wqe.data.length};
    }
    return out;
}

void data_sent(QueuePair& qp, bool ack_req, uint32_t packets, uint32_t bytes, Budget& budget) {
    qp.req.packets_since_ack_req =
        ack_req ? 0 : static_cast<uint8_t>(qp.req.packets_since_ack_req + packets);
    budget.charge(bytes, packets);
}

// Whether the message has enough MIDDLE packets left to offer, and none of them was sent before: a
// retry sends packets with their payload. UC has no acknowledgement that would end an offer.
bool can_offer(QpServices& services, QueuePair& qp, const SendRequest& request,
               const Budget& budget) {
    if (services.peer_copy() == nullptr || budget.is_arbitrated() || !qp.is_reliable() ||
        qp.req.cursor != qp.req.sent_end || request.wqe.data.is_inline ||
        !services.peer_copy()->attached(qp.port())) {
        return false;
    }
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first);
    const uint64_t middles = request.packets - std::min(request.packets, std::max(packet, 1u) + 1);
    return middles * qp.path_mtu_bytes() >= services.peer_copy()->min_bytes();
}

// FIRST and LAST are sent with their payload, so that the peer receives the message in order. An
// offer asks for no ACK; the next packet does.
uint32_t offer_data(QpServices& services, QueuePair& qp, const SendRequest& request,
                    Budget& budget) {
    const uint32_t mtu = qp.path_mtu_bytes();
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first);
    if (packet == 0 || qp.req.packets_since_ack_req + 1 >= kAckInterval) {
        return 0;
    }
    const auto headers_at = [&](uint32_t ahead) {
        ib::PacketHeaders headers = data_headers(services, qp, request, ahead);
        headers.bth.ack_req = false;
        return headers;
    };
    const uint32_t wanted = std::min(request.packets - 1 - packet, window_left(services, qp));
    const BurstOut out{
        .first = headers_at(0), .packets = wanted, .mtu = mtu, .payload_bytes = wanted * mtu};
    const uint32_t sent = send_offer(
        services, qp, out, [&](uint32_t n) { return headers_at(n - 1); },
        [&](uint32_t bytes, SgList& sg_list) {
            return locate(services.mpt(), segments_of(qp, request), uint64_t{packet} * mtu, bytes,
                          0, sg_list);
        },
        {});
    if (sent != 0) {
        qp.req.offers = true;
        qp.req.packets_since_ack_req = static_cast<uint8_t>(
            std::min<uint32_t>(kAckInterval - 1, qp.req.packets_since_ack_req + sent));
        budget.charge(0);
    }
    return sent;
}

// Sends as many packets of the message as may be sent now, up to the packet that asks for an ACK:
// only the last packet of a burst may ask for one.
Sent send_data(QpServices& services, QueuePair& qp, const SendRequest& request, Budget& budget,
               uint32_t& packets) {
    const bool offers = can_offer(services, qp, request, budget);  // rarely true
    packets = offers ? offer_data(services, qp, request, budget) : 0;
    if (packets != 0) {
        return Sent::kYes;
    }
    const uint32_t mtu = qp.path_mtu_bytes();
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first);
    const uint64_t offset = uint64_t{packet} * mtu;
    // The first packet is sent alone if the packets after it can be offered.
    const bool alone = request.packets - packet == 1 || (offers && packet == 0);
    BurstOut out{.first = data_headers(services, qp, request, 0), .packets = 1, .mtu = mtu};
    if (!alone) {
        const uint32_t until_ack =
            qp.is_reliable() ? kAckInterval - qp.req.packets_since_ack_req : ib::kMaxBurstPackets;
        out.packets = std::max(1u, std::min({request.packets - packet, until_ack,
                                             budget.packets_of(mtu), window_left(services, qp)}));
    }
    out.payload_bytes = static_cast<uint32_t>(
        std::min(uint64_t{out.packets} * mtu, request.wqe.data.length - offset));
    bool ack_req = out.first.bth.ack_req;
    const SegmentView segments = segments_of(qp, request);
    const Sent result = send_burst(
        services.outlet_of(qp), out,
        [&](uint32_t n) {
            const ib::PacketHeaders last = data_headers(services, qp, request, n - 1);
            ack_req = last.bth.ack_req;
            return last;
        },
        [&](std::span<uint8_t> room) { return gather(services.mpt(), segments, offset, room); },
        packets);
    if (result == Sent::kYes) {
        ack_req = packets == 1 ? out.first.bth.ack_req : ack_req;
        data_sent(qp, ack_req, packets, out.payload_of(packets), budget);
    }
    return result;
}

// A READ whose first response packets have arrived asks for the rest only (IBA 9.7.5.1.4).
Sent send_read(QpServices& services, QueuePair& qp, const SendRequest& request) {
    const auto& rdma = std::get<RdmaOp>(request.wqe.op);
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first);
    const uint64_t offset = uint64_t{packet} * qp.path_mtu_bytes();
    ib::PacketHeaders out = headers(services, qp, request, op::kRdmaReadRequest, true);
    out.reth = {.va = rdma.remote_addr + offset,
                .rkey = ib::RKey(rdma.rkey),
                .dma_len = static_cast<uint32_t>(request.wqe.data.length - offset)};
    return send_packet(services.outlet_of(qp), out);
}

Sent send_atomic(QpServices& services, QueuePair& qp, const SendRequest& request) {
    const auto& atomic = std::get<AtomicOp>(request.wqe.op);
    const bool swap = request.wqe.opcode == SendOpcode::kCmpSwap ||
                      request.wqe.opcode == SendOpcode::kMaskedCmpSwap;
    const uint8_t plain = swap ? op::kCmpSwap : op::kFetchAdd;
    const uint8_t masked = swap ? op::kMaskedCmpSwap : op::kMaskedFetchAdd;
    ib::PacketHeaders out =
        headers(services, qp, request, request.wqe.is_masked() ? masked : plain, true);
    out.atomic_eth = {.va = atomic.remote_addr,
                      .rkey = ib::RKey(atomic.rkey),
                      .swap_or_add = atomic.swap_or_add,
                      .compare = swap ? atomic.compare : 0};
    out.masked_atomic_eth = {.atomic = out.atomic_eth,
                             .swap_mask = swap ? atomic.swap_mask : 0,
                             .compare_mask = atomic.compare_mask};
    return send_packet(services.outlet_of(qp), out);
}

Sent send_flush(QpServices& services, QueuePair& qp, const SendRequest& request) {
    const auto& flush = std::get<FlushOp>(request.wqe.op);
    ib::PacketHeaders out = headers(services, qp, request, op::kFlush, true);
    out.feth = {.placement = flush.placement, .selectivity = flush.level};
    out.reth = {.va = flush.remote_addr, .rkey = ib::RKey(flush.rkey), .dma_len = flush.length};
    return send_packet(services.outlet_of(qp), out);
}

Sent send_atomic_write(QpServices& services, QueuePair& qp, const SendRequest& request) {
    const auto& rdma = std::get<RdmaOp>(request.wqe.op);
    const uint32_t bytes = request.wqe.data.length;
    ib::PacketHeaders out = headers(services, qp, request, op::kAtomicWrite, true);
    out.reth = {.va = rdma.remote_addr, .rkey = ib::RKey(rdma.rkey), .dma_len = bytes};
    const SegmentView segments = segments_of(qp, request);
    return send_packet(services.outlet_of(qp), out, bytes, [&](std::span<uint8_t> room) {
        return gather(services.mpt(), segments, 0, room);
    });
}

// UC keeps no packets for a retry; a request completes with its last packet (IBA 9.8.2.1).
void sent_unreliably(QpServices& services, QueuePair& qp, SendRequest& request, ib::Psn cursor) {
    RequesterState& req = qp.req;
    request.started = true;
    req.una = req.cursor = req.sent_end = cursor;
    if (cursor == request.psn_end()) {
        ++req.cursor_wqe;
        complete_send(services, qp, {});
    }
}

// Updates the state after packets of the request were sent; `cursor` is the PSN after the last one.
void sent(QpServices& services, QueuePair& qp, SendRequest& request, ib::Psn cursor) {
    RequesterState& req = qp.req;
    if (!qp.is_reliable()) {
        sent_unreliably(services, qp, request, cursor);
        return;
    }
    if (!request.started) {
        request.started = true;
        req.rd_atomic_outstanding += request.wqe.needs_response() ? 1 : 0;
        message_started(req, request);
    }
    if (psn_distance(cursor, req.una) > psn_distance(req.sent_end, req.una)) {
        req.sent_end = cursor;
    }
    req.cursor = cursor;
    if (cursor == request.psn_end()) {
        ++req.cursor_wqe;
    }
    if (req.timer == QpTimer::kNone) {
        restart_ack_timer(services, qp);
    }
}

// An adversarial device loses the next packet: it counts the packet as sent.
bool loses_packet(QpServices& services, QueuePair& qp, SendRequest& request) {
    Adversary* const adversary = services.parts().counters.adversary;
    if (adversary == nullptr || !can_repeat(qp) || !adversary->loses_request()) [[likely]] {
        return false;
    }
    const ib::Psn cursor = qp.req.cursor;
    request.psn_asked = request.wqe.is_read() ? cursor : request.psn_asked;
    sent(services, qp, request, request.wqe.is_read() ? request.psn_end() : cursor + 1);
    return true;
}

Sent send_one(QpServices& services, QueuePair& qp, SendRequest& request, Budget& budget) {
    const ib::Psn cursor = qp.req.cursor;
    if (loses_packet(services, qp, request)) [[unlikely]] {
        budget.charge(0);
        return Sent::kYes;
    }
    if (request.wqe.is_read()) {
        const Sent result = send_read(services, qp, request);
        if (result == Sent::kYes) {
            budget.charge(0);
            request.psn_asked = cursor;
            sent(services, qp, request, request.psn_end());
        }
        return result;
    }
    uint32_t packets = 1;
    const Sent result = request.wqe.is_atomic()  ? send_atomic(services, qp, request)
                        : request.wqe.is_flush() ? send_flush(services, qp, request)
                        : request.wqe.is_atomic_write()
                            ? send_atomic_write(services, qp, request)
                            : send_data(services, qp, request, budget, packets);
    if (result == Sent::kYes) {
        sent(services, qp, request, cursor + packets);
    }
    return result;
}

// The timer expires no sooner than T_tr = 4.096 us * 2^timeout and no later than 4 T_tr (IBA
// 9.7.6.1.3, C9-141). A peer on a busy host answers late, so the duration is 4 T_tr, or T_tr +
// kMaxGrace if this is less.
uint64_t ack_timeout_ns(uint8_t timeout) {
    constexpr uint64_t kMaxGrace = 200'000'000;
    const uint64_t t_tr = 4096ull << timeout;
    return t_tr + std::min(3 * t_tr, kMaxGrace);
}

}  // namespace

void start(QueuePair& qp) {
    RequesterState& req = qp.req;
    req = {};
    req.una = req.cursor = req.sent_end = req.next = ib::Psn(qp.attr.sq_psn);
    req.cursor_wqe = qp.sq.consumer;
    req.retries_left = qp.attr.retry_cnt;
    req.rnr_retries_left = qp.attr.rnr_retry;
}

void resume(QueuePair& qp) {
    RequesterState& req = qp.req;
    req.next = req.una = req.cursor = req.sent_end;
    req.cursor_wqe = qp.sq.consumer;
}

Turn run(QpServices& services, QueuePair& qp, Budget& budget) {
    while (qp.can_send() && qp.req.timer != QpTimer::kRnr && !qp.paging.send.waiting) {
        if (budget.spent() && !has_more(qp)) {
            break;  // the QP has no work left, so it needs no further turn
        }
        if (budget.spent()) {
            return Turn::kMore;
        }
        SendRequest* request = current(services, qp);
        if (request == nullptr) {
            break;
        }
        if (request->failed()) {
            // A failed request completes after all requests before it (IBA 10.8.5).
            if (request == &qp.window.front()) {
                fail_send(services, qp, request->error);
            }
            break;
        }
        if (!request->started && !may_start(qp, *request)) {
            break;
        }
        if (request->wqe.is_local()) {
            execute_local(services, qp, *request);
            budget.charge(0);
            continue;
        }
        if (window_left(services, qp) == 0 && !request->wqe.needs_response()) {
            break;
        }
        switch (send_one(services, qp, *request, budget)) {
            case Sent::kYes:
                break;
            case Sent::kBlocked:
                return Turn::kBlocked;
            case Sent::kNoPayload:
                if (await_page(services, qp, QpHalf::kRequester)) {
                    return Turn::kIdle;
                }
                request->error = protection_error(services.mpt(), segments_of(qp, *request),
                                                  request->wqe.local_access());
                break;
        }
    }
    report_drained(services, qp);
    return Turn::kIdle;
}

void rewind(QpServices& services, QueuePair& qp) {
    revoke_request_offers(services, qp);
    qp.req.cursor = qp.req.una;
    qp.req.cursor_wqe = qp.sq.consumer - qp.window.size();
    // The first packet of a retry asks for an ACK.
    qp.req.packets_since_ack_req = kAckInterval;
    services.schedule(qp);
}

void stop_timer(QpServices& services, QueuePair& qp) {
    qp.req.timer = QpTimer::kNone;
    services.timers().cancel(qp.qpn);
}

void restart_ack_timer(QpServices& services, QueuePair& qp) {
    if (qp.attr.timeout == 0 || qp.req.una == qp.req.sent_end) {
        stop_timer(services, qp);
        return;
    }
    qp.req.timer = QpTimer::kAck;
    services.timers().set(qp.qpn, services.host().now_ns() + ack_timeout_ns(qp.attr.timeout));
}

void start_rnr_timer(QpServices& services, QueuePair& qp, uint64_t duration_ns) {
    qp.req.timer = QpTimer::kRnr;
    services.timers().set(qp.qpn, services.host().now_ns() + duration_ns);
}

}  // namespace pib::hca::requester
