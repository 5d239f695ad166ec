// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/copier.h"

#include <algorithm>

namespace pib::fabric {

using link::PullResult;

// ---- offers

// Takes over the adapter's count of finished offers, unless the count is invalid.
void OfferTable::look() {
    const uint64_t finished = reader_.control().finished.load(std::memory_order_acquire);
    if (finished > finished_ && finished <= given_) {
        finished_ = finished;
    }
}

std::optional<uint64_t> OfferTable::next() {
    look();
    return given_ - finished_ < kSize ? std::optional(given_ + 1) : std::nullopt;
}

void OfferTable::add(const OfferRecord& offer) {
    offers_[(given_ + 1) % kSize] = offer;  // may throw std::bad_alloc
    ++given_;
}

const OfferRecord* OfferTable::find(uint64_t handle) {
    look();
    return handle > finished_ && handle <= given_ ? &offers_[handle % kSize] : nullptr;
}

// ---- copying

Copier::Copier(std::shared_ptr<const AdapterMemory> own)
    : own_(std::move(own)),
      table_(*own_),
      room_(std::make_unique_for_overwrite<uint8_t[]>(link::kOfferRoom)) {}

std::expected<void, std::string> Copier::start(const link::Pull& pull) {
    if (pull_ || own_ == nullptr) {
        return std::unexpected("the previous pull is not answered");
    }
    const OfferRecord* offer = table_.find(pull.handle);
    if (offer == nullptr) {
        return std::unexpected("unknown offer");
    }
    if (pull.offset + uint64_t{pull.length} > offer->bytes) {
        return std::unexpected("longer than the offer");
    }
    pull_ = pull;
    offer_ = *offer;
    from_ = SegmentCursor(offer_.segments);
    from_.advance(pull.offset);
    to_ = SegmentCursor(pull_->segments);
    left_ = pull.length;
    return {};
}

PullResult Copier::copy(uint64_t bytes) {
    if (own_->control().cancel.load(std::memory_order_acquire) == pull_->sequence) {
        return PullResult::kCancelled;
    }
    const auto source = offer_.memory.lock();
    if (source == nullptr) {
        return PullResult::kGone;
    }
    const uint64_t part = std::min(bytes, left_);
    const PullResult result = copy_part(*source, offer_.handle, from_, *own_, to_, part);
    if (result != PullResult::kNone) {
        return result;
    }
    counts_.bytes += part;
    left_ -= part;
    return left_ == 0 ? PullResult::kDone : PullResult::kNone;
}

bool Copier::step(uint64_t bytes) {
    const PullResult result = pull_ ? copy(bytes) : PullResult::kNone;
    if (result == PullResult::kNone) {
        return false;
    }
    answer(result);
    return true;
}

void Copier::answer(PullResult result) {
    counts_.pulls += result == PullResult::kDone ? 1 : 0;
    counts_.refused += result == PullResult::kRefused ? 1 : 0;
    counts_.unfinished += result == PullResult::kGone || result == PullResult::kCancelled ? 1 : 0;
    const uint64_t answer = link::pull_answer(pull_->sequence, result);
    pull_.reset();
    own_->control().answer.store(answer, std::memory_order_release);
}

void Copier::give_up() {
    if (pull_) {
        answer(PullResult::kGone);
    }
    own_.reset();
}

}  // namespace pib::fabric
