// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_create.h"

#include <algorithm>

#include "qp/qp_header.h"
#include "queues/work_queue.h"

namespace pib::hca {
namespace {

constexpr uint32_t kAllFlags =
    qp_flag::kSignalAll | qp_flag::kPrivileged | qp_flag::kNoRq | qp_flag::kNoSq | qp_flag::kSrq;
// Two queues of the largest size, the header, and a page's alignment for each.
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

bool queue_is_valid(const QueueSpec& queue) {
    if (!queue.present) {
        return queue.offset == 0 && queue.log_depth == 0 && queue.log_stride == 0;
    }
    return queue.log_depth <= kMaxWqLogDepth && queue.log_stride >= queue.min_log_stride &&
           queue.log_stride <= kMaxLogWqeStride && queue.offset >= kQueueHeaderBytes &&
           queue.offset % 64 == 0;
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

bool port_is_valid(const QpRequest& in, unsigned port_count) {
    const bool special = in.type == QpType::kSmi || in.type == QpType::kGsi;
    return special ? in.port >= 1 && in.port <= port_count : in.port == 0;
}

// A special QP's receives are its own (IBA 10.2.9: SRQs are for RC, UC and UD).
bool srq_is_valid(const QpRequest& in) {
    if ((in.flags & qp_flag::kSrq) == 0) {
        return in.srq == 0;
    }
    return (in.flags & qp_flag::kNoRq) != 0 && in.port == 0;
}

// XRC halves of a connection (annex A14): an initiator only sends; a target has neither queues nor
// memory of its own, and no doorbells.
bool xrc_is_valid(const QpRequest& in) {
    constexpr uint32_t kNoQueues = qp_flag::kNoSq | qp_flag::kNoRq;
    if (in.type == QpType::kXrcIni) {
        return (in.flags & (kNoQueues | qp_flag::kSrq)) == qp_flag::kNoRq && in.recv_cq == 0 &&
               in.xrcd == 0;
    }
    if (in.type != QpType::kXrcTgt) {
        return in.xrcd == 0;
    }
    return in.flags == kNoQueues && in.pd == 0 && in.send_cq == 0 && in.recv_cq == 0 &&
           in.uar == 0 && in.pages.root == 0 && in.pages.page_count == 0;
}

bool inline_is_valid(const QpRequest& in) {
    const bool has_sq = (in.flags & qp_flag::kNoSq) == 0;
    return in.max_inline <= (has_sq ? (1u << in.log_sq_stride) - 64 : 0);
}

WorkQueue make_queue(const QueueSpec& spec) {
    return {.offset = spec.offset,
            .log_depth = spec.log_depth,
            .log_stride = spec.log_stride,
            .present = spec.present};
}

}  // namespace

CmdStatus check_create_qp(const QpRequest& in, unsigned port_count) {
    if ((in.flags & ~kAllFlags) != 0) {
        return CmdStatus::kBadReserved;
    }
    const QueueSpec sq = send_queue(in);
    const QueueSpec rq = receive_queue(in);
    const bool valid = type_is_known(in.type) && port_is_valid(in, port_count) &&
                       queue_is_valid(sq) && queue_is_valid(rq) && disjoint(sq, rq) &&
                       inline_is_valid(in) && srq_is_valid(in) && xrc_is_valid(in) &&
                       buffer_bytes(in) <= kMaxBufferBytes;
    return valid ? CmdStatus::kOk : CmdStatus::kBadParam;
}

namespace {

CmdResult<GuestBuffer> load_buffer(Host& host, const QpRequest& in, uint64_t& pages_left) {
    if (in.type == QpType::kXrcTgt) {
        return GuestBuffer();
    }
    const uint64_t bytes = buffer_bytes(in);
    const auto max_pages = static_cast<uint32_t>((bytes >> kMinLogPageSize) + 1);
    return GuestBuffer::load_queue(host, in.pages, bytes, max_pages, pages_left);
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
    qp.fatal_reported = false;
    qp.alt_loaded = qp.mig_error_reported = false;
    qp.blocked = false;
    qp.last_wqe_reported = false;
    request_receive_doorbells(host, qp.buffer, false);
}

}  // namespace pib::hca
