// SPDX-License-Identifier: GPL-2.0-or-later
// Checks whether a packet may belong to a connection (IBA vol. 1, 9.6.1). Other packets are dropped
// without an answer, which would go to the peer although another node sent the packet.
#pragma once

#include "ib/wire/packet.h"
#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// SLID, DLID and GRH are those of the address vector of a connection (C9-47 and neighbours).
bool is_from(const AddressVector& av, const Port& port, const ib::PacketView& packet);

// C9-43: the P_Key is that of the port's table that the connection uses.
bool pkey_is_right(uint16_t pkey_index, const Port& port, const ib::PacketView& packet);

}  // namespace pib::hca
