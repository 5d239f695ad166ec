// SPDX-License-Identifier: GPL-2.0-or-later
// The other end of a socket as the kernel knows it.
#pragma once

#include <sys/socket.h>

#include "switch/peer.h"

namespace pib::fabric {

// Identifies the user who connected to a Unix socket, or listens at it. TCP does not identify a
// user, so all TCP peers have the same name.
[[nodiscard]] Peer peer_of_socket(int fd);

// The peer of a TCP socket, by its address.
[[nodiscard]] Peer peer_of_tcp(sockaddr_storage address, socklen_t size);

}  // namespace pib::fabric
