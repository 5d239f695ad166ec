// SPDX-License-Identifier: GPL-2.0-or-later
// Bursts of packets from a peer that writes anything. What is accepted comes apart into packets
// that each pass for one, with the lengths that the burst said, and in the order of their PSNs.
#include <algorithm>

#include "fuzz_target.h"
#include "ib/wire/burst.h"

namespace pib::fuzz {
namespace {

using namespace ib;

PacketHeaders headers_of(std::uint8_t opcode, std::uint32_t psn, bool global) {
    PacketHeaders headers;
    headers.lrh.dlid = Lid(4);
    headers.lrh.slid = Lid(5);
    headers.bth.opcode = opcode;
    headers.bth.pkey = kDefaultPKey;
    headers.bth.dest_qp = Qpn(0x48);
    headers.bth.psn = Psn(psn);
    if (global) {
        headers.grh.emplace();
    }
    return headers;
}

Bytes seed(std::uint8_t first, std::uint8_t last, std::uint32_t packets, bool global) {
    const auto a = headers_of(first, 0xfffffe, global);
    const auto b = headers_of(last, 0xfffffe + packets - 1, global);
    const std::size_t payload = (packets - 1) * kMinBurstMtu + 7;
    const auto size = BurstBuilder::size(a, b, packets, kMinBurstMtu, payload);
    Bytes body(size->body());
    (void)BurstBuilder::begin(body, *size, a, b, payload);
    return body;
}

void check_packets(const Burst& burst) {
    const BurstSize& size = burst.size();
    require(size.packets >= 2 && size.packets <= kMaxBurstPackets, "packets are bounded");
    require(size.payload <= kMaxBurstPayload, "payload is bounded");
    BurstHeaders room;
    std::size_t bytes = 0, payload = 0;
    std::uint64_t words = 0;
    for (std::uint32_t i = 0; i < size.packets; ++i) {
        const PacketBytes packet = burst.packet(i, room);
        const auto view = PacketView::parse(packet, Crcs::kElided);
        require(view.has_value(), "a burst's packets are packets");
        require(packet.size() == size.packet(i), "of the size that it says");
        require(view->bth().psn == burst.psn(i), "one after the other");
        require(i + 1 == size.packets || view->payload().size() == size.mtu, "and full");
        bytes += packet.size();
        words += view->lrh().pkt_len;
        payload += view->payload().size() + view->bth().pad_count;
    }
    require(bytes == size.bytes() && words == size.words(), "sums are sums");
    require(payload == size.payload, "nothing is left over");
    require(burst.payload().size() == payload - burst.last().bth().pad_count,
            "all payload is there");
    BurstHead head;
    const auto rest = burst.part(1, size.packets - 1, head);
    require(rest && rest->count() == size.packets - 1, "the rest of a burst is one");
    require(rest->size().bytes() == size.bytes(1, size.packets - 1), "of the same packets");
}

}  // namespace

std::vector<Bytes> seeds() {
    namespace op = opcode;
    return {seed(op::kSendFirst, op::kSendLast, 3, false),
            seed(op::kSendMiddle, op::kSendLastInvalidate, 2, true),
            seed(op::kRdmaWriteFirst, op::kRdmaWriteLastImm, 4, true),
            seed(op::kUc | op::kRdmaWriteMiddle, op::kUc | op::kRdmaWriteLast, 3, false),
            seed(op::kXrc | op::kSendFirst, op::kXrc | op::kSendLastImm, 3, true),
            seed(op::kRdmaReadResponseFirst, op::kRdmaReadResponseLast, 5, false)};
}

void run(std::span<const std::uint8_t> input) {
    if (input.size() < kBurstPayload) {
        return;
    }
    // Copies of their own size: a read past the end is then seen.
    const Bytes whole(input.begin(), input.end());
    const Bytes head(whole.begin(), whole.begin() + kBurstPayload);
    const auto parsed =
        Burst::parse(std::span<const std::uint8_t>(head).first<kBurstPayload>(), whole);
    if (parsed) {
        check_packets(*parsed);
    }
}

}  // namespace pib::fuzz
