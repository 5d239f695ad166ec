// SPDX-License-Identifier: GPL-2.0-or-later
// SENDs and WRITEs whose payload the switch takes out of guest memory itself. Their first and last
// packets go as all packets do, so that the order of what the peer sees is kept; so does what is
// sent again.
#include <algorithm>

#include "memory/one_copy.h"
#include "transport/requester.h"

namespace pib::hca {

// Whether the message has MIDDLE packets left to send for the first time, and enough of them. Of UC
// nobody says when the peer has them.
bool Requester::wants_reference(QueuePair& qp, const SendRequest& request) {
    if (!qp.is_reliable() || qp.req.cursor != qp.req.sent_end || request.wqe.data.is_inline ||
        !services_.one_copy()->attached(qp.port())) {
        return false;
    }
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first);
    const uint64_t middles = request.packets - std::min(request.packets, std::max(packet, 1u) + 1);
    return middles * qp.path_mtu_bytes() >= services_.one_copy()->min_bytes();
}

uint32_t Requester::reference_window(const QueuePair& qp) {
    return services_.one_copy()->attached(qp.port()) ? kReferenceWindow : kWindowPackets;
}

bool Requester::send_by_reference(QueuePair& qp, const SendRequest& request, Budget& budget,
                                  uint32_t& packets) {
    const uint32_t mtu = qp.path_mtu_bytes();
    const uint32_t packet = psn_distance(qp.req.cursor, request.psn_first);
    // A packet that asks for an ACK is not among them: the next one does.
    if (packet == 0 || qp.req.packets_since_ack_req + 1 >= kAckInterval) {
        return false;
    }
    const uint32_t wanted =
        std::min({request.packets - 1 - packet, ib::kMaxRunPackets,
                  static_cast<uint32_t>(ib::link::kMaxReferenceBytes / mtu), window_left(qp)});
    RunOut run{.first = data_headers(qp, request, 0), .mtu = mtu};
    run.first.bth.ack_req = false;
    run.packets = reference_limit(services_.outlet_of(qp), run.first, mtu, wanted);
    run.payload_bytes = run.packets * mtu;
    if (run.packets < 2 || run.payload_bytes < services_.one_copy()->min_bytes()) {
        return false;
    }
    run.last = data_headers(qp, request, run.packets - 1);
    run.last.bth.ack_req = false;
    Located located;
    if (!locate(services_.mpt(), segments_of(qp, request), uint64_t{packet} * mtu,
                run.payload_bytes, 0, located)) {
        return false;
    }
    const ReferenceOwner owner{
        .qpn = qp.qpn, .end = qp.req.cursor + run.packets, .keys = located.keys};
    if (!hca::send_by_reference(services_, qp, run, located, owner)) {
        return false;
    }
    qp.req.references = true;
    qp.req.packets_since_ack_req = static_cast<uint8_t>(
        std::min<uint32_t>(kAckInterval - 1, qp.req.packets_since_ack_req + run.packets));
    budget.charge(0);
    packets = run.packets;
    return true;
}

}  // namespace pib::hca
