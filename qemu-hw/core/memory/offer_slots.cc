// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/offer_slots.h"

namespace pib::hca {

namespace {

constexpr size_t kNoSlot = link::kOfferSlots;

}  // namespace

size_t OfferSlots::oldest_response() const {
    size_t oldest = kNoSlot;
    for (size_t slot = 0; slot < live_.size(); ++slot) {
        if (live_[slot].owner.response &&
            (oldest == kNoSlot || live_[slot].handle < live_[oldest].handle)) {
            oldest = slot;
        }
    }
    return oldest;
}

uint64_t OfferSlots::open(const OfferOwner& owner) {
    if (count_ == live_.size()) {
        const size_t oldest = oldest_response();
        if (oldest == kNoSlot) {
            return 0;
        }
        end_slot(oldest);
    }
    do {
        ++last_;  // terminates, because a slot is free
    } while (live_[last_ % live_.size()].handle != 0);
    const size_t slot = last_ % live_.size();
    live_[slot] = {.handle = last_, .owner = owner};
    ++count_;
    control_.slots[slot].store(last_, std::memory_order_release);
    return last_;
}

// Frees the slot, which revokes its handle. The fence orders the guest's later accesses after the
// revocation.
void OfferSlots::end_slot(size_t slot) {
    if (live_[slot].handle == 0) {
        return;
    }
    const uint64_t handle = live_[slot].handle;
    live_[slot] = {};
    --count_;
    control_.slots[slot].store(0, std::memory_order_release);
    // The switch writes the handle to `reading` before it checks the slot, so at least one side
    // sees the other's store.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (control_.reading.load(std::memory_order_acquire) == handle) [[unlikely]] {
        read_ = handle;
    }
}

}  // namespace pib::hca
