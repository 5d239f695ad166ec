// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/packet_check.h"

#include <algorithm>

namespace pib::hca {
namespace {

bool equal(const ib::Gid& gid, const uint8_t* bytes) {
    return bytes != nullptr && std::equal(gid.bytes.begin(), gid.bytes.end(), bytes);
}

bool is_own_gid(const Port& port, const ib::Gid& gid) {
    for (unsigned index = 0; index < Limits::kGids; ++index) {
        if (equal(gid, port.gid(index))) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool is_from(const AddressVector& av, const Port& port, const ib::PacketView& packet) {
    const auto path_bits = static_cast<uint16_t>(av.src_path_bits & ((1u << port.lmc()) - 1u));
    if (packet.lrh().slid.value() != av.dlid ||
        packet.lrh().dlid.value() != (port.lid() | path_bits)) {
        return false;
    }
    if (!packet.grh()) {
        return !av.has_grh;
    }
    // A peer may add a GRH; it must then be addressed to this port.
    return av.has_grh ? equal(packet.grh()->sgid, av.dgid.data()) &&
                            equal(packet.grh()->dgid, port.gid(av.sgid_index))
                      : is_own_gid(port, packet.grh()->dgid);
}

bool pkey_is_right(uint16_t pkey_index, const Port& port, const ib::PacketView& packet) {
    return ib::pkeys_match(packet.bth().pkey, ib::PKey(port.pkey(pkey_index)));
}

}  // namespace pib::hca
