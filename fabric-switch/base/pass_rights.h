// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a Unix socket takes descriptors from its peer (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

namespace pib::fabric {

#ifdef SO_PASSRIGHTS
inline constexpr int kPassRights = SO_PASSRIGHTS;
#else
inline constexpr int kPassRights = 83;  // Linux 6.16 has it; older headers do not
#endif

// `taken`: whether the peer can send descriptors. Accepted sockets inherit this setting from the
// listening socket. Kernels before 6.16, and sockets of other families, do not have the option: the
// call changes nothing there.
inline void pass_rights(int fd, bool taken) {
    const int value = taken ? 1 : 0;
    ::setsockopt(fd, SOL_SOCKET, kPassRights, &value, sizeof(value));
}

}  // namespace pib::fabric
