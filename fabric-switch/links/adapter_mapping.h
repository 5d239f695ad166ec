// SPDX-License-Identifier: GPL-2.0-or-later
// Maps what a channel adapter hands over with MEMORY (docs/fabric-protocol.md, "One copy").
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "links/adapter_memory.h"

namespace pib::fabric {

// `descriptors`: control memory, then the blocks, whose bytes `blocks` says. They are checked
// before: memory that could shrink, or have holes that nothing fills, would end this process.
// Whatever comes of it, an adapter that gave usable control memory finds it there. Errors are one
// line for a user.
[[nodiscard]] std::expected<std::shared_ptr<const AdapterMemory>, std::string> map_adapter_memory(
    std::span<const UniqueFd> descriptors, std::span<const std::uint64_t> blocks);

}  // namespace pib::fabric
