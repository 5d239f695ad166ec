// SPDX-License-Identifier: GPL-2.0-or-later
// Checks the parameters of CREATE_QP, and makes the context of a QP from them.
#pragma once

#include "base/host.h"
#include "qp/qp.h"

namespace pib::hca {

namespace qp_flag {
inline constexpr uint32_t kSignalAll = 1u << 0;
inline constexpr uint32_t kPrivileged = 1u << 1;  // may use the privileged L_Key
inline constexpr uint32_t kNoRq = 1u << 2;        // the receive queue's fields are 0
inline constexpr uint32_t kNoSq = 1u << 3;
inline constexpr uint32_t kSrq = 1u << 4;  // receives from `srq`; requires kNoRq
}  // namespace qp_flag

struct QpRequest {
    PageList pages;  // header, then the two queues at their offsets
    uint32_t pd = 0;
    uint32_t send_cq = 0;
    uint32_t recv_cq = 0;
    uint32_t uar = 0;
    uint32_t sq_offset = 0;  // bytes from the start of the buffer
    uint32_t rq_offset = 0;
    uint32_t flags = 0;  // qp_flag::k...
    uint32_t max_inline = 0;
    QpType type = QpType::kRc;
    uint8_t port = 0;  // SMI and GSI: 1..; otherwise 0
    uint8_t log_sq_depth = 0;
    uint8_t log_rq_depth = 0;
    uint8_t log_sq_stride = 0;
    uint8_t log_rq_stride = 0;
    uint32_t srq = 0;
    uint32_t xrcd = 0;  // XRC domain of an XRC target; otherwise 0
};

// Checks the command alone, not the objects that it names. Errors: BAD_PARAM, BAD_RESERVED.
Verdict check_create_qp(const QpRequest& in, unsigned port_count);

// Makes a QP in Reset, without a number. `pages_left` bounds the host memory that page lists take,
// and is reduced. Errors: those of GuestBuffer::load_queue().
CmdResult<QueuePair> make_qp(Host& host, const QpRequest& in, uint64_t& pages_left);

// Moves the QP to Reset. Values from CREATE_QP and attached multicast groups stay; the memory of
// WQE copies goes back to `snapshots`.
void reset_qp(Host& host, QueuePair& qp, SnapshotBudget& snapshots);

}  // namespace pib::hca
