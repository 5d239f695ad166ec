// SPDX-License-Identifier: GPL-2.0-or-later
// The location of a burst's payload: in the burst or, with peer copy, in the memory of the sender
// or the receiver.
#pragma once

#include <cstdint>
#include <vector>

#include "ib/wire/link_frame.h"

namespace pib::ib {

struct Placement {
    enum class Form : uint8_t {
        kHere,     // in the burst
        kOffered,  // in the sender's memory
        kPulled,   // in the receiver's memory, at `where`
    };
    Form form = Form::kHere;
    const link::Offer* offer = nullptr;  // kOffered, at a switch: where the payload is
    // At an adapter: the target of the pull. The port sets it when the form is kOffered.
    std::vector<link::BlockSegment> where{};

    [[nodiscard]] bool is_here() const { return form == Form::kHere; }
    [[nodiscard]] bool is_offered() const { return form == Form::kOffered; }
};

}  // namespace pib::ib
