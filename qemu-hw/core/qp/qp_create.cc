// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_create.h"

#include <algorithm>

#include "qp/qp_header.h"
#include "queues/work_queue.h"

namespace pib::hca {
namespace {

constexpr uint32_t kAllFlags =
    qp_flag::kSignalAll | qp_flag::kPrivileged | qp_flag::kNoRq | qp_flag::kNoSq | qp_flag::kSrq;
// Two queues of the largest size, and 3 * 64 KiB: for the header, and to align each queue.
constexpr uint64_t kMaxBufferBytes = (2ull << (kMaxWqLogDepth + kMaxLogWqeStride)) + 3 * 65536;

// A queue as CREATE_QP describes it.
struct QueueSpec {
    bool present;
    uint32_t offset;
    uint8_t log_depth;
    uint8_t log_stride;
    unsigned min_log_stride;

    uint64_t bytes() const { return present ? 1ull << (log_depth + log_stride) : 0; }
    uint64_t end() const { return offset + bytes(); }
};

QueueSpec send_queue(const QpRequest& in) {
    return {(in.flags & qp_flag::kNoSq) == 0, in.sq_offset, in.log_sq_depth, in.log_sq_stride,
            kMinLogSqStride};
}

QueueSpec receive_queue(const QpRequest& in) {
    return {(in.flags & qp_flag::kNoRq) == 0, in.rq_offset, in.log_rq_depth, in.log_rq_stride,
            kMinLogRqStride};
}

// The rules that a wrong field of a send or receive queue breaks.
struct QueueRules {
    Rule absent;
    Rule deep;
    Rule stride;
    Rule offset;
};
constexpr QueueRules kSendRules = {Rule::kQpNoSq, Rule::kQpSqDeep, Rule::kQpSqStride,
                                   Rule::kQpSqOffset};
constexpr QueueRules kReceiveRules = {Rule::kQpNoRq, Rule::kQpRqDeep, Rule::kQpRqStride,
                                      Rule::kQpRqOffset};

Verdict check_queue(const QueueSpec& queue, const QueueRules& rules) {
    if (!queue.present) {
        const bool empty = queue.offset == 0 && queue.log_depth == 0 && queue.log_stride == 0;
        return empty ? CmdStatus::kOk : refuse(rules.absent, queue.offset);
    }
    if (queue.log_depth > kMaxWqLogDepth) {
        return refuse(rules.deep, queue.log_depth, kMaxWqLogDepth);
    }
    if (queue.log_stride < queue.min_log_stride || queue.log_stride > kMaxLogWqeStride) {
        return refuse(rules.stride, queue.log_stride, kMaxLogWqeStride);
    }
    if (queue.offset < kQueueHeaderBytes || queue.offset % 64 != 0) {
        return refuse(rules.offset, queue.offset, kQueueHeaderBytes);
    }
    return CmdStatus::kOk;
}

bool disjoint(const QueueSpec& a, const QueueSpec& b) {
    return !a.present || !b.present || a.end() <= b.offset || b.end() <= a.offset;
}

uint64_t buffer_bytes(const QpRequest& in) {
    return std::max({uint64_t{kQueueHeaderBytes}, send_queue(in).end(), receive_queue(in).end()});
}

bool type_is_known(QpType type) {
    return type == QpType::kRc || type == QpType::kUc || type == QpType::kUd ||
           type == QpType::kSmi || type == QpType::kGsi || type == QpType::kXrcIni ||
           type == QpType::kXrcTgt;
}

Verdict check_type(const QpRequest& in, unsigned port_count) {
    if (!type_is_known(in.type)) {
        return refuse(Rule::kQpType, static_cast<uint8_t>(in.type));
    }
    const bool special = in.type == QpType::kSmi || in.type == QpType::kGsi;
    const bool fits = special ? in.port >= 1 && in.port <= port_count : in.port == 0;
    return fits ? CmdStatus::kOk : refuse(Rule::kQpPort, in.port, special ? port_count : 0);
}

// A special QP has a receive queue of its own (IBA 10.2.9: SRQs are for RC, UC and UD).
Verdict check_srq(const QpRequest& in) {
    if ((in.flags & qp_flag::kSrq) == 0) {
        return in.srq == 0 ? CmdStatus::kOk : refuse(Rule::kQpSrqField, in.srq);
    }
    const bool fits = (in.flags & qp_flag::kNoRq) != 0 && in.port == 0;
    return fits ? CmdStatus::kOk : refuse(Rule::kQpSrqFlag, in.flags);
}

// XRC (annex A14): an initiator has no receive queue; a target has neither queues nor memory of its
// own, and no doorbells.
Verdict check_xrc(const QpRequest& in) {
    constexpr uint32_t kNoQueues = qp_flag::kNoSq | qp_flag::kNoRq;
    const auto type = static_cast<uint8_t>(in.type);
    if (in.type == QpType::kXrcIni) {
        const bool fits = (in.flags & (kNoQueues | qp_flag::kSrq)) == qp_flag::kNoRq &&
                          in.recv_cq == 0 && in.xrcd == 0;
        return fits ? CmdStatus::kOk : refuse(Rule::kQpInitiator, type);
    }
    if (in.type != QpType::kXrcTgt) {
        return in.xrcd == 0 ? CmdStatus::kOk : refuse(Rule::kQpXrcdField, in.xrcd);
    }
    const bool fits = in.flags == kNoQueues && in.pd == 0 && in.send_cq == 0 && in.recv_cq == 0 &&
                      in.uar == 0 && in.pages.root == 0 && in.pages.page_count == 0;
    return fits ? CmdStatus::kOk : refuse(Rule::kQpTarget, type);
}

Verdict check_inline(const QpRequest& in) {
    const bool has_sq = (in.flags & qp_flag::kNoSq) == 0;
    const uint32_t most = has_sq ? (1u << in.log_sq_stride) - 64 : 0;
    return in.max_inline <= most ? CmdStatus::kOk : refuse(Rule::kQpInline, in.max_inline, most);
}

Verdict check_buffer(const QpRequest& in) {
    const QueueSpec sq = send_queue(in);
    const QueueSpec rq = receive_queue(in);
    if (!disjoint(sq, rq)) {
        return refuse(Rule::kQpOverlap, rq.offset, sq.offset);
    }
    return buffer_bytes(in) <= kMaxBufferBytes ? CmdStatus::kOk
                                               : refuse(Rule::kQpBuffer, 0, kMaxBufferBytes);
}

WorkQueue make_queue(const QueueSpec& spec) {
    return {.offset = spec.offset,
            .log_depth = spec.log_depth,
            .log_stride = spec.log_stride,
            .present = spec.present};
}

}  // namespace

Verdict check_create_qp(const QpRequest& in, unsigned port_count) {
    if ((in.flags & ~kAllFlags) != 0) {
        return refuse(Rule::kQpFlags, in.flags, kAllFlags);
    }
    return check_type(in, port_count)
        .and_then([&] { return check_queue(send_queue(in), kSendRules); })
        .and_then([&] { return check_queue(receive_queue(in), kReceiveRules); })
        .and_then([&] { return check_buffer(in); })
        .and_then([&] { return check_inline(in); })
        .and_then([&] { return check_srq(in); })
        .and_then([&] { return check_xrc(in); });
}

namespace {

CmdResult<GuestBuffer> load_buffer(Host& host, const QpRequest& in, uint64_t& pages_left) {
    if (in.type == QpType::kXrcTgt) {
        return GuestBuffer();
    }
    const uint64_t bytes = buffer_bytes(in);
    return GuestBuffer::load_queue(host, in.pages, bytes, pages_covering(bytes), pages_left,
                                   DmaPurpose::kQp);
}

}  // namespace

CmdResult<QueuePair> make_qp(Host& host, const QpRequest& in, uint64_t& pages_left) {
    auto buffer = load_buffer(host, in, pages_left);
    if (!buffer) {
        return std::unexpected(buffer.error());
    }
    QueuePair qp;
    qp.type = in.type;
    qp.pd = in.pd;
    qp.send_cq = in.send_cq;
    qp.recv_cq = in.recv_cq;
    qp.uar = in.uar;
    qp.srq = in.srq;
    qp.xrcd = in.xrcd;
    qp.max_inline = in.max_inline;
    qp.special_port = in.port;
    qp.signal_all = (in.flags & qp_flag::kSignalAll) != 0;
    qp.privileged = (in.flags & qp_flag::kPrivileged) != 0;
    qp.buffer = std::move(*buffer);
    qp.sq = make_queue(send_queue(in));
    qp.rq = make_queue(receive_queue(in));
    if (qp.rq.present) {
        qp.resp.recv.bytes.resize(qp.rq.stride());
    }
    qp.attr.port = qp.special_port;
    request_receive_doorbells(host, qp.buffer, false);
    return qp;
}

void reset_qp(Host& host, QueuePair& qp, SnapshotBudget& snapshots) {
    qp.state = QpState::kReset;
    qp.attr = {};
    qp.attr.port = qp.special_port;
    qp.sq.consumer = qp.sq.producer = 0;
    qp.rq.consumer = qp.rq.producer = 0;
    qp.window.release(snapshots);
    qp.req = {};
    std::vector<uint8_t> recv_bytes = std::move(qp.resp.recv.bytes);
    qp.resp = {};
    qp.resp.recv.bytes = std::move(recv_bytes);
    qp.sq_draining = false;
    qp.reported = {};
    qp.migration = {};
    qp.scheduling.blocked = false;
    request_receive_doorbells(host, qp.buffer, false);
}

}  // namespace pib::hca
