// SPDX-License-Identifier: GPL-2.0-or-later
// Gives up rights that a serving switch does not need: capabilities, new privileges and most system
// calls.
#pragma once

#include <expected>
#include <string>

namespace pib::fabric {

// Drops all capabilities of the calling thread, and of threads that it starts from then on. The
// switch has some if root has started it. The error is one line.
[[nodiscard]] std::expected<void, std::string> drop_capabilities();

// Drops the capabilities of the calling thread, and gives up the other rights for all threads of
// the process. This cannot be undone. Afterwards the process can start no program and no thread,
// open no file for writing, create sockets only of the families UNIX, INET and INET6, and map no
// executable memory. The error is one line.
[[nodiscard]] std::expected<void, std::string> confine();

}  // namespace pib::fabric
