// SPDX-License-Identifier: GPL-2.0-or-later
// Records all input of a device, in the format of record_format.h: each call of its entry points
// with the arguments, and each answer of the host. A replay of the recording brings a device with
// the same register interface to the same state.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/config.h"
#include "base/host.h"
#include "record/output_check.h"
#include "record/record_buffer.h"
#include "record/record_format.h"
#include "record/state_entry.h"
#include "record/stream_cut.h"

namespace pib::hca::record {

struct Options {
    static constexpr uint64_t kDefaultLimit = 16ull << 30;

    Sink* sink = nullptr;            // nullptr: the device is not recorded
    bool payload = false;            // all payload is recorded, not only its length
    uint64_t limit = kDefaultLimit;  // maximum size of the file in bytes
};

class Recorder {
  public:
    struct Interface {
        uint32_t major;
        uint32_t minor;
    };
    // Writes the header. `host`: the host of the device.
    Recorder(Host& host, const Options& options, const Config& config, Interface interface);
    ~Recorder() { flush(); }
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    // ---- calls of the device
    // Reads the clock; call this before each entry. True: a mark is due, so call mark() next.
    [[nodiscard]] bool looks_at_mark() {
        now_ns_ = host_.now_ns();
        return !buffer_.stopped() && now_ns_ >= mark_ns_;
    }
    void mark(const State& state);
    void entry(Tag tag, std::initializer_list<uint64_t> fields);
    // Record the entries kLinkReceived and kLinkConnected, and parse the frames of the link to
    // leave out payload.
    void received(unsigned port, std::span<const uint8_t> bytes);
    void connected(unsigned port, bool can_share);

    // ---- answers of the host: recorded while the recorder is not quiet
    void answer(Tag tag);
    void answer(Tag tag, uint64_t number);
    void answer(Tag tag, std::span<const uint8_t> bytes);
    void clock(uint64_t now_ns);
    // The recorder is quiet during calls that do not change the device, such as a dump of its
    // objects.
    void set_quiet(bool quiet) { quiet_ = quiet; }
    // Whether the content of a read of `bytes` bytes is recorded.
    [[nodiscard]] bool keeps(DmaPurpose purpose, size_t bytes) const {
        return payload_ || purpose != DmaPurpose::kPayload || bytes <= kWholePayload;
    }
    [[nodiscard]] bool keeps_payload() const { return payload_; }
    OutputCheck& check() { return check_; }

    void flush() { buffer_.flush(); }
    void stop() { buffer_.stop(); }

  private:
    [[nodiscard]] bool begin_answer(Tag tag);
    void put_time(uint64_t now_ns);

    Host& host_;
    const bool payload_;
    RecordBuffer buffer_;
    uint64_t now_ns_ = 0;   // time of the next entry
    uint64_t time_ns_ = 0;  // the last time in the recording
    uint64_t mark_ns_ = 0;  // time at which the next mark is due
    bool quiet_ = false;
    OutputCheck check_;
    std::array<StreamCut, kMaxPorts> streams_;
};

}  // namespace pib::hca::record
