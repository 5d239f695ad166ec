// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/receive_queue.h"

#include "qp/completions.h"
#include "qp/error_states.h"
#include "qp/qp_header.h"
#include "queues/work_queue.h"

namespace pib::hca {
namespace {

Fetch peek_own(QpServices& services, QueuePair& qp) {
    WorkQueue& rq = qp.rq;
    if (rq.ready() == 0 && refresh_rq(services, qp) != QueueRead::kOk) {
        fatal(services, qp);
        return Fetch::kBad;
    }
    if (rq.ready() == 0) {
        return Fetch::kNone;
    }
    ReceiveRequest& recv = qp.resp.recv;
    if (!copy_wqe(services, qp, rq, recv.bytes)) {
        fatal(services, qp);
        return Fetch::kBad;
    }
    recv.srqn = 0;
    recv.counter = rq.consumer;
    recv.cqn = qp.recv_cq;
    recv.user = qp.key_user();
    return Fetch::kOk;
}

// The WQE's keys must belong to the PD of the SRQ, not to that of the QP (IBA 10.2.9).
Fetch peek_shared(QpServices& services, QueuePair& qp) {
    ReceiveRequest& recv = qp.resp.recv;
    const uint32_t srqn = qp.shared_queue();
    switch (services.parts().srqs.peek(srqn, recv.bytes)) {
        case SrqTable::Take::kNone:
            return Fetch::kNone;
        case SrqTable::Take::kError:
            fatal(services, qp);
            return Fetch::kBad;
        case SrqTable::Take::kOk:
            break;
    }
    const SharedReceiveQueue& srq = *services.parts().srqs.find(srqn);
    recv.srqn = srqn;
    recv.counter = recv_wqe_id(recv.bytes);
    recv.cqn = srq.cqn != 0 ? srq.cqn : qp.recv_cq;
    recv.user = srq.key_user();
    return Fetch::kOk;
}

}  // namespace

Fetch peek_recv(QpServices& services, QueuePair& qp) {
    return qp.shared_queue() != 0 ? peek_shared(services, qp) : peek_own(services, qp);
}

Fetch fetch_recv(QpServices& services, QueuePair& qp, uint32_t bytes) {
    const Fetch peeked = peek_recv(services, qp);
    if (peeked != Fetch::kOk) {
        if (peeked == Fetch::kNone) {
            services.count(qp, HcaCounter::kOutOfBuffer);
        }
        return peeked;
    }
    ReceiveRequest& recv = qp.resp.recv;
    const auto data = decode_recv_wqe(recv.bytes, recv.srqn != 0);
    if (data && data->length < bytes) {
        return Fetch::kShort;
    }
    if (recv.srqn != 0) {
        services.parts().srqs.take(recv.srqn);
    } else {
        ++qp.rq.consumer;
    }
    recv.valid = true;
    services.trace_recv(qp);
    if (!data) {
        fail_recv(services, qp, data.error());
        return Fetch::kBad;
    }
    recv.data = *data;
    return Fetch::kOk;
}

}  // namespace pib::hca
