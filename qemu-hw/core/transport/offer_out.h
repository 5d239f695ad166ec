// SPDX-License-Identifier: GPL-2.0-or-later
// The sender's half of peer copy: MIDDLE packets whose payload the switch takes out of guest memory
// itself.
#pragma once

#include "memory/one_copy.h"
#include "qp/qp_services.h"
#include "transport/packet_out.h"

namespace pib::hca {

// Offers as many MIDDLE packets without ACK as the link takes now, and returns how many. 0: nothing
// has happened, and they go with their payload. locate(bytes, located) finds the payload.
template <typename Last, typename Locate>
uint32_t send_offer(QpServices& services, const QueuePair& qp, const BurstOut& out, Last&& last,
                    Locate&& locate, ReferenceOwner owner) {
    OneCopy& memory = *services.one_copy();
    const Outlet to = services.outlet_of(qp);
    TxRequest request = tx_request(to, out.first, out.longest());
    request.packets = out.packets;
    request.mtu = out.mtu;
    request.is_offer = true;
    const link::BurstRoom room = to.port.begin(request);
    const uint32_t bytes = room.packets * out.mtu;
    Located located;
    if (room.packets < 2 || bytes < memory.min_bytes() || !locate(bytes, located)) {
        return 0;
    }
    const ib::PacketHeaders end = last(room.packets);
    const auto size = ib::BurstBuilder::size(out.first, end, room.packets, out.mtu, bytes,
                                             ib::link::kMaxReferenceBytes);
    owner.qpn = qp.qpn;
    owner.end = end.bth.psn + 1;
    owner.keys = located.keys;
    if (!size) {
        return 0;
    }
    ib::BurstBuilder::headers(room.bytes(), *size, out.first, end, bytes);
    const auto reference = memory.open(qp.port(), located, owner);
    if (!reference) {
        return 0;
    }
    to.port.commit(*size, {.handle = reference->handle, .pieces = reference->pieces});
    return room.packets;
}

}  // namespace pib::hca
