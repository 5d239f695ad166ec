// SPDX-License-Identifier: GPL-2.0-or-later
// A container of objects with numbers, such as PDs, EQs, CQs and QPs. Objects are referred to by
// number, not by pointer, because the state of an HCA is plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace pib::hca {

// Choice of a new object's number: the next free number after the last one, so that a stale number
// rarely names a new object; the lowest free number; a random free number; or a number that no
// object has had, while there is one.
enum class NumberChoice : uint8_t { kRound, kLowest, kRandom, kFresh };

// Holds at most `capacity` objects numbered first .. first + capacity - 1.
template <typename T>
class Table {
  public:
    Table(uint32_t first, uint32_t capacity) : first_(first), capacity_(capacity) {}

    // insert() returns the new object's number, or kFull.
    static constexpr uint32_t kFull = UINT32_MAX;
    void set_choice(NumberChoice choice) { choice_ = choice; }
    uint32_t insert(T object) {
        if (count_ == capacity_) {
            return kFull;
        }
        if (choice_ != NumberChoice::kRound) [[unlikely]] {
            choose();
        }
        while (slot_used(next_)) {
            next_ = (next_ + 1) % capacity_;
        }
        const uint32_t index = next_;
        if (index >= slots_.size()) {
            slots_.resize(index + 1);
        }
        slots_[index] = std::make_unique<T>(std::move(object));
        ++count_;
        next_ = (index + 1) % capacity_;
        return first_ + index;
    }

    // nullptr: no object has this number. The pointer is valid until erase() or clear().
    T* find(uint32_t number) {
        const uint32_t index = number - first_;
        return slot_used(index) ? slots_[index].get() : nullptr;
    }

    const T* find(uint32_t number) const {
        const uint32_t index = number - first_;
        return slot_used(index) ? slots_[index].get() : nullptr;
    }

    // Does nothing if no object has this number.
    void erase(uint32_t number) {
        const uint32_t index = number - first_;
        if (slot_used(index)) {
            slots_[index].reset();
            --count_;
        }
    }

    template <typename F>
    void for_each(F&& f) {
        for (uint32_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i]) {
                f(first_ + i, *slots_[i]);
            }
        }
    }

    template <typename F>
    void for_each(F&& f) const {
        for (uint32_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i]) {
                f(first_ + i, std::as_const(*slots_[i]));
            }
        }
    }

    void clear() {
        slots_.clear();
        count_ = 0;
        next_ = 0;
    }

    uint32_t count() const { return count_; }
    uint32_t capacity() const { return capacity_; }

  private:
    [[nodiscard]] bool slot_used(uint32_t index) const {
        return index < slots_.size() && slots_[index];
    }

    // Sets the place where the search for the next free number begins.
    void choose() {
        if (choice_ == NumberChoice::kFresh) {
            next_ = slots_.size() < capacity_ ? static_cast<uint32_t>(slots_.size()) : next_;
        } else {
            next_ = choice_ == NumberChoice::kLowest ? 0 : next_random() % capacity_;
        }
    }

    // The linear congruential generator of Numerical Recipes. The numbers only have to look random.
    // The low bits are the least random, so they are dropped.
    uint32_t next_random() {
        random_ = random_ * 1664525 + 1013904223;
        return random_ >> 8;
    }

    uint32_t first_;
    uint32_t capacity_;
    NumberChoice choice_ = NumberChoice::kRound;
    uint32_t random_ = 0;
    uint32_t count_ = 0;
    uint32_t next_ = 0;
    std::vector<std::unique_ptr<T>> slots_;
};

}  // namespace pib::hca
