// SPDX-License-Identifier: GPL-2.0-or-later
// The parts of an adversarial device, and what they do at each entry of the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/adversary.h"
#include "base/adversary_host.h"
#include "base/config.h"
#include "commands/command_queue.h"
#include "mmio/device_objects.h"

namespace pib::hca {

class EngineAdversity {
  public:
    // nullptr: the device is not adversarial.
    static std::unique_ptr<EngineAdversity> create(const Config& config, Host& host) {
        return config.knobs.adversary.kinds != 0 ? std::make_unique<EngineAdversity>(config, host)
                                                 : nullptr;
    }
    EngineAdversity(const Config& config, Host& host)
        : adversary_(config.knobs.adversary), host_(host, adversary_, config.vector_count) {}

    Adversary& adversary() { return adversary_; }
    AdversaryHost& host() { return host_; }

    void begin(DeviceObjects& objects, bool enabled, bool stopped) {
        host_.begin(enabled);
        if (!stopped) {
            objects.doorbells.look_early();
        }
    }
    void timer(uint64_t now_ns, DeviceObjects& objects, bool stopped) {
        host_.timer();
        objects.eqs.timer(now_ns);
        if (!stopped) {
            objects.doorbells.timer(now_ns);
            objects.shadow_doorbells.timer(now_ns);
        }
    }
    uint64_t next_deadline(const DeviceObjects& objects, const CommandQueue& commands) const {
        return std::min({host_.next_deadline(), objects.eqs.next_deadline(),
                         objects.doorbells.next_deadline(),
                         objects.shadow_doorbells.next_deadline(), commands.next_deadline()});
    }

  private:
    Adversary adversary_;
    AdversaryHost host_;
};

}  // namespace pib::hca
