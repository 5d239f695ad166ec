// SPDX-License-Identifier: GPL-2.0-or-later
// The sender's half of peer copy: offers MIDDLE packets. The switch copies their payload out of
// guest memory.
#pragma once

#include "memory/peer_copy.h"
#include "qp/qp_services.h"
#include "transport/packet_out.h"

namespace pib::hca {

// Offers as many MIDDLE packets without AckReq as the link takes now, and returns how many. 0:
// nothing has happened, and the caller sends the packets with their payload. last(n) returns the
// headers of the n-th packet, from 1 on; locate(bytes, sg_list) finds the payload in guest memory.
template <typename Last, typename Locate>
uint32_t send_offer(QpServices& services, const QueuePair& qp, const BurstOut& out, Last&& last,
                    Locate&& locate, OfferOwner owner) {
    PeerCopy& memory = *services.peer_copy();
    const Outlet to = services.outlet_of(qp);
    TxRequest request = tx_request(to, out.first, out.longest());
    request.packets = out.packets;
    request.mtu = out.mtu;
    request.is_offer = true;
    const link::BurstRoom room = to.port.begin(request);
    const uint32_t bytes = room.packets * out.mtu;
    SgList sg_list;
    if (room.packets < 2 || bytes < memory.min_bytes() || !locate(bytes, sg_list)) {
        return 0;
    }
    const ib::PacketHeaders end = last(room.packets);
    const auto size =
        ib::BurstBuilder::size(out.first, end, room.packets, out.mtu, bytes, link::kMaxOfferBytes);
    owner.qpn = qp.qpn;
    owner.end = end.bth.psn + 1;
    owner.keys = sg_list.keys;
    if (!size) {
        return 0;
    }
    ib::BurstBuilder::headers(room.bytes(), *size, out.first, end, bytes);
    const auto offer = memory.open(qp.port(), sg_list, owner);
    if (!offer) {
        return 0;
    }
    to.port.commit(*size, *offer);
    return room.packets;
}

}  // namespace pib::hca
