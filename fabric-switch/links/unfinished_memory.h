// SPDX-License-Identifier: GPL-2.0-or-later
// Connections whose peers have passed descriptors, and not yet the whole MEMORY frame that names
// them. Their time is limited, because descriptors are scarce.
#pragma once

#include <cstdint>
#include <vector>

namespace pib::fabric {

class Connection;
class PassedFds;

class UnfinishedMemory {
  public:
    // Sets a time limit for a connection, which begins at the next call of overdue(). No effect on
    // a connection that has a limit. The limit ends when `fds` has no descriptor any more.
    void add(Connection& connection, const PassedFds& fds);
    void remove(Connection& connection);
    // A connection whose time limit has expired, or nullptr.
    [[nodiscard]] Connection* overdue(uint64_t now_ns);
    // When the first time limit expires; UINT64_MAX: there is none. Call overdue() before.
    [[nodiscard]] uint64_t next_deadline() const;

  private:
    struct Waiting {
        Connection* connection;
        const PassedFds* fds;
        uint64_t due_ns;  // kNotBegun: overdue() sets it
    };

    std::vector<Waiting> waiting_;  // in the order of the deadlines
};

}  // namespace pib::fabric
