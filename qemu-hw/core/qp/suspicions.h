// SPDX-License-Identifier: GPL-2.0-or-later
// For testers of applications: says what is legal and yet probably not meant.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "qp/qp.h"

namespace pib::hca {

class Suspicions {
  public:
    // A program that does it once does it often: no more lines than these, until power-on.
    static constexpr uint32_t kMostLines = 100;

    explicit Suspicions(Host& host) : host_(host) {}
    void enable(bool enabled) { enabled_ = enabled; }

    // `cq_room`: entries of the smaller of its CQs.
    void qp_created(const QueuePair& qp, uint32_t cq_room);
    void qp_modified(const QueuePair& qp, QpState from);
    void qp_destroyed(const QueuePair& qp);

  private:
    void say(const QueuePair& qp, const char* text);

    Host& host_;
    uint32_t lines_ = 0;
    bool enabled_ = false;
};

}  // namespace pib::hca
