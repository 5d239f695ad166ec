// SPDX-License-Identifier: GPL-2.0-or-later
#include "shadow.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "violation.h"

namespace pib::simulation {
namespace {

constexpr size_t kCompared = 1024;  // bytes compared at once, since most are as expected

}  // namespace

Shadow::Shadow(const hca::test::GuestMemory& memory, size_t bytes, std::string name)
    : memory_(memory), name_(std::move(name)), expected_(bytes) {}

void Shadow::store(uint64_t offset, std::span<const uint8_t> data) {
    memory_.write(offset, data);
    std::ranges::copy(data, expected_.begin() + static_cast<ptrdiff_t>(offset));
}

uint64_t Shadow::expect(uint64_t offset, Bytes data, bool whole) {
    writes_.push_back({.id = next_id_,
                       .offset = offset,
                       .data = std::move(data),
                       .whole = whole,
                       .sealed = false,
                       .complete = false});
    return next_id_++;
}

uint64_t Shadow::forbid(uint64_t offset, Bytes data) {
    const uint64_t id = expect(offset, std::move(data));
    writes_.back().sealed = true;
    writes_.back().complete = writes_.back().data.empty();
    return id;
}

Bytes Shadow::actual(uint64_t offset, size_t length) const {
    Bytes bytes(length);
    memory_.read(offset, bytes);
    return bytes;
}

const Bytes& Shadow::look() const {
    seen_.resize(expected_.size());
    memory_.read(0, seen_);
    return seen_;
}

void Shadow::fail(const std::string& what, uint64_t at) const {
    throw Violation(name_ + ": " + what + ", at byte " + std::to_string(at));
}

// Whether an expected write may have written the byte at `at`, which differs from `expected_`.
bool Shadow::may_be(const Bytes& actual, uint64_t at) const {
    return std::ranges::any_of(writes_, [&](const Write& write) {
        if (!write.covers(at)) {
            return false;
        }
        const auto begin = actual.begin() + static_cast<ptrdiff_t>(write.offset);
        return write.whole ? std::equal(write.data.begin(), write.data.end(), begin)
                           : write.data[at - write.offset] == actual[at];
    });
}

void Shadow::check() const {
    const Bytes& now = look();
    for (size_t begin = 0; begin < now.size(); begin += kCompared) {
        const size_t length = std::min(kCompared, now.size() - begin);
        if (std::memcmp(&now[begin], &expected_[begin], length) != 0) {
            check_bytes(now, begin, begin + length);
        }
    }
}

void Shadow::check_bytes(const Bytes& now, uint64_t from, uint64_t to) const {
    for (uint64_t at = from; at < to; ++at) {
        if (now[at] != expected_[at] && !may_be(now, at)) {
            fail("a byte that no work request may have written has changed", at);
        }
    }
}

// Whether each byte has the value of this write or of a later one.
bool Shadow::is_there(size_t index) const {
    const Write& write = writes_[index];
    const Bytes now = actual(write.offset, write.data.size());
    const auto later = std::views::drop(writes_, static_cast<ptrdiff_t>(index) + 1);
    for (size_t i = 0; i < now.size(); ++i) {
        const uint64_t at = write.offset + i;
        if (write.data[i] != now[i] && std::ranges::none_of(later, [&](const Write& other) {
                return other.covers(at) && other.data[at - other.offset] == now[i];
            })) {
            return false;
        }
    }
    return true;
}

void Shadow::finish(uint64_t id) {
    const auto found = std::ranges::find(writes_, id, &Write::id);
    if (found == writes_.end()) {
        fail("a work request completes that the model does not know", 0);
    }
    if (found->sealed) {
        if (!found->complete) {
            fail("a work request succeeds by a key that was destroyed before", found->offset);
        }
    } else {
        if (!is_there(static_cast<size_t>(found - writes_.begin()))) {
            fail("a work request has completed, but not all of its bytes are there", found->offset);
        }
        std::ranges::copy(found->data, expected_.begin() + static_cast<ptrdiff_t>(found->offset));
    }
    writes_.erase(found);
}

Bytes Shadow::after_all(uint64_t offset, size_t length) const {
    const auto begin = expected_.begin() + static_cast<ptrdiff_t>(offset);
    Bytes bytes(begin, begin + static_cast<ptrdiff_t>(length));
    for (const Write& write : writes_) {
        const uint64_t from = std::max(offset, write.offset);
        const uint64_t to = std::min(offset + length, write.end());
        for (uint64_t at = from; !write.sealed && at < to; ++at) {
            bytes[at - offset] = write.data[at - write.offset];
        }
    }
    return bytes;
}

void Shadow::seal() {
    check();
    for (size_t i = 0; i < writes_.size(); ++i) {
        writes_[i].complete = writes_[i].sealed ? writes_[i].complete : is_there(i);
    }
    for (Write& write : writes_) {
        write.sealed = true;
    }
    expected_ = look();
}

void Shadow::adopt() {
    check();
    expected_ = look();
    writes_.clear();
}

}  // namespace pib::simulation
