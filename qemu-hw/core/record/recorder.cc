// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "record/config_text.h"

namespace pib::hca::record {
namespace {

// The time between marks is at least kMarkNs, and at least kMarkNsPerObject for each object of the
// device, because hashes of many objects take time.
constexpr uint64_t kMarkNs = 100'000'000;
constexpr uint64_t kMarkNsPerObject = 10'000;

}  // namespace

Recorder::Recorder(Host& host, const Options& options, const Config& config, Interface interface)
    : host_(host), payload_(options.payload), buffer_(host, *options.sink, options.limit) {
    const std::string text = config_to_text(config);
    for (const uint64_t word :
         {uint64_t{interface.major}, uint64_t{interface.minor}, uint64_t{text.size()}}) {
        buffer_.put_fixed(word, 4);
    }
    buffer_.put_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    flush();
}

void Recorder::put_time(uint64_t now_ns) {
    buffer_.put_number(now_ns - std::exchange(time_ns_, now_ns));
}

// ---- calls of the device

void Recorder::entry(Tag tag, std::initializer_list<uint64_t> fields) {
    if (buffer_.stopped()) {
        return;
    }
    buffer_.make_room();
    buffer_.put(static_cast<uint8_t>(tag));
    put_time(now_ns_);
    buffer_.put_fixed(check_.low(), 4);
    for (const uint64_t field : fields) {
        buffer_.put_number(field);
    }
}

void Recorder::connected(unsigned port, bool can_share) {
    if (port - 1 < streams_.size()) {
        streams_[port - 1].restart();
    }
    entry(Tag::kLinkConnected, {port, can_share});
}

void Recorder::received(unsigned port, std::span<const uint8_t> bytes) {
    entry(Tag::kLinkReceived, {port, bytes.size()});
    while (!bytes.empty() && !buffer_.stopped()) {
        StreamCut::Piece piece{.kept = bytes.size()};
        if (!payload_ && port - 1 < streams_.size()) {
            piece = streams_[port - 1].next(bytes);
        }
        buffer_.make_room();
        buffer_.put_number(piece.kept);
        buffer_.put_bytes(bytes.first(piece.kept));
        buffer_.make_room();
        buffer_.put_number(piece.left_out);
        bytes = bytes.subspan(piece.kept + piece.left_out);
    }
}

void Recorder::mark(const State& state) {
    buffer_.make_room();
    buffer_.put(static_cast<uint8_t>(Tag::kMark));
    buffer_.put_number(state.size());
    for (const StateEntry& entry : state) {
        buffer_.make_room();
        buffer_.put(static_cast<uint8_t>(entry.kind));
        buffer_.put_number(entry.number);
        buffer_.put_fixed(entry.hash, 8);
    }
    mark_ns_ = now_ns_ + std::max<uint64_t>(kMarkNs, state.size() * kMarkNsPerObject);
    flush();
}

// ---- answers of the host

bool Recorder::begin_answer(Tag tag) {
    if (quiet_ || buffer_.stopped()) {
        return false;
    }
    buffer_.make_room();
    buffer_.put(static_cast<uint8_t>(tag));
    return true;
}

void Recorder::answer(Tag tag) {
    (void)begin_answer(tag);
}

void Recorder::answer(Tag tag, uint64_t number) {
    if (begin_answer(tag)) {
        buffer_.put_number(number);
    }
}

void Recorder::answer(Tag tag, std::span<const uint8_t> bytes) {
    if (begin_answer(tag)) {
        buffer_.put_number(bytes.size());
        buffer_.put_bytes(bytes);
    }
}

void Recorder::clock(uint64_t now_ns) {
    if (begin_answer(Tag::kClock)) {
        put_time(now_ns);
    }
}

}  // namespace pib::hca::record
