// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses of stream sockets as users write them: unix:PATH and tcp:HOST:PORT.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "unique_fd.h"

namespace pib::fabric {

struct Address {
    enum class Kind { kUnix, kTcp };
    Kind kind = Kind::kUnix;
    std::string path;  // kUnix
    std::string host;  // kTcp: name, IPv4 or IPv6 (in brackets where a user writes it)
    std::string port;

    // Errors are one line for a user.
    [[nodiscard]] static std::expected<Address, std::string> parse(std::string_view text);
    [[nodiscard]] std::string to_string() const;
};

// A non-blocking listening socket. A Unix path left behind by a dead process is taken over; one
// that somebody still listens on is an error. `mode`: permissions of a Unix socket.
[[nodiscard]] std::expected<UniqueFd, std::string> listen_on(const Address& address,
                                                             unsigned mode = 0666);
// A connected, blocking Unix socket.
[[nodiscard]] std::expected<UniqueFd, std::string> connect_unix(const std::string& path);

}  // namespace pib::fabric
