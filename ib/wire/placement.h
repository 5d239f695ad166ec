// SPDX-License-Identifier: GPL-2.0-or-later
// Where the payload of a burst is: in the burst, or in memory that the switch copies.
#pragma once

#include <cstdint>
#include <vector>

#include "ib/wire/link_frame.h"

namespace pib::ib {

struct Placement {
    enum class Form : std::uint8_t {
        kHere,     // in the burst
        kOffered,  // in the memory of its sender
        kPulled,   // in the memory of its receiver, at `where`
    };
    Form form = Form::kHere;
    const link::Reference* offer = nullptr;  // kOffered, at a switch: where it is
    // kOffered, at an adapter: the adapter writes here to where it is to be pulled.
    std::vector<link::RamPiece> where{};

    [[nodiscard]] bool is_here() const { return form == Form::kHere; }
    [[nodiscard]] bool is_offered() const { return form == Form::kOffered; }
};

}  // namespace pib::ib
