// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/send_window.h"

#include <algorithm>

namespace pib::hca {
namespace {

// Bytes of `slots` slots. The budget is charged for the slots of a window beyond kFirstSlots, which
// every window gets.
uint64_t bytes_of(uint32_t slots, uint32_t stride) {
    return slots * (uint64_t{stride} + sizeof(SendRequest));
}

}  // namespace

std::span<uint8_t> SendWindow::reserve(uint32_t stride, SnapshotBudget& budget) {
    if (count_ == capacity() && !grow(stride, budget)) {
        return {};
    }
    return {bytes_.data() + uint64_t{slot(count_)} * stride_, stride_};
}

SendRequest& SendWindow::push(uint32_t counter, ib::Psn psn_first) {
    SendRequest& request = requests_[slot(count_)];
    request.start(counter, psn_first);
    ++count_;
    return request;
}

bool SendWindow::grow(uint32_t stride, SnapshotBudget& budget) {
    const uint32_t old = capacity();
    const uint32_t wanted = old == 0 ? kFirstSlots : old * 2;
    const uint64_t cost = old == 0 ? 0 : bytes_of(wanted - old, stride);
    if (wanted > kMaxSlots || cost > budget.left) {
        return false;
    }
    std::vector<SendRequest> requests(wanted);
    std::vector<uint8_t> bytes(uint64_t{wanted} * stride);
    for (uint32_t i = 0; i < count_; ++i) {
        requests[i] = requests_[slot(i)];
        std::ranges::copy(bytes_at(i), bytes.begin() + int64_t{i} * stride);
    }
    budget.left -= cost;
    requests_ = std::move(requests);
    bytes_ = std::move(bytes);
    stride_ = stride;
    head_ = 0;
    return true;
}

void SendWindow::release(SnapshotBudget& budget) {
    budget.left += bytes_of(capacity() - std::min(capacity(), kFirstSlots), stride_);
    *this = {};
}

}  // namespace pib::hca
