// SPDX-License-Identifier: GPL-2.0-or-later
// Connections whose peers have not identified themselves yet. Their number and their time are
// limited. If there are too many, the network with the most of them loses one: the oldest of its
// origin with the most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace pib::fabric {

class Connection;

class Newcomers {
  public:
    static constexpr std::size_t kMost = 128;

    // The connection that has to be closed for the new one; nullptr: there is room.
    [[nodiscard]] Connection* one_too_many();
    void add(Connection& connection) { waiting_.push_back(&connection); }
    void remove(Connection& connection);
    // A connection whose time is over, or nullptr.
    [[nodiscard]] Connection* overdue(std::uint64_t now_ns);
    // UINT64_MAX: none waits.
    [[nodiscard]] std::uint64_t next_deadline() const;

  private:
    void forget_known();

    std::deque<Connection*> waiting_;  // oldest first
};

}  // namespace pib::fabric
