// SPDX-License-Identifier: GPL-2.0-or-later
// Conversion between MADs and packets: MADs of subnet management are for QP0, those of all other
// classes for QP1 (IBA 13.5.1).
#pragma once

#include <array>
#include <optional>
#include <span>

#include "ib/mgmt/port_attrs.h"
#include "ib/wire/packet.h"

namespace pib::fabric {

// The MAD in a UD packet to `qp`; nullopt if the packet has none, or is an SMP with a GRH, which
// subnet management does not use (IBA 14.2.1.1).
[[nodiscard]] std::optional<ib::Mad> mad_of(const ib::PacketView& packet, ib::Qpn qp);
// The MAD in a packet to QP1 of `port`; nullopt if the packet has none, if its P_Key or Q_Key is
// wrong, or if its SLID is not unicast, so that it cannot be answered. A wrong key is counted in
// PortInfo, and reported by trap 257 or 258 (IBA 10.9.4, 14.2.5.1): the caller sends the port's
// traps.
[[nodiscard]] std::optional<ib::Mad> gmp_of(const ib::PacketView& packet, ib::PortAttrs& port,
                                            uint64_t now_ns);

// A UD SEND packet with a MAD, from LRH to payload, without ICRC and VCRC.
class MadPacket {
  public:
    MadPacket(const ib::PacketHeaders& headers, const ib::Mad& mad);
    [[nodiscard]] std::span<const uint8_t> bytes() const { return std::span(buffer_).first(size_); }

  private:
    std::array<uint8_t, ib::kMaxHeaders + ib::kMadSize> buffer_;
    size_t size_ = 0;
};

// Headers of a packet from QP0 to QP0 on VL15.
[[nodiscard]] ib::PacketHeaders smp_headers(ib::Lid dlid, ib::Lid slid, ib::Sl sl, ib::Psn psn);
// Headers of the response to `request`, a packet that gmp_of() has accepted.
[[nodiscard]] ib::PacketHeaders gmp_reply_headers(const ib::PacketView& request,
                                                  const ib::PortAttrs& port, ib::Psn psn);

}  // namespace pib::fabric
