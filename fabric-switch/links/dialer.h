// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps a trunk connected: retries with growing intervals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "links/connection.h"
#include "links/crossing.h"

namespace pib::fabric {

class Dialer {
  public:
    // `addresses` of the peer, not empty, are tried in turn. The trunk outlives the dialer.
    Dialer(Crossing& crossing, std::string peer, std::vector<SocketAddress> addresses)
        : crossing_(crossing), peer_(std::move(peer)), addresses_(std::move(addresses)) {}

    // When to call time_has_come().
    [[nodiscard]] std::uint64_t due_ns() const { return due_ns_; }
    // A new connection if an attempt is due, else nullptr. The dialer keeps it.
    [[nodiscard]] std::unique_ptr<Connection> time_has_come(ConnectionHost& host,
                                                            std::uint64_t now_ns);
    [[nodiscard]] bool owns(const Connection& connection) const {
        return connection_ == &connection;
    }
    void closed(std::uint64_t now_ns);

  private:
    void try_later(std::uint64_t now_ns, const std::string& reason);

    Crossing& crossing_;
    std::string peer_;
    std::vector<SocketAddress> addresses_;
    std::size_t next_address_ = 0;
    Connection* connection_ = nullptr;
    std::uint64_t due_ns_ = 0;
    std::uint64_t wait_ns_ = 0;  // delay before the next attempt; 0: the shortest
    std::string told_;           // last logged reason; each reason is logged once per outage
};

}  // namespace pib::fabric
