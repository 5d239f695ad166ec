// SPDX-License-Identifier: GPL-2.0-or-later
// Completions of a QP's work requests (IBA vol. 1, 10.8).
#pragma once

#include "qp/qp_services.h"
#include "queues/completion.h"

namespace pib::hca {

// Completes the oldest request of the send window and removes it. An unsignalled success leaves no
// CQE (IBA 10.8.6); every error does.
void complete_send(QpServices& services, QueuePair& qp, const WqeError& error);
// Completes in error a send WQE that was never copied.
void complete_uncopied_send(QpServices& services, QueuePair& qp, uint32_t counter,
                            const WqeError& error);
// Completes the oldest requests of the send window, up to the first one that is not an operation on
// a key (bind, fast registration, invalidation) that the device has executed.
void complete_local(QpServices& services, QueuePair& qp);
// Completes the receive WQE qp.resp.recv. The function fills in the QP, the WQE's counter and its
// SRQ.
void complete_recv(QpServices& services, QueuePair& qp, Completion completion);
void fail_recv(QpServices& services, QueuePair& qp, const WqeError& error);
// Writes the held completions unless the switch may still access revoked memory
// (PeerCopy::is_busy()). While it may, the completions of all QPs are held.
void release_completions(QpServices& services);

}  // namespace pib::hca
