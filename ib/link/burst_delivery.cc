// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/burst_delivery.h"

#include <algorithm>
#include <string>

#include "ib/link/link_limits.h"
#include "ib/link/packet_checksums.h"

namespace pib::link {

// Drops packets that CreditLedger::take() has refused (IBA 7.12.2). take() has counted them as
// received, as the peer has counted them as sent, so CREDIT may be due.
void BurstDelivery::overrun(unsigned vl, uint32_t packets) {
    credits_.grant(vl);
    for (; training_.is_up() && packets != 0; --packets) {
        events_.link_packet_fault(PacketFault::kOverrun);
    }
}

LinkResult BurstDelivery::receive_packet(const Frame& frame) {
    if (!training_.has_peer()) {
        return failure(LinkError::kUnexpectedFrame, "PACKET before LINK");
    }
    const std::span<const uint8_t> whole = frame.shared.empty() ? frame.body : frame.shared;
    const unsigned vl = frame.body[0] >> 4;
    uint32_t blocks = 0;
    if (vl != kVl15) {
        blocks = link::credit_blocks(whole.size() + (frame.crc_elided() ? kCrcBytes : 0));
        if (!credits_.take(vl, blocks)) {
            overrun(vl, 1);
            return {};
        }
    }
    const auto crcs = frame.crc_elided() ? ib::Crcs::kElided : ib::Crcs::kIcrcAndVcrc;
    deliver_packet(check_packet(frame.body, whole, crcs, training_.mtu_cap()), vl, blocks);
    return {};
}

void BurstDelivery::deliver_packet(std::expected<ib::Burst, PacketFault>&& packet, unsigned vl,
                                   uint32_t blocks) {
    if (!training_.is_up() || !packet) {
        credits_.release(vl, blocks);
        if (training_.is_up()) {
            events_.link_packet_fault(packet.error());
        }
        return;
    }
    ib::Placement here;
    (void)events_.link_burst(*packet, here);
}

// A malformed burst breaks this protocol, not a rule of IBA's link layer, so it ends the
// connection.
LinkResult BurstDelivery::receive_burst(const Frame& frame) {
    auto burst = ib::Burst::parse(frame.body.first<ib::kBurstPayload>(), frame.shared);
    if (!burst || burst->lrh().vl == ib::kVl15) {
        return failure(LinkError::kMalformedFrame,
                       std::string("BURST: ") + (burst ? "VL 15" : to_string(burst.error())));
    }
    const unsigned vl = burst->lrh().vl.value();
    if (!credits_.take(vl, burst_blocks(*burst))) {
        overrun(vl, burst->count());
        return {};
    }
    deliver(*burst);
    return {};
}

// Delivers packet `from` and all later ones as one burst; returns how many were taken.
uint32_t BurstDelivery::deliver_rest(ib::Burst& burst, uint32_t from) {
    ib::Placement here;
    if (from == 0) {
        return events_.link_burst(burst, here);
    }
    ib::BurstHead head;
    auto rest = burst.part(from, burst.count() - from, head);
    return rest ? events_.link_burst(*rest, here) : 0;
}

// Delivers a burst. Whenever the handler takes none of the packets that are left, the next packet
// is delivered alone.
void BurstDelivery::deliver(ib::Burst& burst) {
    const unsigned vl = burst.lrh().vl.value();
    const auto epoch = training_.epoch();
    const bool all_fit = fits(burst);
    ib::BurstHeaders room;
    for (uint32_t i = 0; i < burst.count();) {
        if (training_.epoch() != epoch) {  // a handler has retrained the link
            credits_.release(vl, burst_blocks(burst, i, burst.count() - i));
            return;
        }
        const bool several = burst.count() - i > 1;
        uint32_t taken = several && training_.is_up() && all_fit ? deliver_rest(burst, i) : 0;
        if (taken == 0) {
            const ib::PacketBytes bytes = burst.packet(i, room);
            deliver_packet(
                check_packet(bytes.head(), bytes.whole(), ib::Crcs::kElided, training_.mtu_cap()),
                vl, burst_blocks(burst, i, 1));
            taken = 1;
        }
        i += taken;
    }
}

bool BurstDelivery::fits(const ib::Burst& burst) const {
    return burst.size().longest() + ib::kIcrcSize <= max_packet_bytes(training_.mtu_cap());
}

void BurstDelivery::drop(const ib::Burst& burst) {
    credits_.release(burst.lrh().vl.value(), burst_blocks(burst));
}

// Splits an offer, which may exceed kMaxBurstPayload, and delivers the parts like other bursts.
void BurstDelivery::deliver_parts(const ib::Burst& burst) {
    const auto step = static_cast<uint32_t>(ib::kMaxBurstPayload / burst.size().mtu);
    const auto epoch = training_.epoch();
    for (uint32_t i = 0; i < burst.count(); i += step) {
        if (training_.epoch() != epoch) {  // a handler has retrained the link
            credits_.release(burst.lrh().vl.value(), burst_blocks(burst, i, burst.count() - i));
            return;
        }
        ib::BurstHead head;
        auto part = burst.part(i, std::min(step, burst.count() - i), head);
        if (part) {
            deliver(*part);
        }
    }
}

}  // namespace pib::link
