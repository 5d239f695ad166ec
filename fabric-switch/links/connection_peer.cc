// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/connection_peer.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>

namespace pib::fabric {
namespace {

std::string address_of_peer(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    std::array<char, NI_MAXHOST> host{};
    const bool known = ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                       ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(),
                                     host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    return known ? host.data() : "";
}

}  // namespace

Peer peer_of_socket(int fd) {
    ucred user{};
    socklen_t size = sizeof(user);
    // TCP sockets answer with a user ID of -1.
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0 &&
        user.uid != static_cast<uid_t>(-1)) {
        const std::string name = "user " + std::to_string(user.uid);
        return {.name = name, .origin = name, .grant = {}};
    }
    return {.name = "plain TCP", .origin = address_of_peer(fd), .grant = {}};
}

}  // namespace pib::fabric
