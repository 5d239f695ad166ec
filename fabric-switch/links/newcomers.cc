// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/newcomers.h"

#include <algorithm>
#include <map>

#include "links/connection.h"

namespace pib::fabric {
namespace {

constexpr std::uint64_t kHelloTimeoutNs = 10'000'000'000;

}  // namespace

void Newcomers::forget_known() {
    std::erase_if(waiting_, [](Connection* c) { return c->link.handshake_done(); });
}

void Newcomers::remove(Connection& connection) {
    std::erase(waiting_, &connection);
}

// Chooses the oldest connection of the origin that has the most.
Connection* Newcomers::one_too_many() {
    if (waiting_.size() < kMost) {
        return nullptr;
    }
    forget_known();
    if (waiting_.size() < kMost) {
        return nullptr;
    }
    std::map<std::string, std::size_t> count;
    for (const Connection* connection : waiting_) {
        ++count[connection->peer().origin];
    }
    const auto most = std::ranges::max_element(count, {}, [](const auto& of) { return of.second; });
    return *std::ranges::find_if(
        waiting_, [&](const Connection* c) { return c->peer().origin == most->first; });
}

Connection* Newcomers::overdue(std::uint64_t now_ns) {
    forget_known();
    return next_deadline() <= now_ns ? waiting_.front() : nullptr;
}

std::uint64_t Newcomers::next_deadline() const {
    return waiting_.empty() ? UINT64_MAX : waiting_.front()->began_ns + kHelloTimeoutNs;
}

}  // namespace pib::fabric
