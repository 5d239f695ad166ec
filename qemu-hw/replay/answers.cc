// SPDX-License-Identifier: GPL-2.0-or-later
#include "answers.h"

#include <algorithm>

namespace pib::hca::replay {

using record::Tag;

namespace {

// Whether an answer's value is the number of bytes that were asked for.
bool is_sized(Tag tag) {
    return tag == Tag::kRead || tag == Tag::kReadPayload || tag == Tag::kReadFailed ||
           tag == Tag::kRingBytes || tag == Tag::kRingPayload;
}

bool fits(const Answer& answer, std::initializer_list<Tag> tags, uint64_t bytes) {
    return std::ranges::find(tags, answer.tag) != tags.end() &&
           (!is_sized(answer.tag) || answer.value == bytes);
}

}  // namespace

void Answers::begin(const Step& step) {
    step_ = &step;
    next_ = 0;
    time_ns_ = step.time_ns;
    difference_.clear();
}

void Answers::end() {
    while (next_ < step_->answers.size() && step_->answers[next_].tag == Tag::kClock) {
        time_ns_ = step_->answers[next_++].value;
    }
    if (next_ < step_->answers.size() && difference_.empty()) {
        difference_ = "the recorded device made " +
                      std::string(record::name_of(step_->answers[next_].tag)) +
                      " at the end of the call, which this device does not make";
    }
    step_ = nullptr;
}

void Answers::differ(Tag asked, uint64_t bytes) {
    const bool at_end = next_ == step_->answers.size();
    ran_out_ = ran_out_ || (at_end && step_->is_last);
    if (!difference_.empty() || ran_out_) {
        return;
    }
    difference_ = "this device makes " + std::string(record::name_of(asked));
    if (bytes != kAny) {
        difference_ += " (" + std::to_string(bytes) + " bytes)";
    }
    if (at_end) {
        difference_ += ", which the recorded one did not make";
        return;
    }
    const Answer& recorded = step_->answers[next_];
    difference_ += ", the recorded one made " + std::string(record::name_of(recorded.tag));
    if (is_sized(recorded.tag)) {
        difference_ += " (" + std::to_string(recorded.value) + " bytes)";
    }
}

void Answers::skip_clocks(size_t to) {
    for (; next_ < to; ++next_) {
        const Answer& answer = step_->answers[next_];
        time_ns_ = answer.tag == Tag::kClock ? answer.value : time_ns_;
    }
}

const Answer* Answers::take(std::initializer_list<Tag> tags, uint64_t bytes) {
    if (step_ == nullptr) {
        return nullptr;
    }
    const auto& answers = step_->answers;
    size_t at = next_;
    while (at < answers.size() && answers[at].tag == Tag::kClock) {
        ++at;
    }
    skip_clocks(at);
    if (at == answers.size() || !fits(answers[at], tags, bytes)) {
        differ(*tags.begin(), bytes);
        // If the replayed device asks less than the recorded one, skips the unused answers.
        while (tolerant_ && at < answers.size() && !fits(answers[at], tags, bytes)) {
            ++at;
        }
        if (!tolerant_ || at == answers.size()) {
            return nullptr;
        }
        skip_clocks(at);
    }
    return &answers[next_++];
}

const Answer* Answers::take_if(Tag tag) {
    const bool next =
        step_ != nullptr && next_ < step_->answers.size() && step_->answers[next_].tag == tag;
    return next ? &step_->answers[next_++] : nullptr;
}

uint64_t Answers::clock() {
    if (const Answer* answer = take_if(Tag::kClock)) {
        time_ns_ = answer->value;
    }
    return time_ns_;
}

}  // namespace pib::hca::replay
