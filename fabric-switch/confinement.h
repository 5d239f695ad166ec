// SPDX-License-Identifier: GPL-2.0-or-later
// Gives up rights that a serving switch does not need: capabilities, new privileges and most system
// calls.
#pragma once

#include <expected>
#include <string>

namespace pib::fabric {

// Drops all capabilities of the calling thread and of the threads that this thread starts later. A
// switch that root has started has capabilities. The error is one line.
[[nodiscard]] std::expected<void, std::string> drop_capabilities();

// Drops the capabilities of the calling thread, and gives up the other rights for all threads of
// the process. This cannot be undone. Afterwards the process can start no program and no thread,
// open no file for writing, create sockets only of the families UNIX, INET and INET6, and map no
// executable memory. The error is one line.
[[nodiscard]] std::expected<void, std::string> confine();

}  // namespace pib::fabric
