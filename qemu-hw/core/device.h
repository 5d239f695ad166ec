// SPDX-License-Identifier: GPL-2.0-or-later
// The HCA as a whole: QEMU or a test creates it and calls its entry points, one at a time. Each
// entry does a bounded amount of work, and none waits. If memory is revoked while the switch copies
// (Config::peer_copy), then commands and work requests complete, and a reset ends
// (PIB_HCA_STATUS_RESETTING), only when the switch has stopped copying, or after 1 s
// (PeerCopy::settled()).
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "base/config.h"
#include "base/host.h"
#include "device_ends.h"
#include "device_links.h"
#include "device_recording.h"
#include "device_registers.h"
#include "engine.h"
#include "mmio/uar.h"

namespace pib::hca {

class Device {
  public:
    // Error: what is wrong with the configuration, as one line for the user. `host` and the
    // sink of `recording` must outlive the device.
    [[nodiscard]] static std::expected<std::unique_ptr<Device>, std::string> create(
        const Config& config, Host& host, const record::Options& recording = {});

    // Accesses to a BAR, of 1, 2, 4 or 8 bytes. Undefined registers read as 0 and ignore writes.
    uint64_t mmio_read(unsigned bar, uint64_t offset, unsigned size);
    void mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size);

    // Function-level or system reset: the device does no DMA and raises no interrupt afterwards.
    // The links stay connected. `cold` is a power-on, which also resets the ports' subnet state.
    void reset(bool cold);

    // The PCI function has left D0. A strict device then checks that its driver has stopped it.
    void dma_ended();
    // Bus mastering was switched off in D0. A strict device makes the same checks, and checks that
    // no objects are left.
    void bus_master_off();

    // Stores to PIB_HCA_UAR_KICK of this UAR, or of another UAR that shares its eventfd.
    void kick(uint32_t uar);

    void run();    // call after Host::wake()
    void timer();  // call after the deadline of Host::set_timer()

    // Call before the VM stops or its memory changes: tells the switch to stop reading and writing
    // guest memory.
    void stop_copying() {
        recording_.entry(record::Tag::kStopCopying);
        engine_.revoke_memory();
    }
    // Whether the switch has stopped copying; also true after 1 s (PeerCopy::settled()). True stays
    // valid until another function of the device is called.
    [[nodiscard]] bool copying_stopped() { return engine_.copying_stopped(); }

    DeviceLinks& links() { return links_; }
    Engine& engine() { return engine_; }

    // JSON for humans (docs/observability.md): all objects, the last refusals, the last failures,
    // and the trace.
    std::string objects();
    std::string refusals();
    std::string journal();
    std::string trace() { return engine_.trace().json(); }
    // Empties the trace and sets its size, at most Trace::kMaxEntries entries; 0 ends it. Throws
    // std::bad_alloc.
    void choose_trace(uint32_t entries, const TraceKinds& kinds);
    // Coverage of the driver (base/driver_coverage.h) as JSON.
    std::string coverage() { return engine_.objects().counters.coverage->json(); }
    // Returns coverage() and sets all its counts to 0.
    std::string take_coverage();

    // The recording, if there is one (record/record_format.h).
    DeviceRecording& recording() { return recording_; }

  private:
    Device(const Config& config, Host& host, const record::Options& recording);
    // Passes an access to the trace and to the checks of the driver, if the device has them.
    void note(bool store, unsigned bar, uint64_t offset, uint64_t value, unsigned size);

    // False while an adversarial device is gone. Also stops or resets an adversarial device when
    // that is due.
    [[nodiscard]] bool is_there();
    void check_stopped(uint32_t objects_left);

    bool notes_;  // accesses are passed to the trace or to the checks of the driver
    DeviceRecording recording_;
    Engine engine_;
    DeviceRegisters registers_{engine_};
    UarPages uars_{engine_.objects()};
    DeviceLinks links_{engine_, recording_};
    std::optional<DeviceEnds> ends_;  // no value: the device does not end by itself
};

}  // namespace pib::hca
