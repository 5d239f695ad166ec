// SPDX-License-Identifier: GPL-2.0-or-later
// What two ports tell each other about a link, and what follows from it (docs/fabric-protocol.md,
// "Link state"; IBA vol. 1, 14.2.5.6). Values are the bit masks and codes of PortInfo.
#pragma once

#include <cstdint>
#include <optional>

namespace pib::link {

// A port's side of the link: PortInfo components, as the SM left them.
struct PortOffer {
    bool up = false;                     // wants the link: physical state is Polling or LinkUp
    std::uint8_t width_enabled = 0;      // LinkWidthEnabled
    std::uint8_t speed_enabled = 0;      // LinkSpeedEnabled
    std::uint8_t speed_ext_enabled = 0;  // LinkSpeedExtEnabled
    std::uint8_t mtu_cap = 5;            // MTUCap, 1..5
    std::uint8_t vl_cap = 4;             // VLCap, 1..5

    bool operator==(const PortOffer&) const = default;
};

// What both sides have in common while the link is up.
struct ActiveLink {
    std::uint8_t width = 0;      // LinkWidthActive: one bit
    std::uint8_t speed = 0;      // LinkSpeedActive: one bit
    std::uint8_t speed_ext = 0;  // LinkSpeedExtActive: one value, 0 when a basic speed is active
    std::uint8_t peer_mtu_cap = 0;
    std::uint8_t peer_vl_cap = 0;

    bool operator==(const ActiveLink&) const = default;
};

// The link that two offers make; nothing while one side does not want it or there is no common
// width or speed.
[[nodiscard]] std::optional<ActiveLink> negotiate(const PortOffer& own, const PortOffer& peer);

// Data VLs of a VLCap or OperationalVLs code (1, 2, 4, 8, 15); 0 for a reserved code.
[[nodiscard]] constexpr unsigned data_vls(std::uint8_t code) {
    constexpr std::uint8_t kVls[] = {0, 1, 2, 4, 8, 15};
    return code < sizeof(kVls) ? kVls[code] : 0;
}

}  // namespace pib::link
