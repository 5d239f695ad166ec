// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fake_host.h"

namespace pib::hca::test {

// Pages of guest RAM that do not follow each other, seen as one range; and their page list.
class GuestMemory {
  public:
    GuestMemory() = default;
    GuestMemory(FakeHost& host, uint64_t bytes);

    pib_hca_pages list() const { return list_; }
    uint64_t bytes() const { return pages_.size() * FakeHost::kPage; }
    uint64_t page(size_t index) const { return pages_[index]; }  // bus address
    size_t page_count() const { return pages_.size(); }
    std::span<const uint8_t, FakeHost::kPage> view(size_t index) const {
        return host_->page(pages_[index]);
    }
    // As GuestRam::take_written().
    bool take_written(size_t index) const { return host_->take_written(pages_[index]); }

    void read(uint64_t offset, std::span<uint8_t> to) const;
    void write(uint64_t offset, std::span<const uint8_t> from);
    template <typename T>
    T peek(uint64_t offset) const {
        T value;
        read(offset, {reinterpret_cast<uint8_t*>(&value), sizeof value});
        return value;
    }
    template <typename T>
    void poke(uint64_t offset, const T& value) {
        write(offset, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
    }

  private:
    FakeHost* host_ = nullptr;
    std::vector<uint64_t> pages_;
    pib_hca_pages list_{};
};

}  // namespace pib::hca::test
