// SPDX-License-Identifier: GPL-2.0-or-later
// Bursts of packets from a hostile peer. An accepted burst splits into valid packets with the
// burst's lengths, in the order of their PSNs. An input says how to build a burst, and then which
// of its bytes to replace: plain bytes seldom get past the comparison of the two headers.
#include <algorithm>

#include "fuzz_target.h"
#include "ib/wire/burst.h"

namespace pib::fuzz {
namespace {

using namespace ib;

PacketHeaders headers_of(uint8_t opcode, uint32_t psn, bool global) {
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

// Opcodes that begin, continue and end a burst, of each service, and some that do not.
constexpr uint8_t kServices[] = {0, opcode::kUc, opcode::kXrc, 0x60};
constexpr uint8_t kOpcodes[] = {
    opcode::kSendFirst,
    opcode::kSendMiddle,
    opcode::kSendLast,
    opcode::kSendLastImm,
    opcode::kSendLastInvalidate,
    opcode::kRdmaWriteFirst,
    opcode::kRdmaWriteMiddle,
    opcode::kRdmaWriteLast,
    opcode::kRdmaWriteLastImm,
    opcode::kRdmaReadResponseFirst,
    opcode::kRdmaReadResponseMiddle,
    opcode::kRdmaReadResponseLast,
    opcode::kSendOnly,
    opcode::kAcknowledge,
};

// Builds a burst with first and last headers by the input's choice, and right lengths.
Bytes build(Input& in) {
    const uint8_t kind = in.byte();
    const auto service = kServices[kind % 4];
    const auto pick = [&] {
        return static_cast<uint8_t>(service | kOpcodes[in.byte() % std::size(kOpcodes)]);
    };
    const uint8_t first = pick();
    const uint8_t last = pick();
    const uint32_t packets = 2 + in.byte() % 16;
    const uint32_t mtu = kMinBurstMtu << (kind >> 2 & 3);
    const size_t tail = 1 + (in.byte() | in.byte() << 8) % mtu;
    const auto psn = static_cast<uint32_t>(0xfffffa + (kind >> 5));
    const bool global = (kind & 0x10) != 0;
    auto a = headers_of(first, psn, global);
    auto b = headers_of(last, psn + packets - 1, global);
    const uint8_t flags = in.byte();
    b.bth.solicited_event = (flags & 1) != 0;
    b.bth.ack_req = (flags & 2) != 0;
    a.bth.ack_req = (flags & 0x40) != 0;
    const size_t payload = (packets - 1) * size_t{mtu} + tail;
    const auto size = BurstBuilder::size(a, b, packets, mtu, payload);
    if (!size) {
        return {};
    }
    Bytes body(size->body());
    (void)BurstBuilder::begin(body, *size, a, b, payload);
    return body;
}

// Applies changes of two bytes: a place in the headers and its new byte, or, with a place after
// the headers, the number of bytes by which the burst is cut or extended.
void bend(Input& in, Bytes& body) {
    while (!in.empty()) {
        const uint8_t at = in.byte();
        const uint8_t value = in.byte();
        if (at < kBurstPayload) {
            body[at] = (value & 0x80) != 0 ? static_cast<uint8_t>(body[at] ^ value) : value;
        } else {
            const size_t size = body.size() + value - 128;
            body.resize(
                std::clamp<size_t>(size, kBurstPayload, kBurstPayload + kMaxBurstPayload + 1));
        }
    }
}

void check_packets(const Burst& burst) {
    const BurstSize& size = burst.size();
    require(size.packets >= 2 && size.packets <= kMaxBurstPackets, "packets are bounded");
    require(size.payload <= kMaxBurstPayload, "payload is bounded");
    BurstHeaders room;
    size_t bytes = 0, payload = 0;
    uint64_t words = 0;
    for (uint32_t i = 0; i < size.packets; ++i) {
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
    // The first byte is 1 for a burst that the input builds, 0 for an input that is a burst itself.
    std::vector<Bytes> all;
    constexpr uint8_t kPairs[][3] = {{0, 0, 2}, {0x10, 1, 4}, {0x10, 5, 8}, {1, 6, 7},
                                     {2, 0, 3}, {0, 9, 11},   {0, 1, 1},    {0x0c, 10, 10}};
    for (const auto& [kind, first, last] : kPairs) {
        all.push_back({1, kind, first, last, 1, 7, 0, 0});
        all.push_back({1, kind, first, last, 3, 0xff, 0xff, 3, 12, 0x81});
    }
    Input in(all.front());
    (void)in.byte();
    Bytes whole = build(in);
    whole.insert(whole.begin(), 0);
    all.push_back(whole);
    return all;
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    Bytes whole;
    if ((in.byte() & 1) != 0) {
        whole = build(in);
        if (!whole.empty()) {
            bend(in, whole);
        }
    } else {
        const auto rest = in.rest();
        whole.assign(rest.begin(), rest.end());
    }
    if (whole.size() < kBurstPayload) {
        return;
    }
    // An allocation of exact size, so that the sanitizer finds a read past the end.
    whole.shrink_to_fit();
    const Bytes head(whole.begin(), whole.begin() + kBurstPayload);
    const auto parsed = Burst::parse(std::span<const uint8_t>(head).first<kBurstPayload>(), whole);
    if (parsed) {
        check_packets(*parsed);
    }
}

}  // namespace pib::fuzz
