// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/usage_warnings.h"

#include <array>
#include <cstdio>

namespace pib::hca {

namespace {

bool is_working(const QueuePair& qp) {
    return qp.state == QpState::kRts || qp.state == QpState::kSqd;
}

}  // namespace

void UsageWarnings::warn(const QueuePair& qp, const char* text) {
    if (lines_ == kMostLines) {
        return;
    }
    ++lines_;
    std::array<char, 160> line;
    std::snprintf(line.data(), line.size(), "suspicious: QP %u %s", qp.qpn, text);
    host_.log(LogLevel::kWarning, line.data());
}

void UsageWarnings::qp_created(const QueuePair& qp, uint32_t cq_room) {
    if (enabled_ && (cq_room < qp.sq.depth() || cq_room < qp.rq.depth())) {
        warn(qp, "has a queue that is deeper than its CQ, which may overrun");
    }
}

void UsageWarnings::qp_modified(const QueuePair& qp, QpState from) {
    if (!enabled_ || from == qp.state || qp.type != QpType::kRc) {
        return;
    }
    if (qp.state == QpState::kRtr &&
        (qp.attr.access_flags & (access::kRemoteRead | access::kRemoteAtomic)) != 0 &&
        qp.attr.max_dest_rd_atomic == 0) {
        warn(qp, "allows READs or atomics, and has no resources for them");
    }
    if (qp.state == QpState::kRts && qp.attr.timeout == 0) {
        warn(qp, "has Local ACK Timeout 0: it waits for ever for a lost packet");
    }
    if (qp.state == QpState::kRts && qp.attr.timeout != 0 && qp.attr.retry_cnt == 0) {
        warn(qp, "has a retry count of 0: the first lost packet ends the connection");
    }
}

void UsageWarnings::qp_destroyed(const QueuePair& qp) {
    if (enabled_ && is_working(qp) && (!qp.window.empty() || qp.sq.ready() != 0)) {
        warn(qp, "is destroyed with send requests that have not completed");
    }
}

}  // namespace pib::hca
