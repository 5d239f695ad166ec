// SPDX-License-Identifier: GPL-2.0-or-later
// Maps the memory that a channel adapter shares by a MEMORY frame (docs/fabric-protocol.md, "Peer
// copy").
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "links/adapter_memory.h"

namespace pib::fabric {

// `descriptors`: the control memory, then the blocks, whose sizes in bytes are in `blocks`. Checks
// them first: an access to memory that has shrunk, or to a hole that cannot be filled, would kill
// this process. If the blocks cannot be mapped, stores link::kNotMapped in the control memory; the
// caller stores link::kMapped. Errors are one-line messages for the user.
[[nodiscard]] std::expected<std::shared_ptr<const AdapterMemory>, std::string> map_adapter_memory(
    std::span<const UniqueFd> descriptors, std::span<const uint64_t> blocks);

}  // namespace pib::fabric
