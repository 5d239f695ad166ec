// SPDX-License-Identifier: GPL-2.0-or-later
// Writes a recording in blocks with checksums. The buffer of a block is allocated once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/host.h"
#include "record/record_format.h"

namespace pib::hca::record {

// The file of a recording. The host of the device implements it.
class Sink {
  public:
    virtual ~Sink() = default;
    // Appends bytes. False: the write failed, and the user was told why; the recording ends.
    [[nodiscard]] virtual bool write(std::span<const uint8_t> bytes) = 0;
};

class RecordBuffer {
  public:
    // `limit`: maximum size of the file in bytes. The recording ends at the limit, with a warning
    // in the log of the host. Writes magic and version.
    RecordBuffer(Host& host, Sink& sink, uint64_t limit);

    // Makes room for a tag and at most six numbers. Call it before put(), put_number() and
    // put_fixed().
    void make_room();
    void put(uint8_t byte) { buffer_[used_++] = byte; }
    void put_number(uint64_t number);                 // LEB128
    void put_fixed(uint64_t number, unsigned bytes);  // little-endian
    // Takes any number of bytes, and needs no make_room().
    void put_bytes(std::span<const uint8_t> bytes);

    // Writes the content of the buffer to the file, as a block.
    void flush();
    // Ends the recording. Drops the bytes in the buffer.
    void stop();
    [[nodiscard]] bool stopped() const { return stopped_; }

  private:
    // Appends bytes to the file, unless its limit is reached.
    void write(std::span<const uint8_t> bytes);

    Host& host_;
    Sink& sink_;
    const uint64_t limit_;
    std::vector<uint8_t> buffer_;
    size_t used_ = sizeof(BlockHeader);
    uint64_t written_ = 0;      // bytes in the file
    uint32_t crc_state_ = ~0u;  // the content of all written blocks
    bool stopped_ = false;
};

}  // namespace pib::hca::record
