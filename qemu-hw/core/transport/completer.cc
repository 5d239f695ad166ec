// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/completer.h"

#include <array>
#include <cstring>
#include <optional>

#include "base/adversary.h"
#include "qp/completions.h"
#include "qp/error_states.h"
#include "qp/page_waits.h"
#include "qp/path_migration.h"
#include "qp/qp_offers.h"
#include "qp/retry_budget.h"
#include "transport/payload_target.h"
#include "transport/receive_credits.h"
#include "transport/requester.h"

namespace pib::hca {
namespace {

constexpr uint8_t kRetryForEver = 7;  // a value of rnr_retry (IBA 9.7.5.2.8)

bool covers(const SendRequest& request, ib::Psn psn) {
    return psn_distance(psn, request.psn_first) < request.packets;
}

// Whether the opcode of a response fits its PSN (IBA 9.7.6.1, table 61): FIRST or ONLY at the first
// PSN of the newest request packet of this READ, MIDDLE or LAST not at the first PSN of the READ.
// Responses to earlier request packets of the READ may still arrive.
bool is_in_place(const SendRequest& request, const ib::Burst& burst) {
    const ib::Psn psn = burst.psn(0);
    const ib::Psn begin = request.wqe.is_read() ? request.psn_asked : request.psn_first;
    return burst.first().opcode().starts_message() ? psn == begin : psn != request.psn_first;
}

// Status of the request that a NAK refuses, and the NAK's counter, by NAK code (IBA 9.9.2.3).
struct NakMeaning {
    WcStatus status;
    std::optional<HcaCounter> counter;  // no value: nothing is counted
};
constexpr std::array<NakMeaning, 5> kNakMeanings = {{
    {WcStatus::kGeneralErr, HcaCounter::kPacketSeqErr},  // PSN sequence error: a retry
    {WcStatus::kRemInvReqErr, HcaCounter::kReqRemoteInvalidRequest},
    {WcStatus::kRemAccessErr, HcaCounter::kReqRemoteAccessErrors},
    {WcStatus::kRemOpErr, std::nullopt},
    {WcStatus::kRemInvReqErr, HcaCounter::kReqRemoteInvalidRequest},
}};

}  // namespace

uint32_t Completer::response_in(QueuePair& qp, const ib::Burst& burst, ib::Placement& payload) {
    const ib::PacketView& packet = burst.first();
    const ib::Psn psn = packet.bth().psn;
    uint32_t taken = burst.is_single() ? 1 : 0;
    if (qp.paging.response_lost || !qp.can_send()) {
        return taken;  // response_lost: the requester will ask again for this response, too
    }
    // Ghost responses answer packets that were acknowledged before, or never sent (IBA 9.7.5.1.3).
    if (psn_distance(psn, qp.req.una) >= psn_distance(qp.req.sent_end, qp.req.una)) {
        ghost_in(qp, packet);
        return taken;
    }
    if (services_.parts().counters.adversary != nullptr && set_back(qp)) [[unlikely]] {
        return taken;
    }
    if (const auto aeth = burst.last().aeth()) {
        requester::credits_told(qp.req, *aeth);
    }
    switch (packet.opcode().kind) {
        case ib::OpKind::kAcknowledge:
            acknowledge_in(qp, psn, *packet.aeth());
            break;
        case ib::OpKind::kRdmaReadResponse:
            taken = read_response_in(qp, burst, payload);
            break;
        case ib::OpKind::kAtomicAcknowledge:
            atomic_ack_in(qp, packet);
            break;
        default:
            break;
    }
    settle(qp);
    return taken;
}

// An adversarial device drops the response, or handles it as a NAK or RNR NAK of the oldest packet,
// although the peer has taken this packet.
bool Completer::set_back(QueuePair& qp) {
    constexpr uint8_t kRnrTimer = 12;  // 0.64 ms
    const Setback setback = services_.parts().counters.adversary->setback();
    if (setback == Setback::kNone || qp.req.timer != QpTimer::kAck || !can_repeat(qp)) {
        return false;
    }
    if (setback == Setback::kSequence) {
        nak_in(qp, qp.req.una, static_cast<uint8_t>(ib::NakCode::kPsnSequenceError));
    } else if (setback == Setback::kNotReady && can_wait_for_receiver(qp)) {
        rnr_nak_in(qp, qp.req.una, kRnrTimer);
    }
    return true;
}

// A repetition of the newest acknowledgement may report new credits (IBA 9.7.7.2). Other ghost
// responses are dropped.
void Completer::ghost_in(QueuePair& qp, const ib::PacketView& packet) {
    if (packet.opcode().kind == ib::OpKind::kAcknowledge && packet.bth().psn + 1 == qp.req.una) {
        requester::credits_told(qp.req, *packet.aeth());
        settle(qp);
    }
}

// Schedules the QP if the response permits more work: later requests, a failed request that is now
// the oldest, the end of a drain.
void Completer::settle(QueuePair& qp) {
    if (qp.can_send() && qp.req.timer != QpTimer::kRnr &&
        (qp.req.cursor_wqe != qp.sq.consumer || qp.sq.ready() != 0 || qp.sq_draining)) {
        services_.schedule(qp);
    }
}

void Completer::acknowledge_in(QueuePair& qp, ib::Psn psn, const ib::Aeth& aeth) {
    switch (aeth.kind()) {
        case ib::AethKind::kAck:
            if (!acknowledge_before(qp, psn + 1)) {
                sequence_error(qp);
            }
            break;
        case ib::AethKind::kRnrNak:
            rnr_nak_in(qp, psn, aeth.code());
            break;
        case ib::AethKind::kNak:
            nak_in(qp, psn, aeth.code());
            break;
        case ib::AethKind::kReserved:
            break;
    }
}

// Completes the requests before `end`, which the peer has executed. False: the response to a READ
// or atomic among them is lost, which is an implied NAK (IBA 9.7.5.1.1, C9-74).
bool Completer::acknowledge_before(QueuePair& qp, ib::Psn end) {
    while (qp.can_send() && !qp.window.empty() && qp.req.una != end) {
        const SendRequest& request = qp.window.front();
        if (request.wqe.needs_response()) {
            return false;
        }
        if (covers(request, end)) {
            advance(qp, end);
            break;
        }
        complete_front(qp);
    }
    return true;
}

// Moves the oldest unacknowledged PSN to `una`. Resets the retry counters (IBA 9.9.2.1.1) and
// restarts the timer.
void Completer::advance(QueuePair& qp, ib::Psn una) {
    RequesterState& req = qp.req;
    const SendRequest& request = qp.window.front();
    const uint32_t oldest = request.counter + (una == request.psn_end() ? 1 : 0);
    if (psn_distance(req.cursor, req.una) < psn_distance(una, req.una)) {
        req.cursor = una;
        req.cursor_wqe = oldest;
    }
    req.una = una;
    acknowledge_offers(services_, qp);
    req.retries_left = qp.attr.retry_cnt;
    req.rnr_retries_left = qp.attr.rnr_retry;
    req.retry_started = false;
    const bool was_waiting = req.timer == QpTimer::kRnr;
    requester::restart_ack_timer(services_, qp);
    if (was_waiting) {
        // The receiver is ready before the RNR timer ends: send the dropped packets again.
        requester::rewind(services_, qp);
        req.cursor_wqe = oldest;  // a request that is complete now is still in the window
    }
}

void Completer::complete_front(QueuePair& qp) {
    advance(qp, qp.window.front().psn_end());
    complete_send(services_, qp, {});
    complete_local(services_, qp);
}

void Completer::fail(QueuePair& qp, const WqeError& error) {
    if (qp.window.empty()) {
        fatal(services_, qp);
        return;
    }
    fail_send(services_, qp, error);
}

// Sends again from the oldest unacknowledged packet, if a retry is left (IBA 9.9.2.1.1) or the QP
// can migrate to its alternate path. Otherwise fails the oldest request.
void Completer::retry(QueuePair& qp) {
    requester::stop_timer(services_, qp);
    if (qp.req.retries_left != 0) {
        --qp.req.retries_left;
    } else if (migrate_if_armed(services_, qp)) {
        qp.req.retries_left = qp.attr.retry_cnt;  // the other path has not been tried yet
    } else {
        fail(qp, {WcStatus::kRetryExcErr});
        return;
    }
    requester::rewind(services_, qp);
}

// Handles an implied NAK for `una`. Each response after a loss implies this NAK; only the first one
// starts a retry.
void Completer::sequence_error(QueuePair& qp) {
    if (qp.req.retry_started) {
        return;
    }
    services_.count(qp, HcaCounter::kImpliedNakSeqErr);
    retry(qp);
    qp.req.retry_started = true;
}

void Completer::nak_in(QueuePair& qp, ib::Psn psn, uint8_t code) {
    if (code >= kNakMeanings.size()) {
        return;  // a reserved NAK code
    }
    // A NAK acknowledges all packets before the packet with its PSN (IBA 9.7.5.2.1).
    if (!acknowledge_before(qp, psn)) {
        sequence_error(qp);
        return;
    }
    if (!qp.can_send()) {
        return;
    }
    const bool sequence = code == static_cast<uint8_t>(ib::NakCode::kPsnSequenceError);
    if (sequence && qp.req.retry_started) {
        return;
    }
    if (const auto counter = kNakMeanings[code].counter) {
        services_.count(qp, *counter);
    }
    if (!sequence) {
        fail(qp, {kNakMeanings[code].status});
        return;
    }
    retry(qp);
    qp.req.retry_started = true;
}

void Completer::rnr_nak_in(QueuePair& qp, ib::Psn psn, uint8_t timer_code) {
    if (!acknowledge_before(qp, psn)) {
        sequence_error(qp);
        return;
    }
    // The RNR timer runs already: a second RNR NAK changes nothing.
    if (!qp.can_send() || qp.req.timer == QpTimer::kRnr) {
        return;
    }
    if (qp.req.rnr_retries_left == 0) {
        services_.count(qp, HcaCounter::kRnrNakRetryErr);
        requester::stop_timer(services_, qp);
        fail(qp, {WcStatus::kRnrRetryExcErr});
        return;
    }
    if (qp.attr.rnr_retry != kRetryForEver) {
        --qp.req.rnr_retries_left;
    }
    qp.req.retry_started = false;
    requester::start_rnr_timer(services_, qp, ib::rnr_timer_ns(timer_code));
}

// A READ response or atomic ACK with `psn` has arrived: completes the requests before it (C9-74).
// True: it is the expected response. A later response means that the expected response is lost.
bool Completer::expect_response(QueuePair& qp, ib::Psn psn) {
    while (qp.can_send() && !qp.window.empty() && !covers(qp.window.front(), psn)) {
        if (qp.window.front().wqe.needs_response()) {
            sequence_error(qp);
            return false;
        }
        complete_front(qp);
    }
    if (!qp.can_send() || qp.window.empty()) {
        return false;
    }
    // Data in answer to a SEND or WRITE is a bad response (IBA 9.9.2.2).
    if (!qp.window.front().wqe.needs_response()) {
        bad_response(qp);
        return false;
    }
    if (psn != qp.req.una) {
        sequence_error(qp);
        return false;
    }
    return true;
}

// A response is dropped if the page of its target is absent. The requester asks again for the
// response when the page is present.
uint32_t Completer::cannot_scatter(QueuePair& qp) {
    if (await_page(services_, qp, QpHalf::kRequester)) {
        qp.paging.response_lost = true;
        requester::stop_timer(services_, qp);
    } else {
        fail(qp, protection_error(services_.mpt(), qp.window.segments_at(0, qp.key_user()),
                                  access::kLocalWrite));
    }
    return 1;
}

uint32_t Completer::bad_response(QueuePair& qp) {
    fail(qp, {WcStatus::kBadRespErr, refuse(Rule::kPeerResponse)});
    return 1;
}

// Takes several responses as one if they are the next ones of the oldest READ. Otherwise the caller
// delivers them singly.
uint32_t Completer::read_response_in(QueuePair& qp, const ib::Burst& burst,
                                     ib::Placement& payload) {
    const ib::Psn psn = burst.psn(0);
    const uint32_t mtu = qp.path_mtu_bytes();
    const bool single = burst.is_single();
    if (!single && (burst.size().mtu != mtu || psn != qp.req.una || qp.window.empty() ||
                    !covers(qp.window.front(), psn) || !qp.window.front().wqe.is_read())) {
        return 0;
    }
    if (!expect_response(qp, psn)) {
        return 1;
    }
    const SendRequest& request = qp.window.front();
    const uint64_t index = psn_distance(psn, request.psn_first);
    const uint64_t offset = index * mtu;
    const uint64_t end = index + burst.count();
    const bool last = end == request.packets;
    // Opcodes and length must fit the place of the response in the READ. FLUSH and ATOMIC WRITE are
    // answered by an empty READ response (annex A19).
    const uint64_t length = request.wqe.is_read() ? request.wqe.data.length : 0;
    const uint64_t expected = last ? length - offset : burst.count() * uint64_t{mtu};
    if (request.wqe.is_atomic() || end > request.packets || !is_in_place(request, burst) ||
        burst.last().opcode().ends_message() != last || burst.payload_bytes() != expected) {
        return single ? bad_response(qp) : 0;
    }
    const WqeTarget target{
        .segments = {.wqe = qp.window.bytes_at(0), .data = request.wqe.data, .user = qp.key_user()},
        .offset = offset};
    if (request.wqe.is_read() && !place_payload(services_, qp, target, burst, payload)) {
        return single ? cannot_scatter(qp) : 0;
    }
    if (payload.is_offered()) {
        return burst.count();
    }
    if (last) {
        complete_front(qp);
    } else {
        advance(qp, burst.psn(burst.count()));
    }
    return burst.count();
}

void Completer::atomic_ack_in(QueuePair& qp, const ib::PacketView& packet) {
    if (!expect_response(qp, packet.bth().psn)) {
        return;
    }
    const SendRequest& request = qp.window.front();
    if (!request.wqe.is_atomic()) {
        (void)bad_response(qp);
        return;
    }
    const uint64_t original = packet.atomic_ack_eth()->original_data;
    std::array<uint8_t, sizeof original> bytes;
    std::memcpy(bytes.data(), &original, sizeof original);
    const SegmentView segments{
        .wqe = qp.window.bytes_at(0), .data = request.wqe.data, .user = qp.key_user()};
    if (!scatter(services_.mpt(), segments, 0, bytes)) {
        (void)cannot_scatter(qp);
        return;
    }
    complete_front(qp);
}

void Completer::timer(QueuePair& qp) {
    const QpTimer expired = qp.req.timer;
    qp.req.timer = QpTimer::kNone;
    if (!qp.can_send() || expired == QpTimer::kNone) {
        return;
    }
    if (expired == QpTimer::kRnr) {
        requester::rewind(services_, qp);
        return;
    }
    if (qp.paging.send.waiting) {
        // The peer's answer may depend on a request that waits here for a page, so the timeout is
        // no error.
        requester::restart_ack_timer(services_, qp);
        return;
    }
    services_.count(qp, HcaCounter::kLocalAckTimeoutErr);
    qp.req.retry_started = false;
    retry(qp);
}

}  // namespace pib::hca
