// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/peer_offer.h"

#include <string>

#include "ib/link/link_limits.h"
#include "ib/link/peer_copy_control.h"

namespace pib::link {

std::expected<link::Offer, LinkFailure> parse_offer(const link::Frame& frame) {
    auto offer = link::Offer::parse(frame.body.subspan(ib::kBurstPayload));
    if (!offer) {
        return failure(LinkError::kMalformedFrame,
                       std::string("offer: ") + to_string(offer.error()));
    }
    return std::move(*offer);
}

std::expected<ib::Burst, LinkFailure> offered_burst(const link::Frame& frame,
                                                    const link::Offer& offer,
                                                    std::span<const uint8_t> room,
                                                    CreditLedger& credits) {
    auto burst = ib::Burst::parse(frame.body.first<ib::kBurstPayload>(),
                                  room.first(ib::kBurstPayload + offer.bytes), kMaxOfferBytes);
    if (!burst || burst->lrh().vl == ib::kVl15 || !burst->is_middle()) {
        return failure(LinkError::kMalformedFrame, "BURST: these packets cannot be an offer");
    }
    const unsigned vl = burst->lrh().vl.value();
    if (!credits.take(vl, burst_blocks(*burst))) {
        return failure(LinkError::kCreditExceeded, "VL " + std::to_string(vl));
    }
    return *burst;
}

}  // namespace pib::link
