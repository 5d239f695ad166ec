// SPDX-License-Identifier: GPL-2.0-or-later
// The bytes of a recording on their way to the file. The buffer is allocated once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/host.h"

namespace pib::hca::record {

// The file of a recording. The host of the device implements it.
class Sink {
  public:
    virtual ~Sink() = default;
    // Appends bytes. False: this failed, and the user has been told why; the recording ends.
    virtual bool write(std::span<const uint8_t> bytes) = 0;
};

class RecordBuffer {
  public:
    // `limit`: bytes of the file. The host's log gets a warning at the limit.
    RecordBuffer(Host& host, Sink& sink, uint64_t limit);

    // Makes room for a tag and at most six numbers. Call it before put(), put_number() and
    // put_fixed().
    void make_room();
    void put(uint8_t byte) { buffer_[used_++] = byte; }
    void put_number(uint64_t number);
    void put_fixed(uint64_t number, unsigned bytes);
    // Takes any number of bytes, and needs no make_room().
    void put_bytes(std::span<const uint8_t> bytes);

    // Writes the content of the buffer to the file.
    void flush();
    // Ends the recording.
    void stop();
    bool stopped() const { return stopped_; }

  private:
    Host& host_;
    Sink& sink_;
    const uint64_t limit_;
    std::vector<uint8_t> buffer_;
    size_t used_ = 0;
    uint64_t written_ = 0;
    bool stopped_ = false;
};

}  // namespace pib::hca::record
