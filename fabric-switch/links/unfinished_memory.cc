// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/unfinished_memory.h"

#include <algorithm>

#include "links/passed_fds.h"

namespace pib::fabric {
namespace {

constexpr uint64_t kNotBegun = UINT64_MAX;
constexpr uint64_t kMemoryTimeoutNs = 10'000'000'000;

}  // namespace

void UnfinishedMemory::add(Connection& connection, const PassedFds& fds) {
    if (std::ranges::find(waiting_, &connection, &Waiting::connection) == waiting_.end()) {
        waiting_.push_back({&connection, &fds, kNotBegun});
    }
}

void UnfinishedMemory::remove(Connection& connection) {
    std::erase_if(waiting_, [&](const Waiting& one) { return one.connection == &connection; });
}

Connection* UnfinishedMemory::overdue(uint64_t now_ns) {
    std::erase_if(waiting_, [](const Waiting& one) { return one.fds->all().empty(); });
    for (Waiting& one : waiting_) {
        if (one.due_ns == kNotBegun) {
            one.due_ns = now_ns + kMemoryTimeoutNs;
        }
    }
    return next_deadline() <= now_ns ? waiting_.front().connection : nullptr;
}

uint64_t UnfinishedMemory::next_deadline() const {
    return waiting_.empty() ? UINT64_MAX : waiting_.front().due_ns;
}

}  // namespace pib::fabric
