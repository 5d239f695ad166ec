// SPDX-License-Identifier: GPL-2.0-or-later
// The content of a recording's blocks (record/record_format.h), as a stream. A byte is given only
// after the checksum of its block was found right.
#pragma once

#include <cstdint>
#include <istream>
#include <streambuf>
#include <string>
#include <vector>

namespace pib::hca::replay {

class BlockBuffer final : public std::streambuf {
  public:
    // `file`: its next byte must be the first of a block when this buffer is first read.
    explicit BlockBuffer(std::istream& file) : file_(file) {}

    // One line for a user; empty: no block was damaged.
    const std::string& error() const { return error_; }
    // The file ends within a block. The content of that block is not given.
    [[nodiscard]] bool is_truncated() const { return truncated_; }

  protected:
    int_type underflow() override;

  private:
    [[nodiscard]] bool read_block();
    [[nodiscard]] bool fail(const std::string& why);

    std::istream& file_;
    std::vector<char> block_;
    uint64_t number_ = 0;  // the block in block_; the first is 1
    uint32_t crc_state_ = ~0u;
    bool truncated_ = false;
    std::string error_;
};

}  // namespace pib::hca::replay
