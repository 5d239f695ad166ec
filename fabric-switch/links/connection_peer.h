// SPDX-License-Identifier: GPL-2.0-or-later
// The other end of a socket as the kernel knows it.
#pragma once

#include "switch/peer.h"

namespace pib::fabric {

// Identifies the user who connected to a Unix socket, or listens at it. TCP identifies nobody, so
// all TCP peers have one name.
[[nodiscard]] Peer peer_of_socket(int fd);

}  // namespace pib::fabric
