// SPDX-License-Identifier: GPL-2.0-or-later
// A switch that a subnet manager has configured.
#pragma once

#include <array>

#include "switch/switch.h"

namespace pib::fuzz {

// Acts as a subnet manager: forwards LID N to port N, and moves ports whose link is up to Active.
inline void activate(fabric::Switch& sw, unsigned ports) {
    std::array<uint8_t, ib::kLftEntriesPerBlock> block;
    block.fill(fabric::kNoPort);
    sw.node().lft.set_top(64);
    for (unsigned number = 1; number <= ports; ++number) {
        block[number] = static_cast<uint8_t>(number);
        ib::PortAttrs& attrs = sw.port(number).attrs();
        if (attrs.link_is_up()) {
            attrs.set(ib::port_info::kPortState, static_cast<unsigned>(ib::PortState::kActive));
            attrs.set(ib::port_info::kHoqLife, 12);
            sw.port(number).attributes_changed(ib::PortEvent::kStateChange);
        }
    }
    (void)sw.node().lft.write_block(0, block);
}

}  // namespace pib::fuzz
