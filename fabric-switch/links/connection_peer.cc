// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/connection_peer.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace pib::fabric {
namespace {

constexpr size_t kPrefixBytes = 8;  // a host may take any address of its IPv6 network

std::string numeric(const sockaddr_storage& address, socklen_t size) {
    std::array<char, NI_MAXHOST> host{};
    const int failed = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(),
                                     host.size(), nullptr, 0, NI_NUMERICHOST);
    return failed == 0 ? host.data() : "";
}

void clear_host_part(sockaddr_storage& address) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof(v6));
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
        return;
    }
    std::ranges::fill(std::span(v6.sin6_addr.s6_addr).subspan(kPrefixBytes), uint8_t{0});
    std::memcpy(&address, &v6, sizeof(v6));
}

}  // namespace

Peer peer_of_tcp(sockaddr_storage address, socklen_t size) {
    Peer peer{.name = "plain TCP", .origin = numeric(address, size), .grant = {}};
    if (address.ss_family == AF_INET6) {
        clear_host_part(address);
    }
    peer.network = numeric(address, size);
    return peer;
}

Peer peer_of_socket(int fd) {
    ucred user{};
    socklen_t size = sizeof(user);
    // TCP sockets answer with a user ID of -1.
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0 &&
        user.uid != static_cast<uid_t>(-1)) {
        const std::string name = "user " + std::to_string(user.uid);
        return {.name = name, .origin = name, .network = name, .grant = {}};
    }
    sockaddr_storage address{};
    size = sizeof(address);
    const bool known = ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    return peer_of_tcp(address, known ? size : 0);
}

}  // namespace pib::fabric
