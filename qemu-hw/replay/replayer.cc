// SPDX-License-Identifier: GPL-2.0-or-later
#include "replayer.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "pib_hca_hw.h"

namespace pib::hca::replay {

using record::Tag;

namespace {

constexpr const char* kAnotherCopy = "take another copy of the recording";

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

}  // namespace

std::string seconds(uint64_t time_ns) {
    char text[40];
    std::snprintf(text, sizeof text, "%" PRIu64 ".%09u s", time_ns / 1'000'000'000,
                  static_cast<unsigned>(time_ns % 1'000'000'000));
    return text;
}

std::string describe(const Step& step) {
    const auto& fields = step.fields;
    std::string text(record::name_of(step.entry));
    switch (step.entry) {
        case Tag::kMmioRead:
            return text + " from BAR" + std::to_string(fields[0]) + " at " + hex(fields[1]) + ", " +
                   std::to_string(fields[2]) + " bytes";
        case Tag::kMmioWrite:
            return text + " of " + hex(fields[2]) + " to BAR" + std::to_string(fields[0]) + " at " +
                   hex(fields[1]) + ", " + std::to_string(fields[3]) + " bytes";
        case Tag::kReset:
            return (fields[0] != 0 ? "cold " : "warm ") + text;
        case Tag::kKick:
            return text + " of UAR " + std::to_string(fields[0]);
        case Tag::kLinkReceived:
            return text + ", port " + std::to_string(fields[0]) + ", " + std::to_string(fields[1]) +
                   " bytes";
        case Tag::kLinkConnected:
        case Tag::kLinkWritable:
        case Tag::kLinkClosed:
        case Tag::kLinkShared:
        case Tag::kLinkPoll:
            return text + ", port " + std::to_string(fields[0]);
        default:
            return text;
    }
}

Replayer::Replayer(std::istream& file, ReplayOptions options)
    : options_(std::move(options)),
      reader_(file),
      answers_(options_.tolerant),
      host_(answers_, check_, options_.verbose),
      tap_(answers_, check_),
      rings_(tap_) {}

std::expected<RecordingReader::Header, std::string> Replayer::open() {
    auto header = reader_.header();
    if (!header) {
        return header;
    }
    if (header->major != PIB_HCA_INTERFACE_MAJOR || header->minor > PIB_HCA_INTERFACE_MINOR) {
        return std::unexpected("its device has register interface " +
                               std::to_string(header->major) + "." + std::to_string(header->minor) +
                               ", this program " + std::to_string(PIB_HCA_INTERFACE_MAJOR) + "." +
                               std::to_string(PIB_HCA_INTERFACE_MINOR) +
                               ": take the pib-replay of the version that recorded it");
    }
    Config config = header->config;
    if (options_.trace_entries != 0) {
        config.trace_entries = options_.trace_entries;
    }
    config.peer_copy = false;
    const auto item = reader_.next();
    if (!item) {
        return std::unexpected(item.error());
    }
    answers_.begin(reader_.step());
    auto device = Device::create(config, host_);
    answers_.end();
    if (!device) {
        return std::unexpected("its configuration is impossible: " + device.error() +
                               ": take the pib-replay of the version that recorded it");
    }
    device_ = std::move(*device);
    return header;
}

std::expected<ReplayResult, std::string> Replayer::run() {
    for (;;) {
        const auto more = next_item();
        if (!more) {
            return std::unexpected(more.error());
        }
        const bool stop = !result_.difference.empty() && !options_.tolerant;
        if (!*more || stop) {
            break;
        }
    }
    result_.truncated = result_.truncated || reader_.is_truncated();
    return result_;
}

// False: the replay ends here.
std::expected<bool, std::string> Replayer::next_item() {
    const auto item = reader_.next();
    if (!item) {
        return std::unexpected(item.error());
    }
    if (*item == RecordingReader::Item::kEnd) {
        return false;
    }
    if (*item == RecordingReader::Item::kMark) {
        compare_mark();
        return true;
    }
    const Step& step = reader_.step();
    if (step.time_ns > options_.until_ns) {
        return false;
    }
    if (options_.on_call) {
        options_.on_call(result_.calls + 1, step);
    }
    if (!compare_call(step)) {
        return true;
    }
    result_.first_ns = result_.calls == 0 ? step.time_ns : result_.first_ns;
    ++result_.calls;
    answers_.begin(step);
    const auto called = call(step);
    answers_.end();
    if (!called) {
        return std::unexpected("call " + std::to_string(result_.calls) + ": " + called.error() +
                               ": " + kAnotherCopy);
    }
    result_.last_ns = answers_.time_ns();
    last_call_ = describe(step);
    if (answers_.ran_out()) {
        result_.truncated = true;
        return false;
    }
    if (!answers_.difference().empty()) {
        differ("in " + describe_call() + " " + answers_.difference());
    }
    return true;
}

std::string Replayer::describe_call() const {
    return "call " + std::to_string(result_.calls) + " (" + last_call_ + ", at " +
           seconds(result_.last_ns) + ")";
}

void Replayer::differ(const std::string& what) {
    ++result_.differences;
    if (result_.difference.empty()) {
        result_.difference = what;
    }
}

// Compares the outputs of the calls before this one. False: they differ, and the replay ends.
bool Replayer::compare_call(const Step& step) {
    if (outputs_differ_ || step.check == check_.low()) {
        return true;
    }
    outputs_differ_ = true;  // the hashes differ from here on
    differ("in " + (result_.calls == 0 ? "the creation of the device" : describe_call()) +
           " this device does something else than the recorded one: a DMA access, an interrupt, a "
           "timer, a packet or the value of a load differs");
    return options_.tolerant;
}

void Replayer::compare_mark() {
    const record::State state = state_of(device_->engine());
    ++result_.marks;
    if (options_.on_mark) {
        options_.on_mark(result_.marks, result_.last_ns, state.size());
    }
    if (state != reader_.mark()) {
        differ("at mark " + std::to_string(result_.marks) + " (" + seconds(result_.last_ns) +
               ", after call " + std::to_string(result_.calls) +
               "): " + record::differences(reader_.mark(), state));
    }
}

// ---- calls

std::expected<void, std::string> Replayer::call(const Step& step) {
    const auto& fields = step.fields;
    const auto sized = [](uint64_t bar, uint64_t size) {
        return bar < 6 && (size == 1 || size == 2 || size == 4 || size == 8);
    };
    switch (step.entry) {
        case Tag::kMmioRead:
            if (!sized(fields[0], fields[2])) {
                return std::unexpected("an impossible load");
            }
            check_.call(record::OutputCheck::Call::kLoaded,
                        device_->mmio_read(static_cast<unsigned>(fields[0]), fields[1],
                                           static_cast<unsigned>(fields[2])));
            return {};
        case Tag::kMmioWrite:
            if (!sized(fields[0], fields[3])) {
                return std::unexpected("an impossible store");
            }
            device_->mmio_write(static_cast<unsigned>(fields[0]), fields[1], fields[2],
                                static_cast<unsigned>(fields[3]));
            return {};
        case Tag::kReset:
            device_->reset(fields[0] != 0);
            return {};
        case Tag::kDmaEnded:
            device_->dma_ended();
            return {};
        case Tag::kBusMasterOff:
            device_->bus_master_off();
            return {};
        case Tag::kKick:
            if (fields[0] >= PIB_HCA_MAX_UARS) {
                return std::unexpected("a kick of an impossible UAR");
            }
            device_->kick(static_cast<uint32_t>(fields[0]));
            return {};
        case Tag::kRun:
            device_->run();
            return {};
        case Tag::kTimer:
            device_->timer();
            return {};
        case Tag::kStopCopying:
            device_->stop_copying();
            return {};
        default:
            return call_link(step);
    }
}

std::expected<void, std::string> Replayer::call_link(const Step& step) {
    if (step.fields[0] > kMaxPorts) {
        return std::unexpected("an impossible port");
    }
    const auto port = static_cast<unsigned>(step.fields[0]);
    DeviceLinks& links = device_->links();
    switch (step.entry) {
        case Tag::kLinkConnected:
            links.connected(port, step.fields[1] != 0);
            rings_.drop(port);
            return {};
        case Tag::kLinkReceived:
            links.received(port, step.received);
            return {};
        case Tag::kLinkWritable:
            links.writable(port);
            return {};
        case Tag::kLinkClosed:
            links.closed(port);
            rings_.drop(port);
            return {};
        case Tag::kLinkPoll:
            (void)links.poll(port);
            return {};
        default: {
            const auto rings = rings_.add(port, step.fields[1], step.fields[2]);
            if (!rings) {
                return std::unexpected("a link's shared memory has an impossible size");
            }
            links.shared(port, *rings);
            return {};
        }
    }
}

}  // namespace pib::hca::replay
