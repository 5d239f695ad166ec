// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording_reader.h"

#include <algorithm>

#include "record/config_text.h"

namespace pib::hca::replay {

using record::Tag;

bool RecordingReader::fail(const std::string& why) {
    if (error_.empty()) {
        error_ = "damaged at byte " + std::to_string(position_) + ": " + why +
                 "; take another copy of the recording";
    }
    return false;
}

// ---- bytes and numbers

bool RecordingReader::read_byte(uint8_t& byte) {
    const int c = content_.get();
    if (c == std::istream::traits_type::eof()) {
        return false;
    }
    byte = static_cast<uint8_t>(c);
    ++position_;
    return true;
}

bool RecordingReader::read_number(uint64_t& number) {
    number = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = 0;
        if (!read_byte(byte)) {
            return false;
        }
        if (shift == 63 && byte > 1) {
            return fail("a number of more than 64 bits");
        }
        number |= uint64_t{byte & 0x7fu} << shift;
        if ((byte & 0x80) == 0) {
            return true;
        }
    }
}

bool RecordingReader::read_fixed(uint64_t& number, unsigned bytes) {
    number = 0;
    for (unsigned i = 0; i < bytes; ++i) {
        uint8_t byte = 0;
        if (!read_byte(byte)) {
            return false;
        }
        number |= uint64_t{byte} << (8 * i);
    }
    return true;
}

// Appends bytes in portions, so that a damaged length allocates little more than the file has.
bool RecordingReader::read_bytes(std::vector<uint8_t>& to, uint64_t bytes) {
    if (bytes > kMostBytes || to.size() + bytes > kMostStepBytes) {
        return fail(std::to_string(bytes) + " bytes in one event");
    }
    constexpr uint64_t kPortion = 1u << 16;
    while (bytes != 0) {
        const uint64_t n = std::min(bytes, kPortion);
        const size_t before = to.size();
        to.resize(before + n);
        content_.read(reinterpret_cast<char*>(&to[before]), static_cast<std::streamsize>(n));
        const auto got = static_cast<uint64_t>(content_.gcount());
        position_ += got;
        if (got != n) {
            return false;
        }
        bytes -= n;
    }
    return true;
}

// ---- the header

std::expected<void, std::string> RecordingReader::read_version() {
    std::array<uint8_t, record::kMagic.size()> magic{};
    uint32_t version = 0;
    if (!file_.read(reinterpret_cast<char*>(magic.data()), magic.size()) ||
        magic != record::kMagic) {
        return std::unexpected(
            "not a recording of a pib-hca: take a file that the property record has named");
    }
    if (!file_.read(reinterpret_cast<char*>(&version), sizeof(version))) {
        return std::unexpected("it ends in its header: take another copy of the recording");
    }
    if (version != record::kVersion) {
        return std::unexpected("its format is version " + std::to_string(version) +
                               ", this program reads version " + std::to_string(record::kVersion) +
                               ": take the pib-replay of the version that recorded it");
    }
    return {};
}

std::expected<RecordingReader::Header, std::string> RecordingReader::header() {
    if (const auto version = read_version(); !version) {
        return std::unexpected(version.error());
    }
    uint64_t major = 0, minor = 0, bytes = 0;
    std::vector<uint8_t> text;
    if (!read_fixed(major, 4) || !read_fixed(minor, 4) || !read_fixed(bytes, 4)) {
        return std::unexpected(blocks_.error().empty()
                                   ? "it ends in its header: take another copy of the recording"
                                   : blocks_.error());
    }
    if (bytes > record::kMostConfigBytes || !read_bytes(text, bytes)) {
        return std::unexpected("its configuration is damaged: take another copy of the recording");
    }
    auto config =
        record::config_from_text({reinterpret_cast<const char*>(text.data()), text.size()});
    if (!config) {
        return std::unexpected(config.error());
    }
    return Header{static_cast<uint32_t>(major), static_cast<uint32_t>(minor), std::move(*config)};
}

// ---- events

bool RecordingReader::peek(Tag& tag) {
    const int c = content_.peek();
    tag = static_cast<Tag>(c);
    return c != std::istream::traits_type::eof();
}

bool RecordingReader::read_received(uint64_t bytes) {
    if (bytes > kMostBytes) {
        return fail(std::to_string(bytes) + " bytes from a link at once");
    }
    while (step_.received.size() < bytes) {
        uint64_t kept = 0, left_out = 0;
        if (!read_number(kept) || kept > bytes - step_.received.size() ||
            !read_bytes(step_.received, kept) || !read_number(left_out) ||
            left_out > bytes - step_.received.size()) {
            return content_.good() ? fail("bytes from a link in wrong pieces") : false;
        }
        if (kept + left_out == 0) {
            return fail("an empty piece of bytes from a link");
        }
        step_.received.resize(step_.received.size() + left_out);
    }
    return true;
}

bool RecordingReader::read_entry(Tag tag) {
    uint64_t passed = 0, check = 0;
    if (!read_number(passed) || !read_fixed(check, 4)) {
        return false;
    }
    step_.has_entry = true;
    step_.entry = tag;
    time_ns_ += passed;
    step_.time_ns = time_ns_;
    step_.check = static_cast<uint32_t>(check);
    for (unsigned i = 0; i < record::fields_of(tag); ++i) {
        if (!read_number(step_.fields[i])) {
            return false;
        }
    }
    return tag != Tag::kLinkReceived || read_received(step_.fields[1]);
}

bool RecordingReader::read_answer(Tag tag) {
    Answer answer{.tag = tag, .offset = step_.data.size()};
    const bool no_number =
        tag == Tag::kWritten || tag == Tag::kWriteFailed || tag == Tag::kSwapFailed;
    if (!no_number && !read_number(answer.value)) {
        return false;
    }
    if (tag == Tag::kClock) {
        time_ns_ += answer.value;
        answer.value = time_ns_;
    }
    const bool has_bytes = tag == Tag::kRead || tag == Tag::kRingBytes || tag == Tag::kRingPayload;
    if (has_bytes && !read_bytes(step_.data, answer.value)) {
        return false;
    }
    if (step_.answers.size() == kMostAnswers) {
        return fail("too many answers to one call");
    }
    step_.answers.push_back(answer);
    return true;
}

bool RecordingReader::read_mark() {
    uint64_t objects = 0;
    mark_.clear();
    if (!read_number(objects)) {
        return false;
    }
    if (objects > kMostObjects) {
        return fail("a mark of " + std::to_string(objects) + " objects");
    }
    for (uint64_t i = 0; i < objects; ++i) {
        uint8_t kind = 0;
        record::StateEntry entry;
        if (!read_byte(kind)) {
            return false;
        }
        if (kind >= record::kStateKinds) {
            return fail("a mark of an unknown kind of object");
        }
        entry.kind = static_cast<record::StateKind>(kind);
        if (!read_number(entry.number) || !read_fixed(entry.hash, 8)) {
            return false;
        }
        mark_.push_back(entry);
    }
    return true;
}

std::expected<RecordingReader::Item, std::string> RecordingReader::next() {
    const auto ended = [&]() -> std::expected<Item, std::string> {
        if (const std::string& error = error_.empty() ? blocks_.error() : error_; !error.empty()) {
            return std::unexpected(error);
        }
        truncated_ = true;
        return Item::kEnd;
    };
    Tag tag{};
    step_.has_entry = step_.is_last = false;
    step_.fields = {};
    step_.received.clear();
    step_.answers.clear();
    step_.data.clear();
    step_.time_ns = time_ns_;
    if (!peek(tag)) {
        if (!blocks_.error().empty()) {
            return std::unexpected(blocks_.error());
        }
        if (started_) {
            return Item::kEnd;
        }
    } else if (started_) {
        uint8_t byte = 0;
        (void)read_byte(byte);
        if (tag == Tag::kMark) {
            return read_mark() ? std::expected<Item, std::string>(Item::kMark) : ended();
        }
        if (tag < Tag::kMmioRead || tag > record::kLastEntry) {
            (void)fail("an unknown event " + std::to_string(byte));
            return ended();
        }
        if (!read_entry(tag)) {
            return ended();
        }
    }
    started_ = true;
    while (peek(tag) && tag >= record::kFirstAnswer && tag <= record::kLastAnswer) {
        uint8_t byte = 0;
        (void)read_byte(byte);
        if (!read_answer(tag)) {
            return ended();
        }
    }
    step_.is_last = !peek(tag);
    return Item::kStep;
}

}  // namespace pib::hca::replay
