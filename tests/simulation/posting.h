// SPDX-License-Identifier: GPL-2.0-or-later
// Posts random work requests, and tells the model their effects.
#pragma once

#include "flow.h"

namespace pib::simulation {

// Random numbers that choose a work request.
struct Choice {
    uint32_t a;
    uint32_t b;
    uint32_t c;
    bool may_be_refused = false;   // sometimes a request that its key does not permit
    bool may_lack_window = false;  // windows are invalidated, and used nevertheless
    bool is_quiet = false;         // the caller rings the doorbell
};

// Posts a send request; false if there is no room.
bool post_send(Flow& flow, const Choice& choice);
// Posts a request by which the responder binds or invalidates its window; false if its state or the
// queue does not permit that.
bool post_on_window(Flow& flow, bool binds);
void post_receives(Flow& flow, uint64_t count);
// The responder's guest stores to a slot that no request uses.
void store(Flow& flow, const Choice& choice);

}  // namespace pib::simulation
