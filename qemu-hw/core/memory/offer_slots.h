// SPDX-License-Identifier: GPL-2.0-or-later
// The valid offers of a link, and their slots in its control memory (docs/fabric-protocol.md, "Peer
// copy").
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ib/link/peer_copy_control.h"
#include "ib/wire/types.h"
#include "memory/sg_list.h"

namespace pib::hca {

// The QP and the keys of an offer. The offer of a request ends when its packets are acknowledged;
// any offer ends when one of its keys is revoked.
struct OfferOwner {
    uint32_t qpn = 0;
    bool response = false;  // READ response: no packet acknowledges it
    ib::Psn end{};          // request: the PSN after the offer's last packet
    KeySet keys{};
};

class OfferSlots {
  public:
    explicit OfferSlots(link::PeerCopyControl& control) : control_(control) {}

    // Opens an offer and returns its handle. If no slot is free, revokes the offer of the oldest
    // READ response. 0: all slots belong to requests.
    uint64_t open(const OfferOwner& owner);
    // Revokes a handle. The switch may read the memory until being_read() is false.
    void end(uint64_t handle) { end_slot(handle % link::kOfferSlots); }
    // Ends the offers for which gone(owner) is true.
    template <typename Gone>
    void end_if(Gone&& gone) {
        for (size_t slot = 0; slot < live_.size(); ++slot) {
            if (live_[slot].handle != 0 && gone(live_[slot].owner)) {
                end_slot(slot);
            }
        }
    }
    // Whether the switch still reads the memory of a revoked offer.
    [[nodiscard]] bool being_read() {
        if (read_ != 0 && control_.reading.load(std::memory_order_acquire) != read_) {
            read_ = 0;
        }
        return read_ != 0;
    }
    // Makes being_read() false. Call this when the switch does not answer.
    void drop_reader() { read_ = 0; }
    uint32_t count() const { return count_; }

  private:
    struct Live {
        uint64_t handle = 0;
        OfferOwner owner;
    };
    void end_slot(size_t slot);
    size_t oldest_response() const;

    link::PeerCopyControl& control_;
    std::array<Live, link::kOfferSlots> live_{};
    uint64_t last_ = 0;
    uint64_t read_ = 0;  // the revoked handle that the switch is reading, one at a time; 0: none
    uint32_t count_ = 0;
};

}  // namespace pib::hca
