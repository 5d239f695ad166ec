// SPDX-License-Identifier: GPL-2.0-or-later
// The SL to VL mapping of an egress port: one row for each input port (IBA 14.2.5.8). If all rows
// are equal, as at most switches, the table stores only one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ib/wire/mad.h"

namespace pib::ib {

using SlToVl = std::array<uint8_t, kSlCount>;

class SlToVlTable {
  public:
    SlToVlTable() = default;
    SlToVlTable(size_t inputs, const SlToVl& row) : inputs_(inputs), row_(row) {}

    // Number of input ports.
    [[nodiscard]] size_t size() const { return inputs_; }
    [[nodiscard]] const SlToVl& operator[](size_t input) const {
        return rows_.empty() ? row_ : rows_[input];
    }
    void set(size_t input, const SlToVl& row) {
        std::vector<SlToVl> rows(inputs_);
        for (size_t i = 0; i < inputs_; ++i) {
            rows[i] = i == input ? row : (*this)[i];
        }
        const bool same = std::ranges::count(rows, row) == std::ssize(rows);
        row_ = same ? row : SlToVl{};
        rows_ = same ? std::vector<SlToVl>{} : std::move(rows);
    }

    bool operator==(const SlToVlTable&) const = default;

  private:
    size_t inputs_ = 0;
    SlToVl row_{};              // the row of all inputs, if rows_ is empty
    std::vector<SlToVl> rows_;  // by input
};

}  // namespace pib::ib
