// SPDX-License-Identifier: GPL-2.0-or-later
#include "device.h"

#include <utility>

#include "commands/object_dump.h"
#include "device_config.h"
#include "pib_hca_hw.h"

namespace pib::hca {

std::expected<std::unique_ptr<Device>, std::string> Device::create(const Config& config,
                                                                   Host& host) {
    if (std::string fault = config_fault(config); !fault.empty()) {
        return std::unexpected(std::move(fault));
    }
    return std::unique_ptr<Device>(new Device(config, host));
}

Device::Device(const Config& config, Host& host) : engine_(config, host) {}

uint64_t Device::mmio_read(unsigned bar, uint64_t offset, unsigned size) {
    uint64_t value = 0;
    const bool known = bar == PIB_HCA_BAR_REGS
                           ? registers_.read(offset, size, value)
                           : bar == PIB_HCA_BAR_UAR && uars_.read(offset, size, value);
    if (!known) {
        engine_.objects().refusals.ignored_load(bar, offset);
    }
    return value;
}

void Device::mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size) {
    engine_.enter([&] {
        // A stopped device ignores doorbells.
        const bool known = bar == PIB_HCA_BAR_REGS
                               ? registers_.write(offset, size, value)
                               : bar == PIB_HCA_BAR_UAR && (engine_.health().is_fatal() ||
                                                            uars_.write(offset, size, value));
        if (!known) {
            engine_.objects().refusals.ignored_store(bar, offset, refuse(Rule::kStore, value));
        }
    });
}

void Device::reset(bool cold) {
    engine_.enter([&] {
        engine_.reset(cold);
        registers_.reset();
    });
}

void Device::kick(uint32_t uar) {
    engine_.enter([&] {
        if (!engine_.health().is_fatal()) {
            uars_.kick(uar);
        }
    });
}

void Device::run() {
    engine_.enter([&] { engine_.run(); });
}

void Device::timer() {
    engine_.enter([&] { engine_.timer(); });
}

std::string Device::objects() {
    return dump_objects(engine_.objects());
}

std::string Device::journal() {
    return engine_.journal().json(engine_.objects().host.now_ns());
}

}  // namespace pib::hca
