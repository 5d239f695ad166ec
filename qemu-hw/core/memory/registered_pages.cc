// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/registered_pages.h"

#include <algorithm>
#include <atomic>

namespace pib::hca {

namespace {

constexpr uint64_t kPage = link::kPageBytes;

// The switch may read a bit at any time. Only the device writes bits.
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

const RegisteredPages::Block* RegisteredPages::find(const HostSegment& segment) const {
    for (const Block& block : blocks_) {
        const auto offset = static_cast<uint64_t>(segment.at - block.ram.base);
        if (segment.at >= block.ram.base && offset <= block.ram.bytes &&
            segment.length <= block.ram.bytes - offset) {
            return &block;
        }
    }
    return nullptr;
}

void RegisteredPages::change(const HostSegment& segment, bool add) {
    auto* block = const_cast<Block*>(find(segment));
    if (block == nullptr || segment.length == 0) {
        return;
    }
    const auto offset = static_cast<uint64_t>(segment.at - block->ram.base);
    const uint64_t last = (offset + segment.length - 1) / kPage;
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

bool RegisteredPages::translate(const HostSegment& segment,
                                std::vector<link::BlockSegment>& out) const {
    const Block* block = find(segment);
    if (block == nullptr || segment.length > UINT32_MAX) {
        return false;
    }
    out.push_back({.offset = static_cast<uint64_t>(segment.at - block->ram.base),
                   .block = static_cast<uint32_t>(block - blocks_.data()),
                   .length = static_cast<uint32_t>(segment.length)});
    return true;
}

}  // namespace pib::hca
