// SPDX-License-Identifier: GPL-2.0-or-later
// Traps of subnet management (IBA 13.4.8, 13.4.9, 14.2.5.1, 14.3.4): their Notices, and the queue
// that sends each one until the SM represses it, never faster than the port's SubnetTimeOut, and
// with growing pauses, so that a busy SM is not flooded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ib/wire/mad.h"

namespace pib::ib {

using Notice = std::array<uint8_t, kSmpDataSize>;

// The following functions make Notices without producer type and issuer, which TrapQueue fills in.
// Trap 128: a port of the switch with this LID changed its link state.
[[nodiscard]] Notice link_state_notice(Lid switch_lid);
// Trap 129, 130 or 131: a threshold was exceeded at a port.
[[nodiscard]] Notice threshold_notice(uint16_t trap_number, Lid lid, uint8_t port);
// Trap 144: the node has new capability masks, or one of `changes` has happened.
struct LocalChanges {
    static constexpr uint16_t kNodeDescription = 1U << 0;
    static constexpr uint16_t kLinkWidthEnabled = 1U << 1;
    static constexpr uint16_t kLinkSpeedEnabled = 1U << 2;

    uint32_t capability_mask = 0;
    uint16_t capability_mask2 = 0;
    uint16_t changes = 0;
};
[[nodiscard]] Notice local_changes_notice(Lid lid, const LocalChanges& changes);
// Trap 145: the node has another SystemImageGUID.
[[nodiscard]] Notice system_image_guid_notice(Lid lid, Guid system_image_guid);
// Trap 256: `smp` had a wrong M_Key; `slid` is its LRH:SLID.
[[nodiscard]] Notice bad_m_key_notice(const Mad& smp, Lid slid);
// Trap 257 (P_Key) or 258 (Q_Key): a packet from `slid` to `dlid` had the wrong key `key`.
struct KeyViolation {
    uint32_t key = 0;
    Sl sl{};
    Lid slid{};
    Lid dlid{};
    Qpn src_qp{};
    Qpn dest_qp{};
    Gid sgid{};
    Gid dgid{};
};
[[nodiscard]] Notice bad_p_key_notice(const KeyViolation& violation);
[[nodiscard]] Notice bad_q_key_notice(const KeyViolation& violation);
// Trap 259: a switch has found a wrong P_Key at its external port `port`. The Notice has the GIDs
// of `violation` if they are not zero.
[[nodiscard]] Notice bad_p_key_at_switch_notice(const KeyViolation& violation, Lid switch_lid,
                                                uint8_t port);

// Attributes of the sending port that a trap needs.
struct TrapSender {
    NodeType producer = NodeType::kChannelAdapter;
    Lid lid{};
    Lid sm_lid{};
    bool active = false;         // PortState is Active
    uint8_t subnet_timeout = 0;  // PortInfo:SubnetTimeOut
};

// Traps of one port (of port 0 at a switch). Plain data with bounded memory.
struct TrapQueue {
    // Limit of traps of one number that wait for repression; further ones are dropped, so that a
    // flood of one number, such as P_Key violations, leaves room for others.
    static constexpr size_t kMaxOfNumber = 8;
    // There are ten numbers: 128 to 131, 144, 145 and 256 to 259.
    static constexpr size_t kMaxPending = 10 * kMaxOfNumber;
    // The pause after each repetition is twice the one before, up to kMaxPauseNs, but at least
    // SubnetTimeOut.
    static constexpr uint64_t kMaxPauseNs = 64'000'000'000;

    struct Pending {
        Notice notice{};
        uint64_t transaction_id = 0;
        uint64_t due_ns = 0;
        uint64_t earliest_ns = 0;  // earliest time of a repetition, SubnetTimeOut after the last
        uint64_t pause_ns = 0;     // the last pause; 0: not sent yet
        bool operator==(const Pending&) const = default;
    };
    std::vector<Pending> pending;
    uint64_t next_transaction_id = 1;
    uint64_t quiet_until_ns = 0;  // no trap leaves before this time
    Lid sm_lid{};                 // SM that the last trap was for

    bool operator==(const TrapQueue&) const = default;

    // Adds a trap, or renews the waiting trap with the same number and details: its pauses begin
    // anew, with a new transaction ID if it was sent.
    void add(const Notice& notice, uint64_t now_ns);
    // The next trap MAD that is due, LID-routed, for QP0 of `sender.sm_lid` on the SM's SL. Traps
    // wait while the port is not Active or has no MasterSMLID. All are due again after a change of
    // the SM.
    [[nodiscard]] std::optional<Mad> next(const TrapSender& sender, uint64_t now_ns);
    // Time in ns at which next() may return a trap for this SM; nullopt while the queue is empty.
    [[nodiscard]] std::optional<uint64_t> deadline_ns(Lid sm) const;
    // Handles TrapRepress: removes the trap with its transaction ID.
    void repress(const Mad& trap_repress);
};

}  // namespace pib::ib
