// SPDX-License-Identifier: GPL-2.0-or-later
// Deadlines by id, such as a QPN, at most one for each id. An index finds the entry of an id in the
// heap: ACKs move deadlines a thousand times more often than deadlines expire.
#pragma once

#include <cstdint>
#include <vector>

#include "base/host.h"

namespace pib::hca {

class Timers {
  public:
    // Sets or replaces the deadline of `id`.
    void set(uint32_t id, uint64_t deadline_ns);
    void cancel(uint32_t id);
    void clear();

    // The earliest deadline, or kNever.
    uint64_t next() const { return heap_.empty() ? kNever : heap_.front().deadline_ns; }
    static constexpr uint32_t kNone = UINT32_MAX;
    // Removes and returns an id whose deadline is not after `now_ns`, the earliest first, or kNone.
    uint32_t take_due(uint64_t now_ns);

  private:
    struct Entry {
        uint64_t deadline_ns;
        uint32_t id;
    };
    [[nodiscard]] bool earlier(const Entry& a, const Entry& b) const {
        // Ties are resolved by id, so that runs are reproducible.
        return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.id < b.id;
    }
    void place(uint32_t index, const Entry& entry);
    void settle(uint32_t index, Entry entry);
    void remove(uint32_t index);

    std::vector<Entry> heap_;
    std::vector<uint32_t> index_of_;  // index in heap_, by id; kNone: no deadline
};

}  // namespace pib::hca
