// SPDX-License-Identifier: GPL-2.0-or-later
// Checks whether a packet may belong to a connection (IBA vol. 1, 9.6.1). The responder drops other
// packets without a NAK, because a NAK would go to the peer and not to the packet's sender.
#pragma once

#include "ib/wire/packet.h"
#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// Whether SLID, DLID and GRH fit the address vector of a connection (C9-47 and the next clauses).
[[nodiscard]] bool is_from(const AddressVector& av, const Port& port, const ib::PacketView& packet);

// Whether the P_Key matches the entry of the port's table that the connection uses (C9-43).
[[nodiscard]] bool pkey_is_right(uint16_t pkey_index, const Port& port,
                                 const ib::PacketView& packet);

}  // namespace pib::hca
