// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/newcomers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "links/connection.h"

namespace pib::fabric {
namespace {

constexpr uint64_t kHelloTimeoutNs = 10'000'000'000;

}  // namespace

void Newcomers::forget_known() {
    std::erase_if(waiting_, [](Connection* c) { return c->link.handshake_done(); });
}

void Newcomers::remove(Connection& connection) {
    std::erase(waiting_, &connection);
}

// Chooses the network with the most connections, the origin with the most in that network, and the
// oldest connection of that origin. Counts networks, too, because one host may have many IPv6
// addresses. Counts the new connection as well, so that a peer that connects loses a connection
// rather than a peer with equally many.
Connection* Newcomers::one_too_many(const Peer& newcomer) {
    if (waiting_.size() < kMost) {
        return nullptr;
    }
    forget_known();
    if (waiting_.size() < kMost) {
        return nullptr;
    }
    std::map<std::string, size_t> of_network, of_origin;
    for (const Connection* connection : waiting_) {
        ++of_network[connection->peer().network];
        ++of_origin[connection->peer().origin];
    }
    ++of_network[newcomer.network];
    ++of_origin[newcomer.origin];
    return *std::ranges::max_element(waiting_, {}, [&](const Connection* c) {
        return std::pair(of_network.at(c->peer().network), of_origin.at(c->peer().origin));
    });
}

Connection* Newcomers::overdue(uint64_t now_ns) {
    forget_known();
    return next_deadline() <= now_ns ? waiting_.front() : nullptr;
}

uint64_t Newcomers::next_deadline() const {
    return waiting_.empty() ? UINT64_MAX : waiting_.front()->began_ns + kHelloTimeoutNs;
}

}  // namespace pib::fabric
