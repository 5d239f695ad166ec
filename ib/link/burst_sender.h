// SPDX-License-Identifier: GPL-2.0-or-later
// Sends packets: finds room for as many as the credits and the channel admit, and writes their
// frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/link/burst_room.h"
#include "ib/link/credit_ledger.h"
#include "ib/link/frame_channel.h"
#include "ib/link/link_training.h"

namespace pib::link {

class BurstSender {
  public:
    BurstSender(const LinkTraining& training, CreditLedger& credits, FrameChannel& channel)
        : training_(training), credits_(credits), channel_(channel) {}

    // Called when both sides have agreed on bursts. Until then begin() admits one packet at a time.
    void allow_bursts() { bursts_ = true; }

    // Whether begin() would find room for one packet; `bytes` as BurstRequest::longest. VL15 needs
    // no credits. If a ring is full, can_send(), and begin() except for an offer, register that a
    // sender wants room: see FrameChannel::room_is_back().
    [[nodiscard]] bool can_send(unsigned vl, size_t bytes, SendCrc crc = SendCrc::kElided) const;
    // Credit blocks that this side may still send on a data VL; 0 while the link is down.
    [[nodiscard]] uint32_t credits(unsigned vl) const {
        return training_.is_up() && vl < kDataVls ? credits_.available(vl) : 0;
    }
    // Credit blocks that the peer may still send on a data VL.
    [[nodiscard]] uint32_t granted_to_peer(unsigned vl) const {
        return credits_.granted_to_peer(vl);
    }
    // See LinkEndpoint::begin() and commit().
    [[nodiscard]] BurstRoom begin(const BurstRequest& request);
    void commit(const ib::BurstSize& size, const OfferedPayload& offered);

  private:
    // The room that begin() has found.
    struct Pending {
        std::span<uint8_t> frame;  // header, then packets
        unsigned vl = 0;
        SendCrc crc{};
        bool is_offer = false;
    };

    [[nodiscard]] uint32_t limit(const BurstRequest& request) const;
    [[nodiscard]] uint32_t offer_limit(const BurstRequest& request) const;
    void commit_packet(size_t bytes);
    void commit_burst(const ib::BurstSize& size, const OfferedPayload& offered);
    void commit_frame(const std::array<uint8_t, link::kHeaderSize>& header, size_t body,
                      uint32_t blocks);

    const LinkTraining& training_;
    CreditLedger& credits_;
    FrameChannel& channel_;
    bool bursts_ = false;
    Pending pending_;
};

}  // namespace pib::link
