// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_recording.h"

#include <exception>

#include "commands/state_digest.h"
#include "pib_hca_hw.h"

namespace pib::hca {

record::State state_of(Engine& engine) {
    return state_digest(engine.objects(), engine.commands(), engine.health().cause(),
                        engine.journal().json(0));
}

DeviceRecording::DeviceRecording(const Config& config, Host& host, const record::Options& options)
    : host_(host), config_(config) {
    if (options.sink == nullptr) {
        return;
    }
    // With peer copy the switch would write to guest memory, which a recording does not contain.
    config_.peer_copy = false;
    recorder_ = std::make_unique<record::Recorder>(
        host, options, config_,
        record::Recorder::Interface{PIB_HCA_INTERFACE_MAJOR, PIB_HCA_INTERFACE_MINOR});
    recording_host_ = std::make_unique<record::RecordingHost>(host, *recorder_);
    tap_ = std::make_unique<record::RecordingTap>(*recorder_);
}

// If there is no host memory for the mark, the recording ends and the device goes on.
void DeviceRecording::write_mark() noexcept {
    try {
        recorder_->mark(unrecorded([&] { return state_of(*engine_); }));
    } catch (const std::exception&) {
        recorder_->stop();
        host_.log(LogLevel::kWarning,
                  "the recording ends here: QEMU has not enough memory for a mark. It can be "
                  "replayed up to here, and the VM goes on. For a longer one, free memory of the "
                  "host and start the VM again");
    }
}

}  // namespace pib::hca
