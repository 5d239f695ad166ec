// SPDX-License-Identifier: GPL-2.0-or-later
// Checks whether a packet may belong to a connection (IBA vol. 1, 9.6.1). Other packets are dropped
// without an answer, which would go to the peer although another node sent the packet.
#pragma once

#include "ib/wire/packet.h"
#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// Whether SLID, DLID and GRH are those of a connection's address vector (C9-47 and neighbours).
bool is_from(const AddressVector& av, const Port& port, const ib::PacketView& packet);

// Whether the P_Key matches the entry of the port's table that the connection uses (C9-43).
bool pkey_is_right(uint16_t pkey_index, const Port& port, const ib::PacketView& packet);

}  // namespace pib::hca
