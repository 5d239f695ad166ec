// SPDX-License-Identifier: GPL-2.0-or-later
// The last completions of a CQ, kept for dumps and recordings: the CQ itself is in guest memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "queues/completion.h"

namespace pib::hca {

class PastCompletions {
  public:
    static constexpr uint32_t kMost = 8;

    struct Entry {
        uint64_t time_ns = 0;
        uint32_t qpn = 0;
        uint32_t wqe_counter = 0;
        uint32_t byte_count = 0;
        CompletionOpcode opcode = CompletionOpcode::kSend;
        WcStatus status = WcStatus::kSuccess;
    };

    void add(uint64_t time_ns, const Completion& completion) {
        ring_[count_++ % kMost] = {.time_ns = time_ns,
                                   .qpn = completion.qpn,
                                   .wqe_counter = completion.wqe_counter,
                                   .byte_count = completion.byte_count,
                                   .opcode = completion.opcode,
                                   .status = completion.error.status};
    }
    // Calls f for each kept completion, oldest first.
    template <typename F>
    void for_each(F&& f) const {
        for (uint64_t i = count_ - std::min<uint64_t>(count_, kMost); i < count_; ++i) {
            f(ring_[i % kMost]);
        }
    }

  private:
    std::array<Entry, kMost> ring_{};
    uint64_t count_ = 0;
};

}  // namespace pib::hca
