// SPDX-License-Identifier: GPL-2.0-or-later
// The responder with one copy: requests whose payload the switch puts into guest memory, and READ
// responses that it takes from there.
#include <algorithm>

#include "memory/one_copy.h"
#include "queues/segments.h"
#include "transport/responder.h"

namespace pib::hca {

// ---- what comes in

bool Responder::locate_middles(QueuePair& qp, const ib::PacketRun& run, Located& out) {
    const uint32_t count = run.size().packets;
    if (!middles_fit(qp, run, 0, count)) {
        return false;
    }
    const ResponderState& resp = qp.resp;
    const uint64_t bytes = uint64_t{count} * run.size().mtu;
    if (resp.message == InboundMessage::kSend) {
        const SegmentView segments{
            .wqe = resp.recv.bytes, .data = resp.recv.data, .user = resp.recv.user};
        return locate(services_.mpt(), segments, resp.received, bytes, PIB_HCA_ACCESS_LOCAL_WRITE,
                      out);
    }
    const KeyedRange range{.key = resp.write_rkey,
                           .addr = resp.write_va + resp.received,
                           .length = bytes,
                           .access = PIB_HCA_ACCESS_REMOTE_WRITE};
    return services_.mpt().locate(qp.remote_user(), range, out);
}

void Responder::middles_placed(QueuePair& qp, const ib::PacketRun& run) {
    middles_done(qp, run.size().packets);
}

// ---- READ responses

// Whether the response has MIDDLE packets left, and enough of them. What is asked for again is
// copied.
bool Responder::wants_reference(const QueuePair& qp, const RdResource& resource) {
    if (resource.kind != RdKind::kRead || resource.replay ||
        !services_.one_copy()->attached(qp.port())) {
        return false;
    }
    const uint32_t next = std::max(resource.next_packet, resource.first_packet + 1);
    const uint64_t middles = resource.end_packet - std::min(resource.end_packet, next + 1);
    return middles * qp.path_mtu_bytes() >= services_.one_copy()->min_bytes();
}

uint32_t Responder::send_read_reference(QueuePair& qp, const RdResource& resource) {
    const uint32_t mtu = qp.path_mtu_bytes();
    const uint32_t next = resource.next_packet;
    if (next == resource.first_packet) {
        return 0;
    }
    const uint32_t wanted = std::min({resource.end_packet - 1 - next, ib::kMaxRunPackets,
                                      static_cast<uint32_t>(ib::link::kMaxReferenceBytes / mtu)});
    RunOut run{.first = read_response_headers(qp, resource, next), .mtu = mtu};
    run.packets = reference_limit(services_.outlet_of(qp), run.first, mtu, wanted);
    run.payload_bytes = run.packets * mtu;
    if (run.packets < 2 || run.payload_bytes < services_.one_copy()->min_bytes()) {
        return 0;
    }
    run.last = read_response_headers(qp, resource, next + run.packets - 1);
    Located located;
    if (!services_.mpt().locate(resource.user, response_range(resource, mtu, run.packets),
                                located)) {
        return 0;
    }
    const ReferenceOwner owner{.qpn = qp.qpn, .response = true, .keys = located.keys};
    return send_by_reference(services_, qp, run, located, owner) ? run.packets : 0;
}

}  // namespace pib::hca
