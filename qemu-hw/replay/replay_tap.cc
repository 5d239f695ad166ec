// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay_tap.h"

#include <algorithm>

namespace pib::hca::replay {

using record::Tag;

uint32_t ReplayTap::position(uint32_t loaded) {
    const Answer* answer = answers_.take({Tag::kRingPosition});
    return answer != nullptr ? static_cast<uint32_t>(answer->value) : loaded;
}

void ReplayTap::copied(std::span<uint8_t> bytes) {
    if (const Answer* answer = answers_.take({Tag::kRingBytes}, bytes.size())) {
        std::ranges::copy(answers_.bytes_of(*answer), bytes.begin());
    }
}

// `bytes` is in a ring of ReplayRings, so it may be written. Most recordings contain no payload;
// its bytes then stay as they are.
void ReplayTap::payload(std::span<const uint8_t> bytes) {
    const Answer* answer = answers_.take_if(Tag::kRingPayload);
    if (answer != nullptr && answer->value == bytes.size()) {
        std::ranges::copy(answers_.bytes_of(*answer), const_cast<uint8_t*>(bytes.data()));
    }
}

}  // namespace pib::hca::replay
