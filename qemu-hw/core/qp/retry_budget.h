// SPDX-License-Identifier: GPL-2.0-or-later
// Decides whether an adversarial device may make a requester repeat a request and so use up one of
// the QP's retries.
#pragma once

#include "qp/qp.h"

namespace pib::hca {

// The adversary acts only on QPs with at least this number of retries left, so that some remain for
// packets that the fabric loses.
inline constexpr uint8_t kSpareRetries = 3;

[[nodiscard]] inline bool can_repeat(const QueuePair& qp) {
    return qp.is_reliable() && qp.attr.timeout != 0 && qp.req.retries_left >= kSpareRetries;
}
[[nodiscard]] inline bool can_wait_for_receiver(const QueuePair& qp) {
    return can_repeat(qp) && qp.req.rnr_retries_left >= kSpareRetries;
}

}  // namespace pib::hca
