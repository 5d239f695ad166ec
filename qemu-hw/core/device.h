// SPDX-License-Identifier: GPL-2.0-or-later
// The HCA as a whole: what QEMU or a test creates, and the entry points by which the world reaches
// it. One caller at a time. Each entry does a bounded amount of work. A command that takes memory
// away from the fabric while the switch copies (Config::one_copy) completes later. Four things wait
// for such a switch instead, 1 s at most: reset(), stop_copying(), a QP that fails, and a work
// request or packet that invalidates a key.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "base/config.h"
#include "base/host.h"
#include "device_links.h"
#include "device_registers.h"
#include "engine.h"
#include "mmio/uar.h"

namespace pib::hca {

class Device {
  public:
    // The reason, one line for a user, when the configuration is not possible.
    static std::expected<std::unique_ptr<Device>, std::string> create(const Config& config,
                                                                      Host& host);

    // BAR accesses; size 1, 2, 4 or 8. Anything undefined reads 0 and is ignored.
    uint64_t mmio_read(unsigned bar, uint64_t offset, unsigned size);
    void mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size);

    // Function-level or system reset: no DMA and no interrupt afterwards; the links stay connected,
    // the ports' subnet state stays as firmware would keep it only until a power-on (`cold`).
    void reset(bool cold);

    // A store to PIB_HCA_UAR_KICK of this UAR, or several.
    void kick(uint32_t uar);

    void run();    // after Host::wake()
    void timer();  // after the deadline of Host::set_timer()

    // When it returns, the switch neither reads nor writes the guest's memory until the device is
    // called again: the VM stops, or its memory changes. It waits for the switch, 1 s at most.
    void stop_copying();

    DeviceLinks& links() { return links_; }
    Engine& engine() { return engine_; }

    // For humans: every object (docs/observability.md), and the trace of Config::trace_entries, as
    // JSON.
    std::string objects();
    std::string trace() const { return engine_.trace().json(); }

  private:
    Device(const Config& config, Host& host);

    Engine engine_;
    DeviceRegisters registers_{engine_};
    UarPages uars_{engine_.objects()};
    DeviceLinks links_{engine_};
};

}  // namespace pib::hca
