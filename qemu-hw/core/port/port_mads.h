// SPDX-License-Identifier: GPL-2.0-or-later
// The MADs that a port itself handles and sends, as an HCA's firmware does: SMPs, PMA queries,
// traps.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "port/egress.h"
#include "port/port_attributes.h"

namespace pib::hca {

class PortMads {
  public:
    PortMads(PortContext& port, PortAttributes& attributes, Egress& egress)
        : port_(port), attributes_(attributes), egress_(egress) {}

    // Result for a packet to QP0 or QP1.
    enum class Taken : uint8_t {
        kAnswered,
        kDropped,
        kForeign,  // the guest receives it
    };
    Taken smp_in(const ib::PacketView& packet, bool looped);
    Taken gmp_in(const ib::PacketView& packet);

    void send_traps(uint64_t now_ns);
    // Sends MADs that found no room before.
    void resume();
    void clear() { queued_.clear(); }
    // Counts a lost MAD to or from QP0 (`vl15`) or QP1: VL15Dropped, QP1Dropped.
    void dropped(bool vl15);

  private:
    // A MAD to send: LRH, optional GRH, BTH, DETH and the MAD.
    struct OwnMad {
        TxRequest request{};
        bool loopback = false;  // to this port, whatever the DLID is
        std::array<uint8_t, 324> bytes;
    };

    Taken answer_smp(const ib::PacketView& packet, const ib::Mad& request, bool looped);
    [[nodiscard]] bool direct_reply(const ib::Lrh& request, ib::Mad& reply,
                                    ib::PacketHeaders& headers, bool& loopback) const;
    void answer_gmp(const ib::PacketView& packet, const ib::Mad& request);
    ib::PacketHeaders reply_headers(const ib::PacketView& request) const;
    ib::Lid reply_slid(ib::Lid request_dlid) const;
    void send(const ib::PacketHeaders& headers, const ib::Mad& mad, bool loopback);
    [[nodiscard]] bool try_send(const OwnMad& mad);

    PortContext& port_;
    PortAttributes& attributes_;
    Egress& egress_;
    std::deque<OwnMad> queued_;
    ib::Psn psn_;
};

}  // namespace pib::hca
