// SPDX-License-Identifier: GPL-2.0-or-later
// The content of a recording without its blocks, and a recording with any content.
#pragma once

#include <iterator>
#include <sstream>
#include <string>

#include "block_buffer.h"
#include "fake_host.h"
#include "record/record_buffer.h"

namespace pib::hca::test {

inline constexpr size_t kRecordingStart = record::kMagic.size() + sizeof(record::kVersion);

inline std::string content_of(const std::string& recording) {
    std::istringstream file(recording.substr(kRecordingStart));
    replay::BlockBuffer blocks(file);
    return {std::istreambuf_iterator<char>(&blocks), {}};
}

inline std::string recording_of(const std::string& content) {
    struct Sink final : record::Sink {
        bool write(std::span<const uint8_t> bytes) override {
            file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            return true;
        }
        std::string file;
    } sink;
    FakeHost host;
    record::RecordBuffer buffer(host, sink, UINT64_MAX);
    buffer.put_bytes({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
    buffer.flush();
    return sink.file;
}

}  // namespace pib::hca::test
