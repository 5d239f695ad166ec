// SPDX-License-Identifier: GPL-2.0-or-later
// Feeds a recording to a device outside of QEMU, and compares the device with the recorded one: its
// questions and outputs at each call, all its objects at each mark.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "replay_host.h"
#include "replay_rings.h"
#include "replay_tap.h"

namespace pib::hca::replay {

struct ReplayOptions {
    uint64_t until_ns = UINT64_MAX;  // calls after this time are left out
    bool tolerant = false;           // goes on after a difference
    uint32_t trace_entries = 0;      // size of the trace, instead of the recorded one
    bool verbose = false;            // prints what the device logs
    // Called before each call of the device, with the number of the call; and at each mark, with
    // the number of the mark.
    std::function<void(uint64_t number, const Step& step)> on_call{};
    std::function<void(uint64_t number, uint64_t time_ns, size_t objects)> on_mark{};
};

struct ReplayResult {
    uint64_t calls = 0;
    uint64_t marks = 0;
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;
    bool truncated = false;    // the recording's last call or block is incomplete
    std::string difference;    // the first difference; empty: there is none
    uint64_t differences = 0;  // number of differences; a tolerant replay goes on after the first
};

class Replayer {
  public:
    Replayer(std::istream& file, ReplayOptions options);

    // Reads the header and creates the device. Errors are one line for a user.
    [[nodiscard]] std::expected<RecordingReader::Header, std::string> open();
    // Replays until the end, until_ns, or the first difference.
    [[nodiscard]] std::expected<ReplayResult, std::string> run();
    // Requires open().
    Device& device() { return *device_; }

  private:
    [[nodiscard]] std::expected<bool, std::string> next_item();
    // Calls the device as the step says. Error: a host cannot make this call.
    [[nodiscard]] std::expected<void, std::string> call(const Step& step);
    [[nodiscard]] std::expected<void, std::string> call_link(const Step& step);
    [[nodiscard]] bool compare_call(const Step& step);
    void compare_mark();
    void differ(const std::string& what);
    std::string describe_call() const;

    ReplayOptions options_;
    RecordingReader reader_;
    Answers answers_;
    record::OutputCheck check_;
    ReplayHost host_;
    ReplayTap tap_;
    ReplayRings rings_;
    std::unique_ptr<Device> device_;
    ReplayResult result_;
    std::string last_call_;
    bool outputs_differ_ = false;
};

// Describes the call of a step, such as "store of 0x1 to BAR2 at 0x1008, 4 bytes".
std::string describe(const Step& step);
// Formats a time, such as "1.234567890 s".
std::string seconds(uint64_t time_ns);

}  // namespace pib::hca::replay
