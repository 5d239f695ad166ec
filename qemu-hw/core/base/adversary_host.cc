// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/adversary_host.h"

#include <algorithm>

namespace pib::hca {

namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kMostPayload = 256 * 1024;  // bytes of delayed payload
constexpr size_t kPayloadPart = 512;
constexpr size_t kFetchPart = 32;
constexpr size_t kWordBytes = 8;  // longest access that stays whole: a counter, an ATOMIC WRITE

bool in_one_page(uint64_t bus_addr, size_t length) {
    return bus_addr / kPage == (bus_addr + length - 1) / kPage;
}

// A part of an access, as offset and length.
using Part = std::pair<size_t, size_t>;

// The parts of an access, in random order. `most`: maximum length of a part; 0: the access stays
// whole.
std::vector<Part> cut(Adversary& adversary, Adversity kind, size_t length, size_t most) {
    std::vector<Part> parts;
    for (size_t at = 0; at < length;) {
        const size_t wanted = most == 0 ? length : 1 + adversary.below(kind, most);
        const size_t part = std::min(length - at, wanted);
        parts.emplace_back(at, part);
        at += part;
    }
    adversary.shuffle(kind, std::span(parts));
    return parts;
}

// Writes an entry of a queue byte by byte in any order, and other data at once. The device writes
// the last byte of an entry, with the owner bit, by a later call. An entry is in one page, which is
// RAM as a whole or not at all, so only the first write can fail.
bool write_bytes(Host& host, Adversary& adversary, uint64_t bus_addr, std::span<const uint8_t> from,
                 DmaPurpose purpose) {
    const bool entry =
        purpose == DmaPurpose::kCq || purpose == DmaPurpose::kEq || purpose == DmaPurpose::kCommand;
    const bool in_bytes =
        entry && adversary.plays(Adversity::kWrites) && in_one_page(bus_addr, from.size());
    for (const auto& [offset, length] :
         cut(adversary, Adversity::kWrites, from.size(), in_bytes ? 1 : 0)) {
        host.dma_for(purpose);
        if (!host.dma_write(bus_addr + offset, from.subspan(offset, length))) {
            return false;
        }
    }
    return true;
}

}  // namespace

void PayloadPieces::keep(Adversary& adversary, uint64_t bus_addr, std::span<const uint8_t> from) {
    const size_t begin = bytes_.size();
    const size_t most = from.size() <= kWordBytes ? 0 : kPayloadPart;
    bytes_.insert(bytes_.end(), from.begin(), from.end());
    for (const auto& [offset, length] : cut(adversary, Adversity::kWrites, from.size(), most)) {
        pieces_.push_back({bus_addr + offset, begin + offset, length});
    }
}

void PayloadPieces::store(Host& host, Adversary& adversary) {
    if (pieces_.empty()) {
        return;
    }
    adversary.shuffle(Adversity::kWrites, std::span(pieces_));
    for (const Piece& piece : pieces_) {
        host.dma_for(DmaPurpose::kPayload);
        // The range was RAM earlier in this call of the device, and the memory map does not change
        // during a call.
        (void)host.dma_write(piece.bus_addr, std::span(bytes_).subspan(piece.offset, piece.length));
    }
    pieces_.clear();
    bytes_.clear();
}

AdversaryHost::AdversaryHost(Host& host, Adversary& adversary, unsigned vectors)
    : ForwardingHost(host), adversary_(adversary), vectors_(vectors) {
    late_.fill(kNever);
}

void AdversaryHost::begin(bool enabled) {
    if (adversary_.plays(Adversity::kClock) && now_ns() >= next_step_ns_) {
        ahead_ns_ += next_step_ns_ == 0 ? 0 : adversary_.step();
        next_step_ns_ = now_ns() + adversary_.next_step();
    }
    const auto vector = adversary_.spurious_interrupt(vectors_);
    if (vector && enabled) {
        host_.raise_msix(*vector);
    }
}

uint64_t AdversaryHost::next_deadline() const {
    return std::ranges::min(late_);
}

void AdversaryHost::timer() {
    for (unsigned vector = 0; vector < vectors_; ++vector) {
        if (late_[vector] <= now_ns()) {
            late_[vector] = kNever;
            host_.raise_msix(vector);
        }
    }
}

void AdversaryHost::set_timer(uint64_t deadline_ns) {
    const bool past = deadline_ns < ahead_ns_;
    host_.set_timer(deadline_ns == kNever ? kNever : past ? 0 : deadline_ns - ahead_ns_);
}

// ---- interrupts

// At most one interrupt of each vector is delayed; later ones are merged with it until it is
// raised.
void AdversaryHost::raise_msix(unsigned vector) {
    if (late_[vector] != kNever) {
        return;
    }
    if (const uint64_t wait = adversary_.interrupt_wait(); wait != 0) {
        late_[vector] = now_ns() + wait;
        return;
    }
    host_.raise_msix(vector);
    if (adversary_.repeats_interrupt()) {
        late_[vector] = now_ns() + 1 + adversary_.interrupt_wait();
    }
}

// ---- guest memory

// Reads an entry of a queue in parts of any order, some parts of a WQE twice.
bool AdversaryHost::dma_read(uint64_t bus_addr, std::span<uint8_t> to) {
    store_payload();
    const DmaPurpose purpose = std::exchange(purpose_, DmaPurpose::kOther);
    const bool entry = purpose == DmaPurpose::kQp || purpose == DmaPurpose::kSrq ||
                       purpose == DmaPurpose::kCommand;
    if (!entry || to.size() <= kWordBytes || !adversary_.plays(Adversity::kFetches) ||
        !in_one_page(bus_addr, to.size())) {
        host_.dma_for(purpose);
        return host_.dma_read(bus_addr, to);
    }
    for (const auto& [offset, length] :
         cut(adversary_, Adversity::kFetches, to.size(), kFetchPart)) {
        const bool twice = purpose != DmaPurpose::kCommand && adversary_.fetches_twice();
        for (unsigned i = 0; i < (twice ? 2u : 1u); ++i) {
            host_.dma_for(purpose);
            if (!host_.dma_read(bus_addr + offset, to.subspan(offset, length))) {
                return false;
            }
        }
    }
    return true;
}

bool AdversaryHost::dma_write(uint64_t bus_addr, std::span<const uint8_t> from) {
    const DmaPurpose purpose = std::exchange(purpose_, DmaPurpose::kOther);
    if (purpose != DmaPurpose::kPayload || !adversary_.plays(Adversity::kWrites)) {
        store_payload();
        return write_bytes(host_, adversary_, bus_addr, from, purpose);
    }
    // A pointer proves that the whole range is RAM that the device may write.
    if (host_.ram(bus_addr, from.size()) == nullptr) {
        store_payload();
        host_.dma_for(purpose);
        return host_.dma_write(bus_addr, from);
    }
    if (payload_.bytes() + from.size() > kMostPayload) {
        store_payload();
    }
    payload_.keep(adversary_, bus_addr, from);
    return true;
}

bool AdversaryHost::dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) {
    store_payload();
    host_.dma_for(std::exchange(purpose_, DmaPurpose::kOther));
    return host_.dma_cmpxchg64(bus_addr, expected, desired);
}

}  // namespace pib::hca
