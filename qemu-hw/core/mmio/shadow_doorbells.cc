// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/shadow_doorbells.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/config.h"
#include "qp/qp_checks.h"

namespace pib::hca {

namespace {

// Maximum number of bits whose doorbells one call of serve() rings. QPNs that differ by 4096 share
// one bit.
constexpr unsigned kDoorbells = 64;
// Attempts to take a word that the guest's processors keep changing.
constexpr unsigned kTries = 8;
// Maximum number of times that one call of serve() reads a page that the guest keeps changing.
constexpr unsigned kLooks = 4;
// Maximum number of pages that one run() reads again; later calls read the others.
constexpr size_t kPages = 16;
constexpr uint32_t kSlots = 64 * PIB_HCA_SHADOW_WORDS;

constexpr uint64_t word_offset(unsigned word) {
    return offsetof(pib_hca_shadow_page, rung) + uint64_t{word} * sizeof(uint64_t);
}

Subject page_of(uint32_t uar) {
    return {Thing::kShadowPage, uar};
}

void check_page(Host& host, Strict& strict, uint32_t uar, const GuestBuffer& page) {
    if (!is_zero(host, page, 0, sizeof(pib_hca_shadow_page))) {
        strict.broken(Rule::kShadowZero, page_of(uar));
    }
    strict.queue_created(page_of(uar), page, {.bytes = page.bytes()});
}

}  // namespace

Verdict ShadowDoorbells::set(uint32_t uar, uint64_t bus_addr) {
    const bool present = shadows_.contains(uar);
    if (bus_addr != 0 && present) {
        return refuse(Rule::kShadowTwice, bus_addr);
    }
    if (bus_addr == 0 && !present) {
        return refuse(Rule::kShadowNone);
    }
    if (bus_addr == 0) {
        if (strict_ != nullptr) [[unlikely]] {
            strict_->queue_destroyed(page_of(uar));
        }
        owed_.remove(uar);
        late_.cancel(uar);
        shadows_.erase(uar);
        host_.kicks(uar, false);
        return CmdStatus::kOk;
    }
    constexpr uint64_t kPageBytes = uint64_t{1} << kMinLogPageSize;
    if (bus_addr % kPageBytes != 0) {
        return refuse(Rule::kShadowAligned, bus_addr, kPageBytes);
    }
    PageList pages;
    pages.root = bus_addr;
    pages.page_count = 1;
    pages.log_page_size = kMinLogPageSize;
    auto buffer = GuestBuffer::load(host_, pages, sizeof(pib_hca_shadow_page), 1,
                                    GuestBuffer::Proof::kWritable);
    if (!buffer) {
        return refuse(Rule::kShadowMemory, bus_addr);
    }
    buffer->serve(DmaPurpose::kQp);
    if (strict_ != nullptr) [[unlikely]] {
        check_page(host_, *strict_, uar, *buffer);
    }
    shadows_[uar].page = std::move(*buffer);
    host_.kicks(uar, true);
    return CmdStatus::kOk;
}

void ShadowDoorbells::clear() {
    for (const auto& [uar, shadow] : shadows_) {
        host_.kicks(uar, false);
    }
    shadows_.clear();
    owed_.clear();
    late_.clear();
}

bool ShadowDoorbells::kick(uint32_t uar) {
    return (adversary_ != nullptr && waits(uar)) || kick_now(uar);
}

bool ShadowDoorbells::waits(uint32_t uar) {
    const uint64_t wait = has(uar) ? adversary_->fetch_wait() : 0;
    if (wait != 0) {
        late_.set(uar, host_.now_ns() + wait);
    }
    return wait != 0;
}

void ShadowDoorbells::timer(uint64_t now_ns) {
    for (uint32_t uar = late_.take_due(now_ns); uar != Timers::kNone;
         uar = late_.take_due(now_ns)) {
        (void)kick_now(uar);
    }
}

bool ShadowDoorbells::kick_now(uint32_t uar) {
    const auto it = shadows_.find(uar);
    if (it == shadows_.end()) {
        return false;
    }
    if (go_on(uar, it->second) == Left::kMore) {
        host_.wake();
    }
    return true;
}

bool ShadowDoorbells::run() {
    const size_t pages = std::min(owed_.size(), kPages);
    bool more = pages < owed_.size();
    for (size_t n = pages; n > 0; --n) {
        const uint32_t uar = owed_.pop();
        Shadow& shadow = shadows_.at(uar);
        shadow.queued = false;
        more |= go_on(uar, shadow) == Left::kMore;
    }
    return more;
}

ShadowDoorbells::Left ShadowDoorbells::go_on(uint32_t uar, Shadow& shadow) {
    const Left left = serve(uar, shadow);
    if (left != Left::kNothing && !std::exchange(shadow.queued, true)) {
        owed_.push(uar);
    }
    return left;
}

// While work is left, software need not kick, because the device reads the page again.
ShadowDoorbells::Left ShadowDoorbells::serve(uint32_t uar, Shadow& shadow) {
    unsigned budget = kDoorbells;
    for (unsigned i = 0; i < kLooks; ++i) {
        publish_awake(shadow, true);
        take(shadow);
        budget -= ring(uar, shadow, budget);
        if (shadow.words != 0) {
            return Left::kMore;
        }
        if (transport_.has_work()) {
            return Left::kTransport;
        }
        publish_awake(shadow, false);
        if (may_sleep(shadow)) {
            return Left::kNothing;
        }
    }
    return Left::kMore;
}

// Whether the page has no bits or cannot be read. The guest sets a bit and then reads the awake
// flag; the device clears the flag and then reads the bits. At least one of the two sees the
// other's store.
bool ShadowDoorbells::may_sleep(Shadow& shadow) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    uint64_t summary = 0;
    const bool readable = shadow.page.read(host_, offsetof(pib_hca_shadow_page, summary),
                                           {reinterpret_cast<uint8_t*>(&summary), sizeof summary});
    return !readable || summary == 0;
}

void ShadowDoorbells::publish_awake(Shadow& shadow, bool awake) {
    if (std::exchange(shadow.awake, awake) == awake) {
        return;
    }
    const uint64_t flags = awake ? PIB_HCA_SHADOW_AWAKE : 0;
    // If the page is no longer RAM, take_word() and may_sleep() find no bits in it.
    (void)shadow.page.write(host_, offsetof(pib_hca_shadow_page, flags),
                            {reinterpret_cast<const uint8_t*>(&flags), sizeof flags});
}

// Returns a word of the page and sets it to 0. If the guest changes the word too often, returns 0:
// the thread that changes the word sets its summary bit afterwards, so the device reads it again.
uint64_t ShadowDoorbells::take_word(Shadow& shadow, uint64_t offset) {
    uint64_t word = 0;
    uint64_t bus_addr = 0;
    if (!shadow.page.read(host_, offset, {reinterpret_cast<uint8_t*>(&word), sizeof word}) ||
        !shadow.page.bus_address(offset, bus_addr)) {
        return 0;
    }
    for (unsigned i = 0; word != 0 && i < kTries; ++i) {
        const uint64_t seen = word;
        if (!host_.dma_cmpxchg64(bus_addr, word, 0)) {
            return 0;
        }
        if (word == seen) {
            return seen;
        }
    }
    return 0;
}

// Moves the bits of the guest's page to `shadow`. Takes the summary first, because software sets
// the summary last.
void ShadowDoorbells::take(Shadow& shadow) {
    shadow.words |= take_word(shadow, offsetof(pib_hca_shadow_page, summary));
    for (uint64_t left = shadow.words; left != 0; left &= left - 1) {
        const auto word = static_cast<unsigned>(std::countr_zero(left));
        shadow.rung[word] |= take_word(shadow, word_offset(word));
    }
    // A compare-and-swap is not a full barrier. The guest stores its producer and then reads the
    // bit; the device clears the bit and then reads the producer.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Rings the doorbells of at most `budget` bits; returns the number of these bits.
unsigned ShadowDoorbells::ring(uint32_t uar, Shadow& shadow, unsigned budget) {
    unsigned done = 0;
    for (uint64_t left = shadow.words; left != 0; left &= left - 1) {
        const auto word = static_cast<unsigned>(std::countr_zero(left));
        while (shadow.rung[word] != 0 && done < budget) {
            const auto bit = static_cast<unsigned>(std::countr_zero(shadow.rung[word]));
            shadow.rung[word] &= shadow.rung[word] - 1;
            ring_slot(uar, word * 64 + bit);
            ++done;
        }
        if (shadow.rung[word] != 0) {
            break;
        }
        shadow.words &= ~(uint64_t{1} << word);
    }
    return done;
}

// Several QPs may share one bit; a superfluous doorbell is harmless. QPs of another UAR are
// skipped.
void ShadowDoorbells::ring_slot(uint32_t uar, uint32_t slot) {
    for (uint32_t qpn = slot; qpn < kFirstQpn + Limits::kQps; qpn += kSlots) {
        if (transport_.send_doorbell(uar, qpn, true) && strict_ != nullptr) [[unlikely]] {
            check_doorbell(host_, *strict_, *transport_.verbs().look_at(qpn));
        }
    }
}

}  // namespace pib::hca
