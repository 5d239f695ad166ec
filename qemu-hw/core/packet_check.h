// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a packet may belong to a connection at all (IBA vol. 1, 9.6.1). What fails is dropped
// without an answer: an answer would go to the peer, who did not send it.
#pragma once

#include "ib/wire/packet.h"
#include "port.h"
#include "qp.h"

namespace pib::hca {

// SLID, DLID and GRH are those of the connection's address vector (C9-47 and neighbours).
bool is_from_peer(const QueuePair& qp, const Port& port, const ib::PacketView& packet);

// C9-43: the P_Key is the connection's.
bool pkey_is_right(const QueuePair& qp, const Port& port, const ib::PacketView& packet);

}  // namespace pib::hca
