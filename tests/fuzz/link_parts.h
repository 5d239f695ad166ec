// SPDX-License-Identifier: GPL-2.0-or-later
// Parts that the fuzz targets of links share: a link that can come up, frames of any type, and
// memory to hand over.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>

#include "fuzz_target.h"
#include "ib/wire/link_frame.h"

namespace pib::fuzz {

inline link::Link make_parameters(uint8_t vl_cap, uint16_t epoch = 1) {
    return {.up = true,
            .width_enabled = 2,
            .speed_enabled = 7,
            .speed_ext_enabled = 15,
            .mtu_cap = 5,
            .vl_cap = vl_cap,
            .epoch = epoch};
}

// A whole frame: type, flags and body are the input's.
inline Bytes any_frame(Input& in) {
    Bytes frame = {in.byte(), in.byte(), 0, 0, 0, 0, 0, 0};
    const auto body = in.take(in.byte() * 2U);
    frame[6] = static_cast<uint8_t>(body.size() >> 8);
    frame[7] = static_cast<uint8_t>(body.size());
    std::ranges::copy(body, std::back_inserter(frame));
    return frame;
}

struct Freed {
    void operator()(uint8_t* bytes) const { ::operator delete[](bytes, std::align_val_t(64)); }
};
using Aligned = std::unique_ptr<uint8_t[], Freed>;

// A buffer of exactly this size, so that the sanitizer reports an access past its end.
inline Aligned zeroed(size_t bytes) {
    Aligned made(new (std::align_val_t(64)) uint8_t[bytes]);
    std::fill_n(made.get(), bytes, uint8_t{0});
    return made;
}

}  // namespace pib::fuzz
