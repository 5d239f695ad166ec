// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/credit_ledger.h"

#include <algorithm>
#include <utility>

namespace pib::link {

CreditLedger::CreditLedger(const Capacity& capacity, FrameChannel& channel) : channel_(channel) {
    for (unsigned vl = 0; vl < kDataVls; ++vl) {
        vls_[vl].capacity = capacity[vl] == 0 ? 0 : std::max(capacity[vl], kMinReceiveBlocks);
    }
}

void CreditLedger::enlarge(uint32_t least) {
    for (Vl& vl : vls_) {
        vl.capacity = vl.capacity == 0 ? 0 : std::max(vl.capacity, least);
    }
}

void CreditLedger::restart_sending(uint16_t epoch) {
    own_epoch_ = epoch;
    for (Vl& vl : vls_) {
        vl.sent = vl.send_limit = 0;
    }
}

void CreditLedger::restart_receiving(uint16_t epoch) {
    peer_epoch_ = epoch;
    for (Vl& vl : vls_) {
        vl.received = vl.granted = 0;
    }
    grant_all();
}

LinkResult CreditLedger::receive(const link::Frame& frame) {
    const auto credit = link::Credit::parse(frame.body);
    if (!credit) {
        return failure(LinkError::kMalformedFrame, to_string(credit.error()));
    }
    if (credit->epoch != own_epoch_) {
        return {};
    }
    Vl& vl = vls_[credit->vl];
    if (static_cast<int32_t>(credit->limit - vl.send_limit) < 0) {
        return failure(LinkError::kMalformedFrame, "credit limit moves backwards");
    }
    vl.send_limit = credit->limit;
    return {};
}

void CreditLedger::release(unsigned vl, uint32_t blocks) {
    if (vl >= kDataVls) {
        return;
    }
    vls_[vl].held -= std::min(vls_[vl].held, blocks);
    grant(vl);
}

// Sends CREDIT when a quarter of the buffer has become free, not for every packet.
void CreditLedger::grant(unsigned vl) {
    Vl& state = vls_[vl];
    const uint32_t limit = state.received + state.capacity - state.held;
    const uint32_t step = std::max(state.capacity / 4, 1U);
    if (!peer_epoch_ || state.capacity == 0 || limit - state.granted < step) {
        return;
    }
    if (channel_.send(link::Credit{static_cast<uint8_t>(vl), *peer_epoch_, limit})) {
        state.granted = limit;
    } else {
        unsent_ = true;
    }
}

void CreditLedger::grant_all() {
    unsent_ = false;
    for (unsigned vl = 0; vl < kDataVls; ++vl) {
        grant(vl);
    }
}

void CreditLedger::send_unsent() {
    if (unsent_) {
        grant_all();
    }
}

}  // namespace pib::link
