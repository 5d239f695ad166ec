// SPDX-License-Identifier: GPL-2.0-or-later
// Explains remote access errors: the key and the range of a refused request, and the rule that it
// breaks.
#include "memory/key_check.h"
#include "transport/inbound_request.h"
#include "transport/request_rights.h"

namespace pib::hca::responder {

namespace {

const char* operation_name(const ib::OpcodeInfo& opcode) {
    if (opcode.is_atomic()) {
        return "atomic";
    }
    switch (opcode.kind) {
        case ib::OpKind::kRdmaReadRequest:
            return "RDMA READ";
        case ib::OpKind::kAtomicWrite:
            return "ATOMIC WRITE";
        case ib::OpKind::kFlush:
            return "FLUSH";
        default:
            return "RDMA WRITE";
    }
}

void report(QpServices& services, const QueuePair& qp, const char* operation,
            const KeyedRange& range, const Verdict& broken) {
    if (Journal* journal = services.parts().counters.journal; journal != nullptr) {
        journal->refused({.qpn = qp.qpn,
                          .operation = operation,
                          .rkey = range.key,
                          .addr = range.addr,
                          .length = range.length,
                          .broken = broken});
    }
}

}  // namespace

void explain_refusal(QpServices& services, const QueuePair& qp, const Request& request) {
    const ib::PacketView& packet = request.packet;
    const ResponderState& resp = qp.resp;
    // Packets of a WRITE after its first one have no RETH.
    const KeyedRange range =
        named_range(packet).value_or(KeyedRange{.key = resp.write_rkey,
                                                .addr = resp.write_va + resp.received,
                                                .length = request.bytes(),
                                                .access = access_of(packet)});
    const KeyTable& keys = services.mpt().keys();
    const auto feth = packet.feth();
    const bool whole = feth && feth->selectivity == ib::Feth::kRegion;
    report(services, qp, operation_name(packet.opcode()), range,
           why_refused(keys, qp.remote_user(), flush_range(keys, range, whole)));
}

void explain_read_refusal(QpServices& services, const QueuePair& qp, const KeyUser& user,
                          const KeyedRange& range) {
    report(services, qp, "RDMA READ", range, why_refused(services.mpt().keys(), user, range));
}

}  // namespace pib::hca::responder
