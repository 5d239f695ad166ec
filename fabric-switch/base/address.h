// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses of stream sockets as users write them: unix:PATH, tcp:HOST:PORT and tcp:PORT.
#pragma once

#include <sys/socket.h>

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace pib::fabric {

struct Address {
    enum class Kind { kUnix, kTcp };
    Kind kind = Kind::kUnix;
    std::string path;  // kUnix
    // kTcp: name, IPv4 or IPv6 (in brackets where a user writes it); empty: this host, by its
    // loopback addresses alone.
    std::string host;
    std::string port;

    // Errors are one-line messages for the user.
    [[nodiscard]] static std::expected<Address, std::string> parse(std::string_view text);
    [[nodiscard]] std::string to_string() const;
};

// Non-blocking listening sockets, one for each address that the name has. A Unix path left behind
// by a dead process is taken over; a path with a listener is an error. `mode`: permissions of a
// Unix socket.
[[nodiscard]] std::expected<std::vector<UniqueFd>, std::string> listen_on(const Address& address,
                                                                          unsigned mode = 0666);
// A connected, blocking Unix socket.
[[nodiscard]] std::expected<UniqueFd, std::string> connect_unix(const std::string& path);

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};
// Returns addresses for connect(), at least one. It may query a name server and block.
[[nodiscard]] std::expected<std::vector<SocketAddress>, std::string> resolve(
    const Address& address);
// A connecting non-blocking socket; EPOLLOUT and SO_ERROR report the result.
[[nodiscard]] std::expected<UniqueFd, std::string> begin_connect(const SocketAddress& address);

}  // namespace pib::fabric
