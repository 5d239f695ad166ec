// SPDX-License-Identifier: GPL-2.0-or-later
// Runs of request packets. What starts and what ends a message goes packet by packet, and so does
// whatever is not as it should be; here is only what lies in between.
#include "queues/segments.h"
#include "transport/responder.h"

namespace pib::hca {

namespace {

// The message in progress has room for so many bytes, and for more: MIDDLE is not the end of it.
bool has_room_for_middles(const ResponderState& resp, uint32_t bytes) {
    if (resp.message == InboundMessage::kSend) {
        return bytes <= resp.recv.data.length - resp.received &&
               resp.received + bytes <= Limits::kMaxMessage;
    }
    return bytes < resp.write_length - resp.received;
}

}  // namespace

bool Responder::place_middles(QueuePair& qp, std::span<const uint8_t> payload) {
    ResponderState& resp = qp.resp;
    if (resp.message == InboundMessage::kSend) {
        const SegmentView segments{
            .wqe = resp.recv.bytes, .data = resp.recv.data, .user = resp.recv.user};
        return scatter(services_.mpt(), segments, resp.received, payload);
    }
    const KeyedRange range{.key = resp.write_rkey,
                           .addr = resp.write_va + resp.received,
                           .length = payload.size(),
                           .access = PIB_HCA_ACCESS_REMOTE_WRITE};
    return services_.mpt().write(qp.remote_user(), range, payload);
}

// Whether nothing is to be said of these packets but that they bring their payload.
bool Responder::middles_fit(QueuePair& qp, const ib::PacketRun& run, uint32_t from,
                            uint32_t count) {
    const ResponderState& resp = qp.resp;
    if (run.psn(from) != resp.expected_psn || run.size().mtu != qp.path_mtu_bytes() ||
        resp.message == InboundMessage::kNone) {
        return false;
    }
    ib::RunHeaders room;
    const auto packet = ib::PacketView::parse(run.packet(from, room), ib::Crcs::kElided);
    // The others differ from this one in nothing that these look at.
    return packet && !check_sequence(qp, *packet) && !check_operation(qp, *packet) &&
           !check_xrc_srq(qp, *packet) && has_room_for_middles(resp, count * run.size().mtu);
}

bool Responder::middles_in(QueuePair& qp, const ib::PacketRun& run, uint32_t from, uint32_t count) {
    if (!middles_fit(qp, run, from, count) || !place_middles(qp, run.payload(from, count))) {
        return false;
    }
    middles_done(qp, count);
    return true;
}

void Responder::middles_done(QueuePair& qp, uint32_t count) {
    ResponderState& resp = qp.resp;
    resp.received += count * qp.path_mtu_bytes();
    resp.expected_psn = resp.expected_psn + count;
    resp.nak_sent = false;
    if (qp.is_reliable() && resp.ack.kind != AckKind::kNone) {
        // A NAK that was owed and not sent is overtaken, as in accepted().
        resp.ack = {};
        owe(qp, {.kind = AckKind::kAck});
    }
}

}  // namespace pib::hca
