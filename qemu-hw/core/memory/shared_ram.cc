// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/shared_ram.h"

#include <algorithm>

namespace pib::hca {

namespace {

constexpr uint64_t kPage = link::kPageBytes;
constexpr size_t kNoSlot = link::kReferenceSlots;

// The switch may read a bit at any time. Only the device writes.
void write_word(uint64_t& word, uint64_t value) {
    std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

}  // namespace

RegisteredPages::RegisteredPages(std::span<const RamBlock> blocks, uint8_t* bitmaps) {
    for (const RamBlock& ram : blocks) {
        blocks_.push_back({.ram = ram,
                           .bits = reinterpret_cast<uint64_t*>(bitmaps),
                           .users = std::vector<uint32_t>((ram.bytes + kPage - 1) / kPage)});
        bitmaps += link::bitmap_bytes(ram.bytes);
    }
}

const RegisteredPages::Block* RegisteredPages::find(const HostPiece& piece) const {
    for (const Block& block : blocks_) {
        const auto offset = static_cast<uint64_t>(piece.at - block.ram.base);
        if (piece.at >= block.ram.base && offset <= block.ram.bytes &&
            piece.length <= block.ram.bytes - offset) {
            return &block;
        }
    }
    return nullptr;
}

void RegisteredPages::change(const HostPiece& piece, bool add) {
    auto* block = const_cast<Block*>(find(piece));
    if (block == nullptr || piece.length == 0) {
        return;
    }
    const auto offset = static_cast<uint64_t>(piece.at - block->ram.base);
    const uint64_t last = (offset + piece.length - 1) / kPage;
    for (uint64_t page = offset / kPage; page <= last; ++page) {
        uint32_t& users = block->users[page];
        users = add ? users + 1 : users - 1;
        if (users == (add ? 1u : 0u)) {
            uint64_t& word = block->bits[page / 64];
            write_word(word, word ^ uint64_t{1} << page % 64);
        }
    }
}

void RegisteredPages::clear() {
    for (Block& block : blocks_) {
        std::ranges::fill(block.users, 0);
        for (size_t i = 0; i < (block.users.size() + 63) / 64; ++i) {
            write_word(block.bits[i], 0);
        }
    }
}

bool RegisteredPages::translate(const HostPiece& piece, std::vector<link::RamPiece>& out) const {
    const Block* block = find(piece);
    if (block == nullptr || piece.length > UINT32_MAX) {
        return false;
    }
    out.push_back({.offset = static_cast<uint64_t>(piece.at - block->ram.base),
                   .block = static_cast<uint32_t>(block - blocks_.data()),
                   .length = static_cast<uint32_t>(piece.length)});
    return true;
}

// ---- references

size_t References::oldest_response() const {
    size_t oldest = kNoSlot;
    for (size_t slot = 0; slot < live_.size(); ++slot) {
        if (live_[slot].owner.response &&
            (oldest == kNoSlot || live_[slot].handle < live_[oldest].handle)) {
            oldest = slot;
        }
    }
    return oldest;
}

uint64_t References::open(const ReferenceOwner& owner) {
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

// Frees the slot, which revokes its handle. The fence orders the guest's later accesses after that.
void References::end_slot(size_t slot) {
    if (live_[slot].handle == 0) {
        return;
    }
    const uint64_t handle = live_[slot].handle;
    live_[slot] = {};
    --count_;
    control_.slots[slot].store(0, std::memory_order_release);
    // The switch announces the handle before it checks the slot, so one side sees the other's
    // store.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (control_.reading.load(std::memory_order_acquire) == handle) [[unlikely]] {
        read_ = handle;
    }
}

}  // namespace pib::hca
