// SPDX-License-Identifier: GPL-2.0-or-later
// The recording of a device. Each entry point of the device calls this class first. Without a sink,
// the calls have no effect.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "engine.h"
#include "ib/link/link_events.h"
#include "record/recorder.h"
#include "record/recording_host.h"
#include "record/recording_tap.h"

namespace pib::hca {

// A hash of each object of a device, for a mark.
record::State state_of(Engine& engine);

class DeviceRecording {
  public:
    DeviceRecording(const Config& config, Host& host, const record::Options& options);

    // The host and the configuration that the device must use. A recorded device has no peer copy.
    Host& host() { return recording_host_ ? *recording_host_ : host_; }
    const Config& config() const { return config_; }
    // Call before all functions below.
    void watch(Engine& engine) { engine_ = &engine; }

    [[nodiscard]] bool enabled() const { return recorder_ != nullptr; }
    void entry(record::Tag tag, std::initializer_list<uint64_t> fields = {}) {
        if (recorder_) [[unlikely]] {
            mark();
            recorder_->entry(tag, fields);
        }
    }
    void received(unsigned port, std::span<const uint8_t> bytes) {
        if (recorder_) [[unlikely]] {
            mark();
            recorder_->received(port, bytes);
        }
    }
    void connected(unsigned port, bool can_share) {
        if (recorder_) [[unlikely]] {
            mark();
            recorder_->connected(port, can_share);
        }
    }
    // Adds the value of a load to the check of the device's outputs.
    void loaded(uint64_t value) {
        if (recorder_) [[unlikely]] {
            recorder_->check().call(record::OutputCheck::Call::kLoaded, value);
        }
    }
    // The rings, which from now on report to the recording what the device takes from them.
    link::LinkRings rings(link::LinkRings rings) {
        if (tap_) {
            rings.out.tap = rings.in.tap = tap_.get();
        }
        return rings;
    }
    // Calls f() and records nothing that happens in it.
    template <typename F>
    auto unrecorded(F&& f) {
        const Quiet quiet(recorder_.get());
        return f();
    }
    void flush() {
        if (recorder_) {
            recorder_->flush();
        }
    }

  private:
    class Quiet {
      public:
        explicit Quiet(record::Recorder* recorder) : recorder_(recorder) { set(true); }
        ~Quiet() { set(false); }
        Quiet(const Quiet&) = delete;
        Quiet& operator=(const Quiet&) = delete;

      private:
        void set(bool quiet) {
            if (recorder_ != nullptr) {
                recorder_->set_quiet(quiet);
            }
        }
        record::Recorder* const recorder_;
    };

    void mark() {
        if (recorder_->looks_at_mark()) [[unlikely]] {
            write_mark();
        }
    }
    void write_mark() noexcept;

    Host& host_;
    Config config_;
    std::unique_ptr<record::Recorder> recorder_;  // nullptr: the device is not recorded
    std::unique_ptr<record::RecordingHost> recording_host_;
    std::unique_ptr<record::RecordingTap> tap_;
    Engine* engine_ = nullptr;
};

}  // namespace pib::hca
