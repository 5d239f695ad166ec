// SPDX-License-Identifier: GPL-2.0-or-later
// The other end of a socket as the kernel knows it.
#pragma once

#include <sys/socket.h>

#include "switch/peer.h"

namespace pib::fabric {

// Identifies the user who connected to a Unix socket, or listens at it. TCP identifies nobody, so
// all TCP peers have one name.
[[nodiscard]] Peer peer_of_socket(int fd);

// The same for a TCP socket whose peer has this address.
[[nodiscard]] Peer peer_of_tcp(sockaddr_storage address, socklen_t size);

}  // namespace pib::fabric
