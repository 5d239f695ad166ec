// SPDX-License-Identifier: GPL-2.0-or-later
// The location of a burst's payload: in the burst, or in memory between which the switch copies.
#pragma once

#include <cstdint>
#include <vector>

#include "ib/wire/link_frame.h"

namespace pib::ib {

struct Placement {
    enum class Form : std::uint8_t {
        kHere,     // in the burst
        kOffered,  // in the sender's memory
        kPulled,   // in the receiver's memory, at `where`
    };
    Form form = Form::kHere;
    const link::Offer* offer = nullptr;  // kOffered, at a switch: where it is
    // kOffered, at an adapter: the adapter writes here to where it is to be pulled.
    std::vector<link::BlockSegment> where{};

    [[nodiscard]] bool is_here() const { return form == Form::kHere; }
    [[nodiscard]] bool is_offered() const { return form == Form::kOffered; }
};

}  // namespace pib::ib
