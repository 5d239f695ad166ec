// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/peer_offer.h"

#include <string>

#include "ib/link/link_limits.h"
#include "ib/link/one_copy.h"

namespace pib::link {

std::expected<ib::link::Reference, LinkFailure> offered_reference(const ib::link::Frame& frame) {
    auto reference = ib::link::Reference::parse(frame.body.subspan(ib::kBurstPayload));
    if (!reference) {
        return failure(LinkError::kMalformedFrame,
                       std::string("reference: ") + to_string(reference.error()));
    }
    return std::move(*reference);
}

std::expected<ib::Burst, LinkFailure> offered_burst(const ib::link::Frame& frame,
                                                    const ib::link::Reference& reference,
                                                    std::span<const std::uint8_t> room,
                                                    CreditLedger& credits) {
    auto burst =
        ib::Burst::parse(frame.body.first<ib::kBurstPayload>(),
                         room.first(ib::kBurstPayload + reference.bytes), kMaxReferenceBytes);
    if (!burst || burst->lrh().vl == ib::kVl15 || !burst->is_middle()) {
        return failure(LinkError::kMalformedFrame,
                       "RUN: no packets that a reference may stand for");
    }
    const unsigned vl = burst->lrh().vl.value();
    if (!credits.take(vl, burst_blocks(*burst))) {
        return failure(LinkError::kCreditExceeded, "VL " + std::to_string(vl));
    }
    return *burst;
}

}  // namespace pib::link
