// SPDX-License-Identifier: GPL-2.0-or-later
// The state of the device as hashes of its objects, for the marks of a recording. It reads the
// device's own state only, no guest memory.
#pragma once

#include "commands/command_queue.h"
#include "mmio/device_objects.h"
#include "record/state_entry.h"

namespace pib::hca {

// `fatal_cause`: 0 while the device works. `journal`: as JSON.
record::State state_digest(DeviceObjects& objects, const CommandQueue& commands,
                           uint32_t fatal_cause, const std::string& journal);

}  // namespace pib::hca
