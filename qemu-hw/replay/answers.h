// SPDX-License-Identifier: GPL-2.0-or-later
// The host's answers in one call of a recording. The replayed device takes them in their order.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "recording_reader.h"

namespace pib::hca::replay {

class Answers {
  public:
    // `tolerant`: skips answers that the device does not ask for.
    explicit Answers(bool tolerant) : tolerant_(tolerant) {}

    // Call begin() before each call of the device. `step` must stay valid until end().
    void begin(const Step& step);
    // Call end() after each call of the device.
    void end();
    // The first question since begin() that only one device, recorded or replayed, has asked;
    // empty: there is none.
    const std::string& difference() const { return difference_; }
    // Whether the recording has ended within a call.
    [[nodiscard]] bool ran_out() const { return ran_out_; }
    uint64_t time_ns() const { return time_ns_; }
    [[nodiscard]] bool tolerant() const { return tolerant_; }

    static constexpr uint64_t kAny = UINT64_MAX;
    // Takes the next answer if it has one of these tags and, for a tag with bytes, this number of
    // bytes. nullptr: the next answer differs; the text of the difference names the first tag.
    const Answer* take(std::initializer_list<record::Tag> tags, uint64_t bytes = kAny);
    // Takes the next answer if it has this tag.
    const Answer* take_if(record::Tag tag);
    std::span<const uint8_t> bytes_of(const Answer& answer) const {
        return std::span(step_->data).subspan(answer.offset, answer.value);
    }
    // Returns the time in the next answer if that is an answer of the clock, else the last time
    // again. Never notes a difference: the replayed device may read the clock more or less often.
    uint64_t clock();

  private:
    void differ(record::Tag asked, uint64_t bytes);
    void skip_clocks(size_t to);

    const bool tolerant_;
    const Step* step_ = nullptr;  // nullptr: between calls
    size_t next_ = 0;             // index of the next answer
    uint64_t time_ns_ = 0;
    std::string difference_;
    bool ran_out_ = false;
};

}  // namespace pib::hca::replay
