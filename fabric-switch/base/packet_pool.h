// SPDX-License-Identifier: GPL-2.0-or-later
// Packets that wait in the switch. Buffers have a few sizes, are reused, and are shared by the
// egress queues of a multicast packet. The credits granted at ingress bound the number of waiting
// packets, because a waiting packet still occupies its receive buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ib/wire/burst.h"

namespace pib::fabric {

// The receive buffer that a packet occupies until it is sent or dropped; none if `blocks` is 0.
struct Origin {
    uint8_t port = 0;     // ingress port, 0: the switch itself
    uint8_t vl = 0;       // ingress VL
    uint32_t blocks = 0;  // credit blocks
    // Number of the link on which the packet arrived: a later link of the port must not return the
    // credits of this one.
    uint64_t link_serial = 0;
};

class OriginSink {
  public:
    virtual ~OriginSink() = default;
    // Called when a packet that occupies a receive buffer has been sent or dropped at each of its
    // egress ports: frees the buffer.
    virtual void release_origin(const Origin& origin) = 0;
};

class PacketPool;

// A counted reference to a packet in a PacketPool.
class PacketRef {
  public:
    PacketRef() = default;
    PacketRef(const PacketRef& other) : buffer_(other.buffer_) { retain(); }
    PacketRef(PacketRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
    PacketRef& operator=(PacketRef other) noexcept {
        std::swap(buffer_, other.buffer_);
        return *this;
    }
    ~PacketRef() { reset(); }

    explicit operator bool() const { return buffer_ != nullptr; }
    void reset();
    [[nodiscard]] std::span<uint8_t> bytes() const;  // LRH to padding, no checksums
    [[nodiscard]] const Origin& origin() const;

  private:
    friend class PacketPool;
    struct Buffer {
        PacketPool* pool;
        Buffer* next_free;
        uint32_t refs;
        uint16_t size;
        uint8_t size_class;
        Origin origin;
        [[nodiscard]] uint8_t* data() { return reinterpret_cast<uint8_t*>(this + 1); }
    };
    explicit PacketRef(Buffer* buffer) : buffer_(buffer) {}
    void retain() const;

    Buffer* buffer_ = nullptr;
};

class PacketPool {
  public:
    explicit PacketPool(OriginSink& sink) : sink_(sink) {}
    PacketPool(const PacketPool&) = delete;
    PacketPool& operator=(const PacketPool&) = delete;

    // A copy of `packet`; empty if it is longer than kMaxPacketBytes. The last reference releases
    // `origin`.
    [[nodiscard]] PacketRef hold(const ib::PacketBytes& packet, const Origin& origin);
    // As hold(), but returns a buffer of `bytes` bytes, into which the caller writes the packet.
    [[nodiscard]] PacketRef take(size_t bytes, const Origin& origin);
    [[nodiscard]] size_t held_packets() const { return held_; }

    static constexpr size_t kMaxPacketBytes = 4352;

  private:
    friend class PacketRef;
    using Buffer = PacketRef::Buffer;
    static constexpr std::array<uint16_t, 5> kSizes = {128, 320, 1152, 2304, kMaxPacketBytes};
    static constexpr size_t kBuffersPerSlab = 32;

    void give_back(Buffer* buffer);
    void add_slab(size_t size_class);

    OriginSink& sink_;
    std::array<Buffer*, kSizes.size()> free_{};
    std::vector<std::unique_ptr<std::max_align_t[]>> slabs_;
    size_t held_ = 0;
};

struct OfferRecord;

// The packets of one burst on their way through the switch. A single packet is a view until a queue
// has to keep it; then it is held in a buffer. Several packets are never held: they are forwarded
// at once, or refused and delivered singly. A transit that ends without a held packet frees its
// receive buffer at once.
class Transit {
  public:
    // `offer`: the location of a payload that stays in the sender's memory; nullptr: `burst` has
    // the payload.
    Transit(PacketPool& pool, OriginSink& sink, const ib::Burst& burst, const OfferRecord* offer,
            const Origin& origin)
        : pool_(pool),
          sink_(&sink),
          lrh_(burst.lrh()),
          bytes_(burst.bytes()),
          size_(burst.size()),
          offer_(offer),
          origin_(origin) {}
    // A held packet, or one that the switch has made.
    Transit(PacketPool& pool, PacketRef packet) : Transit(pool, packet.bytes(), packet.origin()) {
        held_ = std::move(packet);
    }
    Transit(PacketPool& pool, const ib::PacketBytes& packet) : Transit(pool, packet, Origin{}) {}
    Transit(const Transit&) = delete;
    Transit& operator=(const Transit&) = delete;
    ~Transit() {
        if (!held_ && origin_.blocks != 0) {
            sink_->release_origin(origin_);
        }
    }

    // The LRH of the first packet; in the others only PktLen differs.
    [[nodiscard]] const ib::Lrh& lrh() const { return lrh_; }
    [[nodiscard]] const ib::BurstSize& size() const { return size_; }
    [[nodiscard]] bool is_single() const { return size_.packets == 1; }
    [[nodiscard]] const OfferRecord* offer() const { return offer_; }
    [[nodiscard]] const ib::PacketBytes& bytes() const { return bytes_; }
    // The bytes of the first packet that the peer cannot change any more: at least the headers.
    [[nodiscard]] std::span<const uint8_t> head() const {
        return bytes_.head().subspan(is_single() ? 0 : ib::kBurstFirst);
    }
    // All bytes of a single packet. Copies them to a buffer if the peer can still change them.
    [[nodiscard]] std::span<const uint8_t> settled() {
        if (!bytes_.is_stable()) {
            hold();
        }
        return bytes_.head();
    }
    [[nodiscard]] const Origin& origin() const { return origin_; }
    PacketRef hold() {
        if (!held_) {
            held_ = pool_.hold(bytes_, origin_);
            bytes_ = held_.bytes();
        }
        return held_;
    }
    // Call before the packets are delivered singly: each then has a Transit of its own, which frees
    // its part of the receive buffer.
    void split() { origin_.blocks = 0; }

  private:
    Transit(PacketPool& pool, const ib::PacketBytes& packet, const Origin& origin)
        : pool_(pool),
          lrh_(ib::Lrh::parse(packet.head().first<ib::Lrh::kSize>())),
          bytes_(packet),
          size_(ib::BurstSize::of(packet.size())),
          origin_(origin) {}

    PacketPool& pool_;
    OriginSink* sink_ = nullptr;
    ib::Lrh lrh_;
    ib::PacketBytes bytes_;
    ib::BurstSize size_;
    const OfferRecord* offer_ = nullptr;
    Origin origin_;
    PacketRef held_;
};

inline void PacketRef::retain() const {
    if (buffer_ != nullptr) {
        ++buffer_->refs;
    }
}
inline void PacketRef::reset() {
    Buffer* buffer = std::exchange(buffer_, nullptr);
    if (buffer != nullptr && --buffer->refs == 0) {
        buffer->pool->give_back(buffer);
    }
}
inline std::span<uint8_t> PacketRef::bytes() const {
    return {buffer_->data(), buffer_->size};
}
inline const Origin& PacketRef::origin() const {
    return buffer_->origin;
}

}  // namespace pib::fabric
