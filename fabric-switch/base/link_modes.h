// SPDX-License-Identifier: GPL-2.0-or-later
// The widths and speeds of a port.
#pragma once

#include <cstdint>

#include "ib/wire/mad.h"

namespace pib::fabric {

// Masks as in PortInfo:Link*Supported; 0: not set in the topology file.
struct LinkModes {
    uint8_t width = 0;
    uint8_t speed = 0;
    uint8_t speed_ext = 0;

    bool operator==(const LinkModes&) const = default;
    // Takes an unset width, and unset speeds, from `other`. If either speed is set here, neither
    // comes from `other`.
    [[nodiscard]] LinkModes or_else(const LinkModes& other) const {
        const bool speeds = speed != 0 || speed_ext != 0;
        return {.width = width != 0 ? width : other.width,
                .speed = speeds ? speed : other.speed,
                .speed_ext = speeds ? speed_ext : other.speed_ext};
    }
};

inline constexpr LinkModes kAllLinkModes{
    .width = ib::link_width::k1x | ib::link_width::k4x,
    .speed = ib::link_speed::kSdr | ib::link_speed::kDdr | ib::link_speed::kQdr,
    .speed_ext = ib::link_speed_ext::kFdr | ib::link_speed_ext::kEdr | ib::link_speed_ext::kHdr |
                 ib::link_speed_ext::kNdr};

}  // namespace pib::fabric
