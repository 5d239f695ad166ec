// SPDX-License-Identifier: GPL-2.0-or-later
// Usage warnings for testers of applications: logs legal but doubtful use.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "qp/qp.h"

namespace pib::hca {

class UsageWarnings {
  public:
    // Limit of log lines in the life of the device, because programs repeat their mistakes.
    static constexpr uint32_t kMostLines = 100;

    explicit UsageWarnings(Host& host) : host_(host) {}
    void enable(bool enabled) { enabled_ = enabled; }

    // `cq_room`: entries of the smaller one of the QP's CQs.
    void qp_created(const QueuePair& qp, uint32_t cq_room);
    void qp_modified(const QueuePair& qp, QpState from);
    void qp_destroyed(const QueuePair& qp);

  private:
    void warn(const QueuePair& qp, const char* text);

    Host& host_;
    uint32_t lines_ = 0;
    bool enabled_ = false;
};

}  // namespace pib::hca
