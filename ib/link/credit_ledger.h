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
    using Capacity = std::array<std::uint32_t, kDataVls>;
    // Room for two packets of 4096 bytes: credits go out in quarters of the buffer.
    static constexpr std::uint32_t kMinReceiveBlocks = 160;

    // `capacity` is the receive buffer of each VL; CREDIT goes through `channel`.
    CreditLedger(const Capacity& capacity, FrameChannel& channel);

    // The receive buffer of each VL that has any becomes at least so large.
    void enlarge(std::uint32_t least);
    // The own LINK of this epoch is sent: nothing is sent or granted under it yet.
    void restart_sending(std::uint16_t epoch);
    // The peer's LINK of this epoch has come: nothing has come under it yet. Grants the buffer.
    void restart_receiving(std::uint16_t epoch);
    // No CREDIT is sent any more.
    void stop() { peer_epoch_.reset(); }

    // Blocks that the peer would still take on a data VL.
    [[nodiscard]] std::uint32_t available(unsigned vl) const {
        return vls_[vl].send_limit - vls_[vl].sent;
    }
    void spend(unsigned vl, std::uint32_t blocks) { vls_[vl].sent += blocks; }
    // CREDIT has come.
    [[nodiscard]] LinkResult receive(const ib::link::Frame& frame);

    // Takes the receive buffer of packets; false: more than was granted, and they take none. What
    // is held never exceeds the buffer, however far the peer has run ahead of its limit.
    [[nodiscard]] bool take(unsigned vl, std::uint32_t blocks) {
        Vl& state = vls_[vl];
        state.received += blocks;
        const bool granted = static_cast<std::int32_t>(state.granted - state.received) >= 0;
        if (!granted || state.capacity - state.held < blocks) {
            return false;
        }
        state.held += blocks;
        return true;
    }
    // Gives receive buffer back; CREDIT follows once there is enough of it.
    void release(unsigned vl, std::uint32_t blocks);
    // Sends CREDIT if enough of the buffer has become free.
    void grant(unsigned vl);
    // Sends what there was no room for.
    void send_unsent();

  private:
    struct Vl {
        std::uint32_t sent = 0;        // since the own LINK
        std::uint32_t send_limit = 0;  // that the peer granted
        std::uint32_t received = 0;    // since the peer's LINK
        std::uint32_t granted = 0;     // limit last told to the peer
        std::uint32_t held = 0;        // delivered and not yet released
        std::uint32_t capacity = 0;
    };

    void grant_all();

    FrameChannel& channel_;
    std::array<Vl, kDataVls> vls_{};
    std::uint16_t own_epoch_ = 0;
    std::optional<std::uint16_t> peer_epoch_;  // no value: nothing can be granted
    bool unsent_ = false;                      // a CREDIT waits for room in the output
};

}  // namespace pib::link
