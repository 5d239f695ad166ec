// SPDX-License-Identifier: GPL-2.0-or-later
// The answers of one call in a recording, in order, as the replayed device asks for them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "recording_reader.h"

namespace pib::hca::replay {

class Answers {
  public:
    // `tolerant`: looks for an answer behind others.
    explicit Answers(bool tolerant) : tolerant_(tolerant) {}

    // The device is called next. The step outlives the call.
    void begin(const Step& step);
    // The call has returned.
    void end();
    // The first question since begin() that only one of the two devices has asked; empty: none.
    const std::string& difference() const { return difference_; }
    // The recording ends within this call.
    bool ran_out() const { return ran_out_; }
    uint64_t time_ns() const { return time_ns_; }
    bool tolerant() const { return tolerant_; }

    static constexpr uint64_t kAny = UINT64_MAX;
    // The next answer if it has one of these tags and, unless `bytes` is kAny, so many bytes.
    // nullptr: that is a difference. The first tag is the usual one.
    const Answer* take(std::initializer_list<record::Tag> tags, uint64_t bytes = kAny);
    // The next answer, if it has this tag.
    const Answer* take_if(record::Tag tag);
    std::span<const uint8_t> bytes_of(const Answer& answer) const {
        return std::span(step_->data).subspan(answer.offset, answer.value);
    }
    // The time of the next look at the clock, which changes nothing: a device may look more often
    // than the recorded one, or less.
    uint64_t clock();

  private:
    void differ(record::Tag asked, uint64_t bytes);
    void skip_clocks(size_t to);

    const bool tolerant_;
    const Step* step_ = nullptr;  // nullptr: between calls
    size_t next_ = 0;             // answer
    uint64_t time_ns_ = 0;
    std::string difference_;
    bool ran_out_ = false;
};

}  // namespace pib::hca::replay
