// SPDX-License-Identifier: GPL-2.0-or-later
// The pool allocates slabs of buffers of one size, and has a list of free buffers for each size.
#include "base/packet_pool.h"

#include <algorithm>
#include <new>

namespace pib::fabric {

void PacketPool::add_slab(size_t size_class) {
    constexpr size_t kAlign = sizeof(std::max_align_t);
    const size_t stride = (sizeof(Buffer) + kSizes[size_class] + kAlign - 1) / kAlign;
    slabs_.push_back(std::make_unique_for_overwrite<std::max_align_t[]>(stride * kBuffersPerSlab));
    for (size_t i = 0; i < kBuffersPerSlab; ++i) {
        auto* buffer = new (&slabs_.back()[i * stride]) Buffer{};
        buffer->pool = this;
        buffer->size_class = static_cast<uint8_t>(size_class);
        buffer->next_free = std::exchange(free_[size_class], buffer);
    }
}

PacketRef PacketPool::hold(const ib::PacketBytes& packet, const Origin& origin) {
    PacketRef held = take(packet.size(), origin);
    if (held) {
        packet.copy_to(held.bytes());
    }
    return held;
}

PacketRef PacketPool::take(size_t bytes, const Origin& origin) {
    const auto fits = std::ranges::lower_bound(kSizes, bytes);
    if (fits == kSizes.end()) {
        return {};
    }
    const auto size_class = static_cast<size_t>(fits - kSizes.begin());
    if (free_[size_class] == nullptr) {
        add_slab(size_class);
    }
    Buffer* buffer = free_[size_class];
    free_[size_class] = buffer->next_free;
    buffer->refs = 1;
    buffer->size = static_cast<uint16_t>(bytes);
    buffer->origin = origin;
    ++held_;
    return PacketRef(buffer);
}

void PacketPool::give_back(Buffer* buffer) {
    const Origin origin = buffer->origin;
    buffer->next_free = std::exchange(free_[buffer->size_class], buffer);
    --held_;
    if (origin.blocks != 0) {
        sink_.release_origin(origin);
    }
}

}  // namespace pib::fabric
