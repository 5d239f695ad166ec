// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a packet may belong to a connection at all (IBA vol. 1, 9.6.1). What fails is dropped
// without an answer: an answer would go to the peer, who did not send it.
#pragma once

#include "ib/wire/packet.h"
#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// SLID, DLID and GRH are those of the address vector of a connection (C9-47 and neighbours).
bool is_from(const pib_hca_av& av, const Port& port, const ib::PacketView& packet);

// C9-43: the P_Key is that of the port's table that the connection uses.
bool pkey_is_right(uint16_t pkey_index, const Port& port, const ib::PacketView& packet);

}  // namespace pib::hca
