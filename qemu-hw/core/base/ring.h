// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pib::hca {

// A FIFO that keeps its memory: it allocates only when it exceeds its former peak.
template <typename T>
class Ring {
  public:
    [[nodiscard]] bool empty() const { return count_ == 0; }
    size_t size() const { return count_; }
    void clear() { head_ = count_ = 0; }

    void push(T value) {
        if (count_ == slots_.size()) {
            grow();
        }
        slots_[(head_ + count_) & (slots_.size() - 1)] = std::move(value);
        ++count_;
    }
    // The oldest element; pop() removes it. The ring must not be empty.
    T& front() { return slots_[head_]; }
    T pop() {
        T value = std::move(slots_[head_]);
        head_ = (head_ + 1) & (slots_.size() - 1);
        --count_;
        return value;
    }

    // Removes all elements equal to `value`; the others keep their order.
    void remove(const T& value) {
        for (size_t n = count_; n > 0; --n) {
            if (T entry = pop(); entry != value) {
                push(std::move(entry));
            }
        }
    }

  private:
    void grow() {
        std::vector<T> larger(slots_.empty() ? 8 : slots_.size() * 2);
        for (size_t i = 0; i < count_; ++i) {
            larger[i] = std::move(slots_[(head_ + i) & (slots_.size() - 1)]);
        }
        slots_ = std::move(larger);
        head_ = 0;
    }

    std::vector<T> slots_;  // the size is a power of two
    size_t head_ = 0;
    size_t count_ = 0;
};

}  // namespace pib::hca
