// SPDX-License-Identifier: GPL-2.0-or-later
// Reads a recording (record/record_format.h) step by step. The file may contain anything: every
// number is checked before it is used, and a step takes a bounded amount of memory.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "block_buffer.h"
#include "record/record_format.h"
#include "record/state_entry.h"

namespace pib::hca::replay {

// An answer of the host.
struct Answer {
    record::Tag tag{};
    uint64_t value = 0;   // see record::Tag; kClock: time in ns; tags with bytes: number of bytes
    uint64_t offset = 0;  // offset of the answer's bytes in Step::data
};

// A call of the device and the answers that it got. The first step has the answers of the
// device's creation and no entry.
struct Step {
    bool has_entry = false;
    record::Tag entry{};
    uint64_t time_ns = 0;  // at the start of the call
    uint32_t check = 0;    // low 32 bits of the OutputCheck before the call
    std::array<uint64_t, 4> fields{};
    std::vector<uint8_t> received;  // kLinkReceived; bytes that were not recorded are 0
    std::vector<Answer> answers;
    std::vector<uint8_t> data;
    bool is_last = false;  // the file ends here; answers may be missing
};

class RecordingReader {
  public:
    struct Header {
        uint32_t major = 0;  // version of the register interface
        uint32_t minor = 0;
        Config config;
    };
    enum class Item : uint8_t { kStep, kMark, kEnd };

    explicit RecordingReader(std::istream& file) : file_(file), content_(&blocks_) {}

    // Errors are one line for a user. Call header() first.
    [[nodiscard]] std::expected<Header, std::string> header();
    [[nodiscard]] std::expected<Item, std::string> next();

    const Step& step() const { return step_; }
    const record::State& mark() const { return mark_; }
    // After kEnd: the file ends with an incomplete block or step.
    [[nodiscard]] bool is_truncated() const { return truncated_ || blocks_.is_truncated(); }
    // Number of bytes of the content that have been read.
    uint64_t position() const { return position_; }

  private:
    // Limits of a field and of all fields of a step, in bytes. The longest field that a device
    // records is the content of a link's buffer.
    static constexpr uint64_t kMostBytes = 1u << 24;
    static constexpr uint64_t kMostStepBytes = 1u << 28;
    static constexpr size_t kMostAnswers = 1u << 24;
    static constexpr uint64_t kMostObjects = 1u << 21;

    // Reads what stands before the blocks.
    [[nodiscard]] std::expected<void, std::string> read_version();
    // False: the content ends, or error_ or blocks_ says what is wrong.
    [[nodiscard]] bool read_byte(uint8_t& byte);
    [[nodiscard]] bool read_number(uint64_t& number);
    [[nodiscard]] bool read_fixed(uint64_t& number, unsigned bytes);
    [[nodiscard]] bool read_bytes(std::vector<uint8_t>& to, uint64_t bytes);
    [[nodiscard]] bool read_entry(record::Tag tag);
    [[nodiscard]] bool read_received(uint64_t bytes);
    [[nodiscard]] bool read_answer(record::Tag tag);
    [[nodiscard]] bool read_mark();
    [[nodiscard]] bool fail(const std::string& why);
    // The tag of the next event; false at the end.
    [[nodiscard]] bool peek(record::Tag& tag);

    std::istream& file_;
    BlockBuffer blocks_{file_};
    std::istream content_;
    Step step_;
    record::State mark_;
    uint64_t time_ns_ = 0;
    uint64_t position_ = 0;
    bool started_ = false;
    bool truncated_ = false;
    std::string error_;
};

}  // namespace pib::hca::replay
