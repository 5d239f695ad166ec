// SPDX-License-Identifier: GPL-2.0-or-later
// A FIFO that grows to its high-water mark and allocates nothing after that.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pib::fabric {

template <typename T>
class RingQueue {
  public:
    [[nodiscard]] bool empty() const { return count_ == 0; }
    [[nodiscard]] size_t size() const { return count_; }
    [[nodiscard]] T& front() { return slots_[begin_]; }
    [[nodiscard]] const T& front() const { return slots_[begin_]; }

    void push(T item) {
        if (count_ == slots_.size()) {
            grow();
        }
        slots_[(begin_ + count_) & (slots_.size() - 1)] = std::move(item);
        ++count_;
    }
    // Releases the element's resources now, not when its slot is used again.
    void pop() {
        slots_[begin_] = T{};
        begin_ = (begin_ + 1) & (slots_.size() - 1);
        --count_;
    }
    void clear() {
        while (!empty()) {
            pop();
        }
    }

  private:
    void grow() {
        std::vector<T> larger(slots_.empty() ? 4 : slots_.size() * 2);  // a power of two
        for (size_t i = 0; i < count_; ++i) {
            larger[i] = std::move(slots_[(begin_ + i) & (slots_.size() - 1)]);
        }
        slots_ = std::move(larger);
        begin_ = 0;
    }

    std::vector<T> slots_;
    size_t begin_ = 0;
    size_t count_ = 0;
};

}  // namespace pib::fabric
