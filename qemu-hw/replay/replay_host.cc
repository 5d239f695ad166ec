// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay_host.h"

#include <algorithm>
#include <cstdio>

namespace pib::hca::replay {

using record::Tag;

bool ReplayHost::dma_read(uint64_t bus_addr, std::span<uint8_t> to) {
    purpose_ = DmaPurpose::kOther;
    check_.call(Call::kRead, bus_addr, to.size());
    const Answer* answer =
        answers_.take({Tag::kRead, Tag::kReadPayload, Tag::kReadFailed}, to.size());
    if (answer == nullptr) {
        memory_.read(bus_addr, to);
        return answers_.tolerant();
    }
    if (answer->tag == Tag::kRead) {
        std::ranges::copy(answers_.bytes_of(*answer), to.begin());
        if (answers_.tolerant()) {
            memory_.write(bus_addr, to);
        }
    } else if (answer->tag == Tag::kReadPayload) {
        std::ranges::fill(to, uint8_t{0});
    }
    return answer->tag != Tag::kReadFailed;
}

bool ReplayHost::dma_write(uint64_t bus_addr, std::span<const uint8_t> from) {
    check_.dma_write(bus_addr, from, std::exchange(purpose_, DmaPurpose::kOther));
    if (answers_.tolerant()) {
        memory_.write(bus_addr, from);
    }
    const Answer* answer = answers_.take({Tag::kWritten, Tag::kWriteFailed});
    return answer != nullptr ? answer->tag == Tag::kWritten : answers_.tolerant();
}

bool ReplayHost::dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) {
    purpose_ = DmaPurpose::kOther;
    check_.call(Call::kSwap, bus_addr, desired);
    const Answer* answer = answers_.take({Tag::kSwapped, Tag::kSwapFailed});
    if (answer == nullptr || answer->tag == Tag::kSwapFailed) {
        return false;
    }
    expected = answer->value;
    return true;
}

VectorState ReplayHost::vector_state(unsigned /*vector*/) {
    const Answer* answer = answers_.take({Tag::kVector});
    const uint64_t state = answer != nullptr ? answer->value : 0;
    return static_cast<VectorState>(std::min(state, static_cast<uint64_t>(VectorState::kDisabled)));
}

uint64_t ReplayHost::real_ns() {
    const Answer* answer = answers_.take({Tag::kRealClock});
    return answer != nullptr ? answer->value : 0;
}

size_t ReplayHost::link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) {
    uint64_t bytes = 0;
    for (const auto& part : parts) {
        bytes += part.size();
    }
    check_.call(Call::kLinkWrite, port, bytes);
    const Answer* answer = answers_.take({Tag::kLinkTaken});
    return std::min(bytes, answer != nullptr ? answer->value : bytes);
}

void ReplayHost::log(LogLevel /*level*/, std::string_view text) {
    if (verbose_) {
        std::printf("%.9f s: %.*s\n", static_cast<double>(answers_.time_ns()) * 1e-9,
                    static_cast<int>(text.size()), text.data());
    }
}

}  // namespace pib::hca::replay
