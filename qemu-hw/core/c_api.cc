// SPDX-License-Identifier: GPL-2.0-or-later
// The C interface of the HCA: implements pib_hca_core.h by device.h and base/host.h. It has no
// logic, and its functions throw nothing.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "device.h"
#include "memory/peer_copy.h"
#include "pib_hca_core.h"

using pib::hca::AdversaryPlan;
using pib::hca::Config;
using pib::hca::Device;
using pib::hca::Host;
using pib::hca::LogLevel;
using pib::hca::VectorState;

namespace {

class COps final : public Host, public pib::hca::record::Sink {
  public:
    COps(const PibHcaHostOps& ops, void* opaque) : ops_(ops), opaque_(opaque) {}

    bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override {
        return ops_.dma_read(opaque_, bus_addr, to.data(), to.size());
    }
    bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override {
        return ops_.dma_write(opaque_, bus_addr, from.data(), from.size());
    }
    bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) override {
        return ops_.dma_cmpxchg64(opaque_, bus_addr, &expected, desired);
    }
    uint8_t* ram(uint64_t bus_addr, uint64_t length) override {
        return ops_.ram(opaque_, bus_addr, length);
    }
    void ram_written(uint64_t bus_addr, uint64_t length) override {
        ops_.ram_written(opaque_, bus_addr, length);
    }
    void dma_barrier() override { ops_.dma_barrier(opaque_); }
    void raise_msix(unsigned vector) override { ops_.raise_msix(opaque_, vector); }
    VectorState vector_state(unsigned vector) override {
        return ops_.vector_state == nullptr
                   ? VectorState::kOpen
                   : static_cast<VectorState>(ops_.vector_state(opaque_, vector));
    }
    int vcpu() override { return ops_.vcpu == nullptr ? pib::hca::kNoVcpu : ops_.vcpu(opaque_); }
    uint64_t now_ns() override { return ops_.now_ns(opaque_); }
    uint64_t real_ns() override { return ops_.real_ns(opaque_); }
    void set_timer(uint64_t deadline_ns) override { ops_.set_timer(opaque_, deadline_ns); }
    void kicks(uint32_t uar, bool wanted) override { ops_.kicks(opaque_, uar, wanted); }
    void wake() override { ops_.wake(opaque_); }
    void link_wake(unsigned port) override { ops_.link_wake(opaque_, port); }
    // Allocates nothing, because an exception would stop the device (Engine::guard()).
    size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) override {
        std::array<PibHcaBytes, 16> list;
        size_t taken = 0;
        while (!parts.empty()) {
            const size_t count = std::min(parts.size(), list.size());
            size_t wanted = 0;
            for (size_t i = 0; i < count; ++i) {
                list[i] = {parts[i].data(), parts[i].size()};
                wanted += parts[i].size();
            }
            const size_t n = ops_.link_write(opaque_, port, list.data(), count);
            taken += n;
            if (n < wanted) {
                break;
            }
            parts = parts.subspan(count);
        }
        return taken;
    }
    void link_close(unsigned port) override { ops_.link_close(opaque_, port); }
    void link_kick(unsigned port) override { ops_.link_kick(opaque_, port); }
    void log(LogLevel level, std::string_view text) override {
        std::array<char, 256> line{};
        std::ranges::copy(text.substr(0, line.size() - 1), line.begin());
        ops_.log(opaque_, static_cast<unsigned>(level), line.data());
    }

    // ---- record::Sink
    bool write(std::span<const uint8_t> bytes) override {
        return ops_.record(opaque_, bytes.data(), bytes.size());
    }

  private:
    const PibHcaHostOps ops_;
    void* const opaque_;
};

Config from_c(const PibHcaConfig& in, const AdversaryPlan& adversary) {
    Config config;
    config.port_count = in.port_count;
    config.vector_count = in.vector_count;
    config.node_guid = in.node_guid;
    std::ranges::copy(in.port_guids, config.port_guids.begin());
    config.node_description = in.node_description != nullptr ? in.node_description : "";
    config.link_width = in.link_width;
    config.link_speed = in.link_speed;
    config.link_speed_ext = in.link_speed_ext;
    config.mtu_cap = in.mtu_cap;
    config.vl_cap = in.vl_cap;
    config.bursts = in.bursts;
    config.peer_copy = in.peer_copy;
    config.trace_entries = in.trace_entries;
    config.trace_kinds = {
        .registers = in.trace_registers, .dma = in.trace_dma, .interrupts = in.trace_interrupts};
    config.shadow_doorbells = in.shadow_doorbells;
    config.device_memory_pages = in.device_memory_pages;
    config.knobs = {.inject = in.inject,
                    .poison_wc = in.poison_wc,
                    .shuffle_srq = in.shuffle_srq,
                    .warnings = in.warnings,
                    .qpn_choice = static_cast<pib::hca::NumberChoice>(in.qpn_reuse),
                    .strict = static_cast<pib::hca::Strictness>(in.strict),
                    .adversary = adversary};
    return config;
}

pib::hca::record::Options recording_from_c(const PibHcaConfig& in, pib::hca::record::Sink& sink) {
    pib::hca::record::Options options;
    options.sink = in.record ? &sink : nullptr;
    options.payload = in.record_payload;
    options.limit = in.record_limit;
    return options;
}

// Copies a text for a caller in C, which frees it. nullptr: out of memory.
template <typename F>
char* text_for_c(F&& make) noexcept {
    try {
        return strdup(make().c_str());
    } catch (const std::exception&) {
        return nullptr;
    }
}

pib::link::RingView ring_from_c(const PibHcaRing& ring) {
    return {.control = static_cast<pib::link::RingControl*>(ring.control),
            .bytes = ring.bytes,
            .size = ring.size};
}

}  // namespace

struct PibHcaCore {
    COps host;
    std::unique_ptr<Device> device;
};

extern "C" {

void pib_hca_config_init(PibHcaConfig* config) {
    const Config defaults;
    *config = {};
    config->port_count = defaults.port_count;
    config->vector_count = defaults.vector_count;
    config->link_width = defaults.link_width;
    config->link_speed = defaults.link_speed;
    config->link_speed_ext = defaults.link_speed_ext;
    config->mtu_cap = defaults.mtu_cap;
    config->vl_cap = defaults.vl_cap;
    config->device_memory_pages = defaults.device_memory_pages;
    config->bursts = defaults.bursts;
    config->record_limit = pib::hca::record::Options::kDefaultLimit;
}

PibHcaCore* pib_hca_core_create(const PibHcaConfig* config, const PibHcaHostOps* ops, void* opaque,
                                char** error) {
    try {
        auto core = std::make_unique<PibHcaCore>(PibHcaCore{{*ops, opaque}, nullptr});
        const auto adversary = config->adversary != nullptr
                                   ? AdversaryPlan::parse(config->adversary)
                                   : AdversaryPlan();
        if (!adversary) {
            *error = strdup(adversary.error().c_str());
            return nullptr;
        }
        auto device = Device::create(from_c(*config, *adversary), core->host,
                                     recording_from_c(*config, core->host));
        if (device) {
            core->device = std::move(*device);
            return core.release();
        }
        *error = strdup(device.error().c_str());
    } catch (const std::exception&) {
        *error = strdup("not enough memory for the device");
    }
    return nullptr;
}

void pib_hca_core_destroy(PibHcaCore* core) {
    delete core;
}

uint64_t pib_hca_core_mmio_read(PibHcaCore* core, unsigned bar, uint64_t offset, unsigned size) {
    return core->device->mmio_read(bar, offset, size);
}

void pib_hca_core_mmio_write(PibHcaCore* core, unsigned bar, uint64_t offset, uint64_t value,
                             unsigned size) {
    core->device->mmio_write(bar, offset, value, size);
}

void pib_hca_core_reset(PibHcaCore* core, bool cold) {
    core->device->reset(cold);
}
void pib_hca_core_kick(PibHcaCore* core, uint32_t uar) {
    core->device->kick(uar);
}
void pib_hca_core_dma_ended(PibHcaCore* core) {
    core->device->dma_ended();
}
void pib_hca_core_bus_master_off(PibHcaCore* core) {
    core->device->bus_master_off();
}
void pib_hca_core_ram_changed(PibHcaCore* core) {
    core->device->stop_copying();
    core->host.ram_changed();
}
void pib_hca_core_run(PibHcaCore* core) {
    core->device->run();
}
void pib_hca_core_timer(PibHcaCore* core) {
    core->device->timer();
}
void pib_hca_core_link_connected(PibHcaCore* core, unsigned port, bool can_share) {
    core->device->links().connected(port, can_share);
}

void pib_hca_core_link_rx(PibHcaCore* core, unsigned port, const uint8_t* data, size_t length) {
    core->device->links().received(port, {data, length});
}

bool pib_hca_core_link_is_behind(PibHcaCore* core, unsigned port) {
    return core->device->links().is_behind(port);
}

void pib_hca_core_link_writable(PibHcaCore* core, unsigned port) {
    core->device->links().writable(port);
}

void pib_hca_core_link_closed(PibHcaCore* core, unsigned port) {
    core->device->links().closed(port);
}

char* pib_hca_core_objects(PibHcaCore* core) {
    return text_for_c([&] { return core->device->objects(); });
}

char* pib_hca_core_refusals(PibHcaCore* core) {
    return text_for_c([&] { return core->device->refusals(); });
}

char* pib_hca_core_journal(PibHcaCore* core) {
    return text_for_c([&] { return core->device->journal(); });
}

char* pib_hca_core_trace(PibHcaCore* core) {
    return text_for_c([&] { return core->device->trace(); });
}

bool pib_hca_core_choose_trace(PibHcaCore* core, uint32_t entries, bool registers,
                               bool interrupts) {
    if (entries > pib::hca::Trace::kMaxEntries) {
        return false;
    }
    try {
        core->device->choose_trace(entries, {.registers = registers, .interrupts = interrupts});
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void pib_hca_core_record_flush(PibHcaCore* core) {
    core->device->recording().flush();
}

char* pib_hca_core_coverage(PibHcaCore* core) {
    return text_for_c([&] { return core->device->coverage(); });
}

char* pib_hca_core_take_coverage(PibHcaCore* core) {
    return text_for_c([&] { return core->device->take_coverage(); });
}

void pib_hca_core_link_shared(PibHcaCore* core, unsigned port, const PibHcaRing* out,
                              const PibHcaRing* in) {
    core->device->links().shared(port, {.out = ring_from_c(*out), .in = ring_from_c(*in)});
}

bool pib_hca_core_link_poll(PibHcaCore* core, unsigned port) {
    return core->device->links().poll(port);
}

bool pib_hca_core_link_wants_memory(PibHcaCore* core, unsigned port) {
    return core->device->links().wants_memory(port);
}

uint64_t pib_hca_core_control_bytes(const PibHcaRamBlock* blocks, size_t count) {
    uint64_t bytes = pib::link::peer_copy_bytes({});
    for (size_t i = 0; i < count; ++i) {
        bytes += pib::link::bitmap_bytes(blocks[i].bytes);
    }
    return bytes;
}

void pib_hca_core_link_memory(PibHcaCore* core, unsigned port, uint8_t* control,
                              const PibHcaRamBlock* blocks, size_t count) {
    try {
        pib::hca::PeerCopyMemory memory{.control = control, .blocks = {}};
        for (size_t i = 0; i < count; ++i) {
            memory.blocks.push_back({.base = blocks[i].base, .bytes = blocks[i].bytes});
        }
        core->device->links().share_memory(port, memory);
    } catch (const std::exception&) {
        return;  // the link continues without peer copy
    }
}

void pib_hca_core_stop_copying(PibHcaCore* core) {
    core->device->stop_copying();
}

bool pib_hca_core_copying_stopped(PibHcaCore* core) {
    return core->device->copying_stopped();
}

}  // extern "C"
