// SPDX-License-Identifier: GPL-2.0-or-later
#include "block_buffer.h"

#include <span>

#include "ib/wire/crc.h"
#include "record/record_format.h"

namespace pib::hca::replay {

bool BlockBuffer::fail(const std::string& why) {
    error_ = "damaged in block " + std::to_string(number_) + ": " + why +
             "; take another copy of the recording";
    return false;
}

bool BlockBuffer::read_block() {
    record::BlockHeader header{};
    ++number_;
    file_.read(reinterpret_cast<char*>(&header), sizeof(header));
    if (file_.gcount() != sizeof(header)) {
        truncated_ = file_.gcount() != 0;
        return false;
    }
    if (header.bytes == 0 || header.bytes > record::kMostBlockBytes) {
        return fail("a block of " + std::to_string(header.bytes) + " bytes");
    }
    block_.resize(header.bytes);
    file_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
    if (file_.gcount() != static_cast<std::streamsize>(block_.size())) {
        truncated_ = true;
        return false;
    }
    crc_state_ = ib::crc32_update(crc_state_,
                                  {reinterpret_cast<const uint8_t*>(block_.data()), block_.size()});
    return ~crc_state_ == header.crc || fail("its checksum is wrong");
}

BlockBuffer::int_type BlockBuffer::underflow() {
    if (!error_.empty() || truncated_ || !read_block()) {
        return traits_type::eof();
    }
    setg(block_.data(), block_.data(), block_.data() + block_.size());
    return traits_type::to_int_type(*gptr());
}

}  // namespace pib::hca::replay
