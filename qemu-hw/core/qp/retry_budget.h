// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that an adversarial device may make a requester repeat.
#pragma once

#include "qp/qp.h"

namespace pib::hca {

// Retries that the adversary leaves for causes outside of the device.
inline constexpr uint8_t kSpareRetries = 3;

inline bool can_repeat(const QueuePair& qp) {
    return qp.is_reliable() && qp.attr.timeout != 0 && qp.req.retries_left >= kSpareRetries;
}
inline bool can_wait_for_receiver(const QueuePair& qp) {
    return can_repeat(qp) && qp.req.rnr_retries_left >= kSpareRetries;
}

}  // namespace pib::hca
