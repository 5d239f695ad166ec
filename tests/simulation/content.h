// SPDX-License-Identifier: GPL-2.0-or-later
// Bytes of messages.
#pragma once

#include <cstdint>

#include "shadow.h"

namespace pib::simulation {

// Random bytes. The same seed gives the same bytes.
Bytes random_bytes(uint64_t seed, size_t length);

}  // namespace pib::simulation
