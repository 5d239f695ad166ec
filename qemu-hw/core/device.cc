// SPDX-License-Identifier: GPL-2.0-or-later
#include "device.h"

#include <utility>

#include "commands/object_dump.h"
#include "device_config.h"
#include "pib_hca_hw.h"
#include "strict/strict.h"

namespace pib::hca {

std::expected<std::unique_ptr<Device>, std::string> Device::create(
    const Config& config, Host& host, const record::Options& recording) {
    if (std::string fault = config_fault(config); !fault.empty()) {
        return std::unexpected(std::move(fault));
    }
    return std::unique_ptr<Device>(new Device(config, host, recording));
}

Device::Device(const Config& config, Host& host, const record::Options& recording)
    : notes_(config.knobs.strict != Strictness::kOff || config.trace_kinds.registers),
      recording_(config, host, recording),
      engine_(recording_.config(), recording_.host()) {
    recording_.watch(engine_);
    if (Adversary* adversary = engine_.objects().counters.adversary;
        adversary != nullptr && adversary->plays(Adversity::kEnd)) {
        ends_.emplace(engine_.objects().host, *adversary);
    }
}

bool Device::is_there() {
    if (!ends_) [[likely]] {
        return true;
    }
    const auto end = engine_.commands().running() ? ends_->take_due() : std::nullopt;
    if (end == SuddenEnd::kFatal) {
        engine_.health().fail(PIB_HCA_FATAL_INTERNAL);
    } else if (end) {
        engine_.reset(false);
        registers_.reset();
    }
    return !ends_->is_gone();
}

uint64_t Device::mmio_read(unsigned bar, uint64_t offset, unsigned size) {
    recording_.entry(record::Tag::kMmioRead, {bar, offset, size});
    uint64_t value = 0;
    if (ends_ && ends_->is_gone()) [[unlikely]] {
        value = UINT64_MAX >> (64 - 8 * size);
        recording_.loaded(value);
        return value;
    }
    const bool known = bar == PIB_HCA_BAR_REGS
                           ? registers_.read(offset, size, value)
                           : bar == PIB_HCA_BAR_UAR && uars_.read(offset, size, value);
    if (known) {
        const bool doorbell = bar == PIB_HCA_BAR_UAR;
        engine_.objects().counters.coverage->loaded(
            doorbell, doorbell ? offset % PIB_HCA_UAR_PAGE_SIZE : offset);
    } else {
        engine_.objects().refusals.ignored_load(bar, offset);
    }
    if (engine_.objects().counters.strict != nullptr) [[unlikely]] {
        engine_.enter([&] { note(false, bar, offset, value, size); });  // may stop the device
    } else {
        note(false, bar, offset, value, size);  // no enter(): the trace must not change the device
    }
    recording_.loaded(value);
    return value;
}

void Device::mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size) {
    recording_.entry(record::Tag::kMmioWrite, {bar, offset, value, size});
    engine_.enter([&] {
        if (!is_there()) [[unlikely]] {
            return;
        }
        note(true, bar, offset, value, size);
        const bool doorbell = bar == PIB_HCA_BAR_UAR;
        if (doorbell && engine_.health().is_fatal()) {  // a stopped device ignores doorbells
            return;
        }
        const bool known = doorbell
                               ? uars_.write(offset, size, value)
                               : bar == PIB_HCA_BAR_REGS && registers_.write(offset, size, value);
        if (known) {
            engine_.objects().counters.coverage->stored(
                doorbell, doorbell ? offset % PIB_HCA_UAR_PAGE_SIZE : offset, value);
        } else {
            engine_.objects().refusals.ignored_store(bar, offset, refuse(Rule::kStore, value));
        }
    });
}

void Device::choose_trace(uint32_t entries, const TraceKinds& kinds) {
    Trace& trace = engine_.trace();
    Counters& counters = engine_.objects().counters;
    counters.trace = nullptr;
    trace.choose(entries, kinds);
    counters.trace = trace.enabled() ? &trace : nullptr;
    notes_ = counters.strict != nullptr || trace.has_registers();
}

void Device::note(bool store, unsigned bar, uint64_t offset, uint64_t value, unsigned size) {
    if (!notes_) [[likely]] {
        return;
    }
    const MmioAccess access{.value = value,
                            .offset = offset,
                            .bar = static_cast<uint8_t>(bar),
                            .size = static_cast<uint8_t>(size),
                            .store = store};
    const Counters& counters = engine_.objects().counters;
    if (counters.trace != nullptr) {
        Host& host = engine_.objects().host;
        counters.trace->access(host.now_ns(), access, host.vcpu());
    }
    Strict* const strict = counters.strict;
    if (strict == nullptr) {
        return;
    }
    strict->accessed(access);
    if (!store && bar == PIB_HCA_BAR_REGS && offset == PIB_HCA_REG_STATUS) {
        strict->status_read(value);
    }
}

void Device::reset(bool cold) {
    recording_.entry(record::Tag::kReset, {cold});
    engine_.enter([&] {
        engine_.reset(cold);
        registers_.reset();
    });
}

void Device::kick(uint32_t uar) {
    recording_.entry(record::Tag::kKick, {uar});
    engine_.enter([&] {
        note(true, PIB_HCA_BAR_UAR, uint64_t{uar} * PIB_HCA_UAR_PAGE_SIZE + PIB_HCA_UAR_KICK, 0, 4);
        if (is_there() && !engine_.health().is_fatal()) {
            engine_.objects().counters.coverage->stored(true, PIB_HCA_UAR_KICK, 0);
            uars_.kick(uar);
        }
    });
}

void Device::dma_ended() {
    recording_.entry(record::Tag::kDmaEnded);
    engine_.enter([&] { check_stopped(0); });
}

void Device::bus_master_off() {
    recording_.entry(record::Tag::kBusMasterOff);
    engine_.enter([&] { check_stopped(engine_.objects().count()); });
}

void Device::check_stopped(uint32_t objects_left) {
    DeviceObjects& objects = engine_.objects();
    if (objects.counters.strict != nullptr && !engine_.health().is_fatal()) {
        const auto works = [](const QueuePair& qp) { return qp.can_receive(); };
        objects.counters.strict->dma_ended(
            {.working_qps = objects.transport.verbs().count_if(works),
             .commands = engine_.commands().outstanding(),
             .objects = objects_left});
    }
}

void Device::run() {
    recording_.entry(record::Tag::kRun);
    engine_.enter([&] {
        (void)is_there();
        engine_.run();
    });
}

void Device::timer() {
    recording_.entry(record::Tag::kTimer);
    engine_.enter([&] {
        (void)is_there();
        engine_.timer();
    });
}

std::string Device::objects() {
    return recording_.unrecorded([&] { return dump_objects(engine_.objects()); });
}

std::string Device::refusals() {
    return recording_.unrecorded([&] { return dump_refusals(engine_.objects()); });
}

std::string Device::journal() {
    return recording_.unrecorded(
        [&] { return engine_.journal().json(engine_.objects().host.now_ns()); });
}

std::string Device::take_coverage() {
    std::string taken = coverage();
    *engine_.objects().counters.coverage = {};
    return taken;
}

}  // namespace pib::hca
