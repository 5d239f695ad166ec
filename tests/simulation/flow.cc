// SPDX-License-Identifier: GPL-2.0-or-later
#include "flow.h"

#include <algorithm>
#include <ranges>

namespace pib::simulation {

Flow::Flow(End& requester, End& responder, const std::string& title)
    : name(title),
      from(requester),
      to(responder),
      local(*from.guest, from.pd, size_t{kLocalSlots} * kSlotBytes, title + ", requester's memory"),
      remote(*to.guest, to.pd, kTargetBytes, title + ", target"),
      window(*to.guest, to.pd, kTargetBytes, title + ", window"),
      inbox(*to.guest, to.pd, size_t{kDepth} * kSlotBytes, title + ", receives") {}

void Flow::check_memory(Extent extent) {
    for (Shadow* shadow : {&local.shadow, &remote.shadow, &inbox.shadow, &window.bytes()}) {
        shadow->check(extent);
    }
}

bool Flow::awaits_completion() const {
    return std::ranges::any_of(posted, &Request::is_signalled);
}

bool Flow::may_be_refused() const {
    const auto is_refused = [this](const Request& request) {
        return request.is_refused || (request.rkey != 0 && !request.target->opens(request.rkey));
    };
    const auto is_dead = [this](const Receive& receive) { return !inbox.opens(receive.lkey); };
    const auto is_gone = [this](uint32_t rkey) {
        return !remote.opens(rkey) && !window.opens(rkey);
    };
    return was_refused || std::ranges::any_of(posted, is_refused) ||
           std::ranges::any_of(late_rkeys, is_gone) ||
           std::ranges::any_of(std::views::drop(receives, static_cast<ptrdiff_t>(received)),
                               is_dead);
}

bool Flow::requester_may_fail() const {
    return from.is_killed || from.is_lost || has_failed || reverse->may_be_refused();
}

bool Flow::responder_may_fail() const {
    return to.is_killed || to.is_lost || reverse->has_failed || may_be_refused();
}

void Flow::restart() {
    for (Region* region : {&local, &remote, &inbox}) {
        region->shadow.adopt();
    }
    window.qp_destroyed();
    posted.clear();
    messages.clear();
    receives.clear();
    late_rkeys.clear();
    received = acknowledged = 0;
    has_failed = was_refused = is_flushed = false;
}

}  // namespace pib::simulation
