// SPDX-License-Identifier: GPL-2.0-or-later
// Gives up what a serving switch does not need: new privileges and most system calls.
#pragma once

#include <expected>
#include <string>

namespace pib::fabric {

// For good. From here on the process starts no program, opens no file to write, has sockets of the
// families UNIX, INET and INET6 only, and maps no memory to execute. The error is one line.
[[nodiscard]] std::expected<void, std::string> confine();

}  // namespace pib::fabric
