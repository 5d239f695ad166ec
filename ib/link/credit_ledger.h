// SPDX-License-Identifier: GPL-2.0-or-later
// Credits of a link's data VLs in both directions (docs/fabric-protocol.md, "Credits"; IBA 7.9).
// Counts are blocks of 64 bytes, modulo 2^32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ib/link/frame_channel.h"
#include "ib/link/link_events.h"
#include "ib/link/link_limits.h"

namespace pib::link {

class CreditLedger {
  public:
    using Capacity = std::array<uint32_t, kDataVls>;
    // Room for two packets of 4096 bytes of payload: a quarter of the buffer may be free but not
    // granted yet, and one packet must fit in the rest.
    static constexpr uint32_t kMinReceiveBlocks = 160;

    // `capacity` is the receive buffer of each VL in credit blocks; CREDIT frames are sent through
    // `channel`.
    CreditLedger(const Capacity& capacity, FrameChannel& channel);

    // Enlarges the receive buffer of each VL that has any to at least `least` blocks.
    void enlarge(uint32_t least);
    // Called after this side has sent LINK with this epoch: resets the sent blocks and their limit.
    void restart_sending(uint16_t epoch);
    // Called after the peer has sent LINK with this epoch: resets the received blocks, and grants
    // the peer the free part of the buffer.
    void restart_receiving(uint16_t epoch);
    // Stops sending CREDIT.
    void stop() { peer_epoch_.reset(); }

    // Credit blocks that this side may still send on a data VL.
    [[nodiscard]] uint32_t available(unsigned vl) const {
        return vls_[vl].send_limit - vls_[vl].sent;
    }
    void spend(unsigned vl, uint32_t blocks) { vls_[vl].sent += blocks; }
    // Handles the peer's CREDIT.
    [[nodiscard]] LinkResult receive(const link::Frame& frame);

    // Credit blocks that the peer may still send on a data VL.
    [[nodiscard]] uint32_t granted_to_peer(unsigned vl) const {
        const auto left = static_cast<int32_t>(vls_[vl].granted - vls_[vl].received);
        return left > 0 ? static_cast<uint32_t>(left) : 0;
    }
    // Counts received packets and takes receive buffer for them. False, and no buffer is taken, if
    // the peer has exceeded the limit it was granted. `held` never exceeds the buffer.
    [[nodiscard]] bool take(unsigned vl, uint32_t blocks) {
        Vl& state = vls_[vl];
        state.received += blocks;
        const bool granted = static_cast<int32_t>(state.granted - state.received) >= 0;
        if (!granted || state.capacity - state.held < blocks) {
            return false;
        }
        state.held += blocks;
        return true;
    }
    // Frees receive buffer, and calls grant().
    void release(unsigned vl, uint32_t blocks);
    // Sends CREDIT if a quarter of the buffer is free and not granted yet.
    void grant(unsigned vl);
    // Sends CREDIT that found no room before.
    void send_unsent();

  private:
    struct Vl {
        uint32_t sent = 0;        // blocks since this side's LINK
        uint32_t send_limit = 0;  // limit in the peer's newest CREDIT
        uint32_t received = 0;    // blocks since the peer's LINK
        uint32_t granted = 0;     // limit in the newest CREDIT sent
        uint32_t held = 0;        // blocks delivered and not yet released
        uint32_t capacity = 0;
    };

    void grant_all();

    FrameChannel& channel_;
    std::array<Vl, kDataVls> vls_{};
    uint16_t own_epoch_ = 0;
    std::optional<uint16_t> peer_epoch_;  // nullopt: no LINK yet, so no CREDIT
    bool unsent_ = false;                 // a CREDIT waits for room in the output
};

}  // namespace pib::link
