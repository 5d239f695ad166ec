// SPDX-License-Identifier: GPL-2.0-or-later
// A table of fixed size that allocates storage only up to its highest used entry. Entries without
// storage read as `kUnused`.
#pragma once

#include <cstddef>
#include <vector>

namespace pib::fabric {

template <typename T, T kUnused>
class GrowingTable {
  public:
    explicit GrowingTable(size_t size) : size_(size) {}

    [[nodiscard]] size_t size() const { return size_; }
    // The number of entries up to the highest that has ever been used.
    [[nodiscard]] size_t used() const { return entries_.size(); }
    [[nodiscard]] T operator[](size_t index) const {
        return index < entries_.size() ? entries_[index] : kUnused;
    }
    // `index` is below size().
    void set(size_t index, T value) {
        if (index >= entries_.size()) {
            if (value == kUnused) {
                return;
            }
            entries_.resize(index + 1, kUnused);
        }
        entries_[index] = value;
    }

  private:
    size_t size_;
    std::vector<T> entries_;
};

}  // namespace pib::fabric
