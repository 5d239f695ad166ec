// SPDX-License-Identifier: GPL-2.0-or-later
// See dialer.h. Retry intervals are those of an HCA (docs/fabric-protocol.md).
#include "links/dialer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace pib::fabric {
namespace {

constexpr uint64_t kNever = UINT64_MAX;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kShortestWaitNs = 50 * kNsPerMs;
constexpr uint64_t kLongestWaitNs = 1000 * kNsPerMs;
// Limit of the time from connect() to WELCOME.
constexpr uint64_t kAnswerTimeoutNs = 10'000 * kNsPerMs;

}  // namespace

std::unique_ptr<Connection> Dialer::on_deadline(ConnectionHost& host, uint64_t now_ns) {
    if (connection_ != nullptr) {
        due_ns_ = kNever;
        if (!connection_->link.handshake_done()) {
            host.close(*connection_);  // closed() follows
        }
        return nullptr;
    }
    auto fd = begin_connect(target_.addresses[next_address_]);
    if (!fd) {
        try_later(now_ns, fd.error());
        return nullptr;
    }
    Connection::Socket socket{std::move(*fd), nullptr};
    if (target_.tls != nullptr) {
        socket.tls = target_.tls->connect(socket.fd.get(), target_.host);
    }
    const bool complete = target_.tls == nullptr || socket.tls != nullptr;
    auto connection = std::make_unique<Connection>(host, trunk_, std::move(socket), now_ns);
    if (!complete || !connection->start()) {
        connection->close_fds();
        try_later(now_ns, "out of resources");
        return nullptr;
    }
    connection_ = connection.get();
    due_ns_ = now_ns + kAnswerTimeoutNs;
    return connection;
}

// Only a connection that has lasted resets the retry interval, so that a peer that closes after
// WELCOME is not retried at the shortest interval forever.
void Dialer::closed(uint64_t now_ns) {
    const bool lasted = connection_->began_ns + kLongestWaitNs <= now_ns;
    const bool welcomed = connection_->link.handshake_done();
    const std::string reason = !connection_->reason().empty() ? connection_->reason()
                               : welcomed                     ? "connection lost"
                                                              : "no answer";
    connection_ = nullptr;
    if (welcomed && lasted) {
        wait_ns_ = 0;
        told_.clear();
    }
    try_later(now_ns, reason);
}

void Dialer::try_later(uint64_t now_ns, const std::string& reason) {
    if (reason != told_) {
        told_ = reason;
        spdlog::warn("{}: {}: {}; trying again", trunk_.name(), target_.name, reason);
    }
    wait_ns_ = wait_ns_ == 0 ? kShortestWaitNs : std::min(wait_ns_ * 2, kLongestWaitNs);
    due_ns_ = now_ns + wait_ns_;
    next_address_ = (next_address_ + 1) % target_.addresses.size();
}

}  // namespace pib::fabric
