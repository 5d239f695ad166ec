// SPDX-License-Identifier: GPL-2.0-or-later
#include "shadow.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

#include "violation.h"

namespace pib::simulation {
namespace {

constexpr size_t kPage = hca::test::FakeHost::kPage;
constexpr size_t kCompared = 128;  // bytes compared at once, since most are as expected

}  // namespace

Shadow::Shadow(const hca::test::GuestMemory& memory, std::string name)
    : memory_(memory),
      name_(std::move(name)),
      expected_(memory.bytes()),
      differs_(memory.page_count()) {}

void Shadow::store(uint64_t offset, std::span<const uint8_t> data) {
    memory_.write(offset, data);
    change(offset, data);
}

// Gives the bytes other values in the model.
void Shadow::change(uint64_t offset, std::span<const uint8_t> data) {
    if (data.empty()) {
        return;
    }
    std::memcpy(&expected_[offset], data.data(), data.size());
    for (uint64_t page = offset / kPage; page * kPage < offset + data.size(); ++page) {
        differs_[page] = true;
    }
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

template <typename Visit>
bool Shadow::all_parts(uint64_t offset, size_t length, Visit&& visit) const {
    for (uint64_t at = offset; at < offset + length;) {
        const size_t n = std::min<uint64_t>(kPage - at % kPage, offset + length - at);
        if (!visit(at, memory_.view(at / kPage).subspan(at % kPage, n))) {
            return false;
        }
        at += n;
    }
    return true;
}

void Shadow::fail(const std::string& what, uint64_t at) const {
    throw Violation(name_ + ": " + what + ", at byte " + std::to_string(at));
}

// Whether an expected write may have written this byte, which differs from `expected_`.
bool Shadow::may_be(uint8_t actual, uint64_t at) const {
    return std::ranges::any_of(writes_, [&](const Write& write) {
        if (!write.covers(at) || write.data[at - write.offset] != actual) {
            return false;
        }
        return !write.whole ||
               all_parts(write.offset, write.data.size(), [&](uint64_t from, auto now) {
                   return std::memcmp(now.data(), &write.data[from - write.offset], now.size()) ==
                          0;
               });
    });
}

bool Shadow::is_as_expected(size_t page) const {
    return std::memcmp(memory_.view(page).data(), &expected_[page * kPage], kPage) == 0;
}

void Shadow::fail_unreported(size_t page) const {
    fail("bytes have changed, but the device has reported no write", page * kPage);
}

void Shadow::check(Extent extent) {
    for (size_t page = 0; page < differs_.size(); ++page) {
        const bool is_written = memory_.take_written(page) || differs_[page];
        if (is_written || extent == Extent::kAll) {
            differs_[page] = !is_as_expected(page);
            if (differs_[page] && !is_written) {
                fail_unreported(page);
            }
            if (differs_[page]) {
                check_page(page);
            }
        }
    }
}

void Shadow::check_page(size_t page) const {
    const auto now = memory_.view(page);
    for (size_t begin = 0; begin < kPage; begin += kCompared) {
        if (std::memcmp(&now[begin], &expected_[page * kPage + begin], kCompared) == 0) {
            continue;
        }
        for (size_t i = begin; i < begin + kCompared; ++i) {
            const uint64_t at = page * kPage + i;
            if (now[i] != expected_[at] && !may_be(now[i], at)) {
                fail("a byte that no work request may have written has changed", at);
            }
        }
    }
}

// Whether each byte has the value of this write or of a later one.
bool Shadow::is_there(size_t index) const {
    const Write& write = writes_[index];
    const auto later = std::views::drop(writes_, static_cast<ptrdiff_t>(index) + 1);
    return all_parts(write.offset, write.data.size(), [&](uint64_t from, auto now) {
        const uint8_t* const data = &write.data[from - write.offset];
        if (std::memcmp(now.data(), data, now.size()) == 0) {
            return true;
        }
        for (size_t i = 0; i < now.size(); ++i) {
            const uint64_t at = from + i;
            if (data[i] != now[i] && std::ranges::none_of(later, [&](const Write& other) {
                    return other.covers(at) && other.data[at - other.offset] == now[i];
                })) {
                return false;
            }
        }
        return true;
    });
}

// change() marks the pages of a finished write, so check() cannot see afterwards that the device
// has not reported it.
void Shadow::check_report(const Write& write) {
    for (uint64_t page = write.offset / kPage; page * kPage < write.end(); ++page) {
        differs_[page] = memory_.take_written(page) || differs_[page];
        if (!differs_[page] && !is_as_expected(page)) {
            fail_unreported(page);
        }
    }
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
        check_report(*found);
        change(found->offset, found->data);
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
    check(Extent::kWritten);
    for (size_t i = 0; i < writes_.size(); ++i) {
        writes_[i].complete = writes_[i].sealed ? writes_[i].complete : is_there(i);
    }
    for (Write& write : writes_) {
        write.sealed = true;
    }
    adopt_pages();
}

void Shadow::adopt() {
    check(Extent::kWritten);
    adopt_pages();
    writes_.clear();
}

// Copies the pages that differ to the model.
void Shadow::adopt_pages() {
    for (size_t page = 0; page < differs_.size(); ++page) {
        if (std::exchange(differs_[page], false)) {
            std::memcpy(&expected_[page * kPage], memory_.view(page).data(), kPage);
        }
    }
}

}  // namespace pib::simulation
