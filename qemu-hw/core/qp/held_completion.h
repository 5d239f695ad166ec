// SPDX-License-Identifier: GPL-2.0-or-later
// A completion that is written later, because it returns to software a buffer that the switch may
// still access.
#pragma once

#include <cstdint>

#include "queues/completion.h"

namespace pib::hca {

// Arguments of CqTable::post(), and the QP.
struct HeldCompletion {
    uint32_t qpn = 0;
    uint32_t cqn = 0;
    Completion completion;
    bool solicited = false;
    bool event_may_wait = false;
};

}  // namespace pib::hca
