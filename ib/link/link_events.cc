// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/link_events.h"

#include <array>

namespace pib::link {

const char* to_string(LinkError error) {
    static constexpr std::array<const char*, 5> kNames = {
        "refused", "malformed frame", "unexpected frame", "other protocol version",
        "credit limit exceeded"};
    const auto index = static_cast<size_t>(error);
    return index < kNames.size() ? kNames[index] : "unknown";
}

HelloAnswer LinkEvents::link_hello(const link::Hello&) {
    return std::unexpected(
        link::Refuse{link::RefuseReason::kNoFreePort, "this side does not listen"});
}

std::expected<std::span<uint8_t>, std::string> LinkEvents::link_memory(const link::Memory&) {
    return std::unexpected("this side accepts no shared memory");
}

std::expected<void, std::string> LinkEvents::link_pull(const link::Pull&) {
    return std::unexpected("this side makes no peer copies");
}

}  // namespace pib::link
