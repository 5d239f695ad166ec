// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps a trunk connected: retries with growing intervals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "links/connection.h"
#include "links/trunk.h"
#include "tls/tls_credentials.h"

namespace pib::fabric {

class Dialer {
  public:
    struct Target {
        std::string name;                      // for the log
        std::vector<SocketAddress> addresses;  // not empty; tried in turn
        const TlsCredentials* tls = nullptr;   // nullptr: without TLS
        std::string host;                      // in the peer's certificate; empty: any
    };

    // The trunk and the credentials outlive the dialer.
    Dialer(Trunk& trunk, Target target) : trunk_(trunk), target_(std::move(target)) {}

    // The time of the next on_deadline(), in nanoseconds as `now_ns`; UINT64_MAX: none.
    [[nodiscard]] uint64_t due_ns() const { return due_ns_; }
    // Returns a new connection if an attempt is due, else nullptr. The dialer keeps a pointer to
    // the connection until closed(). Closes a connection that has no WELCOME after 10 s.
    [[nodiscard]] std::unique_ptr<Connection> on_deadline(ConnectionHost& host, uint64_t now_ns);
    [[nodiscard]] bool owns(const Connection& connection) const {
        return connection_ == &connection;
    }
    // The connection that owns() names has been closed: plans the next attempt.
    void closed(uint64_t now_ns);
    // on_deadline() has thrown std::bad_alloc: the attempt counts as one that failed.
    void out_of_memory(uint64_t now_ns) { try_later(now_ns, "out of memory"); }

  private:
    void try_later(uint64_t now_ns, const std::string& reason);

    Trunk& trunk_;
    Target target_;
    size_t next_address_ = 0;
    Connection* connection_ = nullptr;
    uint64_t due_ns_ = 0;
    uint64_t wait_ns_ = 0;  // delay before the next attempt; 0: the shortest
    std::string told_;      // last logged reason; each reason is logged once per outage
};

}  // namespace pib::fabric
