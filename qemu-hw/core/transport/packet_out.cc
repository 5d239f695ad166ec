// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/packet_out.h"

#include <algorithm>

#include "memory/peer_copy.h"
#include "qp/qp_services.h"

namespace pib::hca {
namespace {

ib::Gid gid_of(const uint8_t* bytes) {
    ib::Gid gid;
    if (bytes != nullptr) {
        std::copy_n(bytes, gid.bytes.size(), gid.bytes.begin());
    }
    return gid;
}

}  // namespace

void address_packet(ib::PacketHeaders& headers, const AddressVector& av, const Port& port) {
    const auto path_bits = static_cast<uint16_t>(av.src_path_bits & ((1u << port.lmc()) - 1u));
    headers.lrh.sl = ib::Sl(av.sl);
    headers.lrh.dlid = ib::Lid(av.dlid);
    headers.lrh.slid = ib::Lid(static_cast<uint16_t>(port.lid() | path_bits));
    if (av.has_grh) {
        headers.grh = ib::Grh{.tclass = av.traffic_class,
                              .flow_label = av.flow_label,
                              .hop_lmt = av.hop_limit,
                              .sgid = gid_of(port.gid(av.sgid_index)),
                              .dgid = gid_of(av.dgid.data())};
    }
}

namespace {

// The opcode bits that name the transport. The bits of the operation are the same for all connected
// transports (IBA 9.2.1).
uint8_t transport_bits(const QueuePair& qp) {
    switch (qp.service()) {
        case ib::Service::kUc:
            return ib::opcode::kUc;
        case ib::Service::kXrc:
            return ib::opcode::kXrc;
        default:
            return ib::opcode::kRc;
    }
}

}  // namespace

ib::PacketHeaders connected_headers(const QueuePair& qp, const Port& port, uint8_t operation,
                                    ib::Psn psn) {
    ib::PacketHeaders headers;
    address_packet(headers, qp.attr.av, port);
    headers.bth.opcode = static_cast<uint8_t>(transport_bits(qp) | operation);
    headers.bth.mig_req = qp.attr.path_mig_state == PathMigration::kMigrated;  // IBA 17.2.8
    headers.bth.pkey = ib::PKey(port.pkey(qp.attr.pkey_index));
    headers.bth.dest_qp = ib::Qpn(qp.attr.dest_qpn);
    headers.bth.psn = psn;
    return headers;
}

}  // namespace pib::hca
