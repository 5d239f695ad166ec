// SPDX-License-Identifier: GPL-2.0-or-later
// Packets from a port to itself: a bounded queue in two halves. New packets enter one half while
// the other one is delivered, so a packet's bytes do not move while its receiver sends.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "ib/link/output_buffer.h"

namespace pib::hca {

class PortLoopback {
  public:
    // Bytes of each half. Data packets leave some of them free for SMPs, as on a link.
    static constexpr size_t kCapacity = 256 * 1024;
    static constexpr size_t kReservedForVl15 = 16 * 1024;

    [[nodiscard]] bool can_send(bool vl15, size_t bytes) const {
        return filling_.has_room(sizeof(uint32_t) + bytes + (vl15 ? 0 : kReservedForVl15));
    }
    // Room for one packet, or an empty span; commit() queues the packet.
    std::span<uint8_t> begin(bool vl15, size_t bytes) {
        if (!can_send(vl15, bytes)) {
            return {};
        }
        pending_ = filling_.reserve(sizeof(uint32_t) + bytes);
        return pending_.subspan(sizeof(uint32_t));
    }
    void commit(size_t packet_bytes) {
        const auto bytes = static_cast<uint32_t>(packet_bytes);
        std::memcpy(pending_.data(), &bytes, sizeof bytes);
        filling_.commit(sizeof bytes + packet_bytes);
    }

    [[nodiscard]] bool empty() const { return filling_.size() == 0 && draining_.size() == 0; }
    // The oldest packet, empty if there is none. It is valid until pop(), even if packets are
    // queued.
    std::span<const uint8_t> front() {
        if (draining_.size() == 0) {
            std::swap(filling_, draining_);
        }
        if (draining_.size() == 0) {
            return {};
        }
        const auto pending = draining_.pending();
        uint32_t bytes;
        std::memcpy(&bytes, pending.data(), sizeof bytes);
        return pending.subspan(sizeof bytes, bytes);
    }
    void pop() { draining_.consume(sizeof(uint32_t) + front().size()); }
    void clear() {
        filling_.clear();
        draining_.clear();
    }

  private:
    link::OutputBuffer filling_{kCapacity};
    link::OutputBuffer draining_{kCapacity};
    std::span<uint8_t> pending_;
};

}  // namespace pib::hca
