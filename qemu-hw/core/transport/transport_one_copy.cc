// SPDX-License-Identifier: GPL-2.0-or-later
// Runs that come by reference: whom they are for, and where their payload goes.
#include "memory/one_copy.h"
#include "transport/transport.h"

namespace pib::hca {

// The QP that all of the run is for; `located_` says where it goes. nullptr: not in one piece.
QueuePair* Transport::locate_run(unsigned port, const ib::PacketRun& run) {
    if (services_.one_copy() == nullptr || run.middles_from(0) != run.size().packets) {
        return nullptr;
    }
    QueuePair* qp = run_target(port, run);
    if (qp == nullptr) {
        return nullptr;
    }
    located_.clear();
    const bool found = run.first().opcode().is_response()
                           ? completer_.locate_middles(*qp, run, located_)
                           : responder_.locate_middles(*qp, run, located_);
    return found ? qp : nullptr;
}

bool Transport::reference_in(unsigned port, const ib::PacketRun& run,
                             std::vector<ib::link::RamPiece>& where) {
    const QueuePair* qp = locate_run(port, run);
    return qp != nullptr && services_.one_copy()->begin_pull(port, qp->qpn, located_, where);
}

bool Transport::placed_in(unsigned port, const ib::PacketRun& run,
                          std::span<const ib::link::RamPiece> where) {
    QueuePair* qp = locate_run(port, run);
    if (qp == nullptr) {
        if (services_.one_copy() != nullptr) {
            services_.one_copy()->pull_ended(port);
        }
        return false;
    }
    if (!services_.one_copy()->end_pull(port, located_, where)) {
        return false;
    }
    if (run.first().opcode().is_response()) {
        completer_.middles_placed(*qp, run);
    } else {
        responder_.middles_placed(*qp, run);
    }
    return true;
}

}  // namespace pib::hca
