// SPDX-License-Identifier: GPL-2.0-or-later
// Bounded output of a stream: bytes are written in place at the end and read contiguously from the
// front. Pending bytes move to the front only if at least as many bytes have been consumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace pib::link {

class OutputBuffer {
  public:
    // The kernel allocates pages at first use, so an idle connection needs little memory.
    explicit OutputBuffer(size_t capacity)
        : bytes_(std::make_unique_for_overwrite<uint8_t[]>(capacity)), capacity_(capacity) {}

    [[nodiscard]] size_t size() const { return end_ - begin_; }
    [[nodiscard]] size_t capacity() const { return capacity_; }
    [[nodiscard]] std::span<const uint8_t> pending() const {
        return {bytes_.get() + begin_, size()};
    }
    // Whether reserve(bytes) would succeed.
    [[nodiscard]] bool has_room(size_t bytes) const {
        return capacity() - end_ >= bytes || (can_compact() && capacity() - size() >= bytes);
    }
    // Room for `bytes` after the pending bytes, or an empty span; commit() makes them pending.
    [[nodiscard]] std::span<uint8_t> reserve(size_t bytes) {
        if (!has_room(bytes)) {
            return {};
        }
        if (capacity() - end_ < bytes) {
            compact();
        }
        return {bytes_.get() + end_, bytes};
    }
    void commit(size_t bytes) { end_ += bytes; }
    void consume(size_t bytes) {
        begin_ += bytes;
        if (begin_ >= end_) {
            begin_ = end_ = 0;
        }
    }
    void clear() { begin_ = end_ = 0; }

  private:
    [[nodiscard]] bool can_compact() const { return size() <= begin_; }
    void compact() {
        const size_t left = size();
        std::memmove(bytes_.get(), bytes_.get() + begin_, left);
        begin_ = 0;
        end_ = left;
    }

    std::unique_ptr<uint8_t[]> bytes_;
    size_t capacity_ = 0;
    size_t begin_ = 0;
    size_t end_ = 0;
};

}  // namespace pib::link
