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
// Completes executed operations on keys that have become the oldest requests.
void complete_local(QpServices& services, QueuePair& qp);
// Completes qp.resp.recv. The QP, the WQE's counter and its SRQ are filled in.
void complete_recv(QpServices& services, QueuePair& qp, Completion completion);
void fail_recv(QpServices& services, QueuePair& qp, const WqeError& error);
// Completions of all QPs are held while the switch may still access revoked memory. Writes the held
// completions once it no longer does.
void release_completions(QpServices& services);

}  // namespace pib::hca
