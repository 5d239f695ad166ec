// SPDX-License-Identifier: GPL-2.0-or-later
// Connections whose peers have not identified themselves yet. Their number and their time are
// limited: if there are too many, the one that one_too_many() chooses is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "switch/peer.h"

namespace pib::fabric {

class Connection;

class Newcomers {
  public:
    static constexpr size_t kMost = 128;

    // The connection that has to be closed for a new one of this peer; nullptr: there are fewer
    // than kMost.
    [[nodiscard]] Connection* one_too_many(const Peer& newcomer);
    void add(Connection& connection) { waiting_.push_back(&connection); }
    void remove(Connection& connection);
    // A connection whose time limit has expired, or nullptr.
    [[nodiscard]] Connection* overdue(uint64_t now_ns);
    // When the time limit of the oldest connection expires; UINT64_MAX: there is none.
    [[nodiscard]] uint64_t next_deadline() const;

  private:
    void forget_known();

    std::deque<Connection*> waiting_;  // oldest first
};

}  // namespace pib::fabric
