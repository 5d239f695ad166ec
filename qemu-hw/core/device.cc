// SPDX-License-Identifier: GPL-2.0-or-later
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <set>

#include "commands/object_dump.h"
#include "port/hca_port.h"

namespace pib::hca {

namespace {

// Bits of PortInfo's supported widths and speeds that exist.
constexpr uint8_t kAllWidths = 0x1f;     // 1x, 4x, 8x, 12x, 2x
constexpr uint8_t kAllSpeeds = 0x07;     // SDR, DDR, QDR
constexpr uint8_t kAllSpeedsExt = 0x0f;  // FDR, EDR, HDR, NDR
constexpr size_t kMaxDescription = 63;

bool guids_are_distinct(const Config& config) {
    std::set<uint64_t> guids{0, config.node_guid};
    for (uint32_t i = 0; i < config.port_count; ++i) {
        guids.insert(config.port_guids[i]);
    }
    return guids.size() == 2 + config.port_count;
}

std::string check(const Config& config) {
    const struct {
        bool fine;
        const char* complaint;
    } rules[] = {
        {config.port_count >= 1 && config.port_count <= PIB_HCA_MAX_PORTS,
         "the number of ports must be 1 to 4"},
        {config.vector_count >= 1 && config.vector_count <= PIB_HCA_MAX_VECTORS,
         "the number of vectors must be 1 to 64"},
        {config.node_description.size() <= kMaxDescription,
         "the node description must be at most 63 bytes long"},
        {config.link_width != 0 && (config.link_width & ~kAllWidths) == 0,
         "the link width must be a combination of 1x (1), 4x (2), 8x (4), 12x (8) and 2x (16)"},
        {(config.link_speed & 1) != 0 && (config.link_speed & ~kAllSpeeds) == 0,
         "the link speed must be a combination of SDR (1, always), DDR (2) and QDR (4)"},
        {(config.link_speed_ext & ~kAllSpeedsExt) == 0,
         "the extended link speed must be a combination of FDR (1), EDR (2), HDR (4) and NDR (8)"},
        {config.trace_entries <= Trace::kMaxEntries, "the trace must have at most 65536 entries"},
        {config.mtu_cap >= 1 && config.mtu_cap <= 5, "the MTU must be 1 (256) to 5 (4096)"},
        {config.vl_cap >= 1 && config.vl_cap <= 5,
         "the VL capability must be 1 (VL0) to 5 (VL0-14)"},
    };
    for (const auto& rule : rules) {
        if (!rule.fine) {
            return rule.complaint;
        }
    }
    return guids_are_distinct(config) ? "" : "node and port GUIDs must be set and differ";
}

}  // namespace

std::expected<std::unique_ptr<Device>, std::string> Device::create(const Config& config,
                                                                   Host& host) {
    if (std::string complaint = check(config); !complaint.empty()) {
        return std::unexpected(std::move(complaint));
    }
    return std::unique_ptr<Device>(new Device(config, host));
}

Device::Device(const Config& config, Host& host)
    : config_(config),
      host_(host),
      trace_(config.trace_entries),
      counters_(fresh_counters()),
      eqs_(host, *this, Limits::kEqs, config.vector_count),
      cqs_(host, eqs_, Limits::kCqs),
      srqs_(host, eqs_, cqs_, Limits::kSrqs),
      mpt_(host, Limits::kMrs, Limits::kMrPages),
      one_copy_(config.one_copy ? std::make_unique<OneCopy>(host, mpt_) : nullptr),
      ports_(config_, host, eqs_, counters_, one_copy_.get()),
      transport_({host, mpt_, cqs_, srqs_, eqs_, counters_, ports_.ports(), one_copy_.get()}),
      objects_{config_, host, counters_, eqs_, cqs_, srqs_, mpt_, ports_, transport_},
      cmdq_(objects_),
      uars_(objects_) {
    ports_.set_client(transport_);
    cqs_.set_poison(config.knobs.poison_wc);
    srqs_.set_shuffle(config.knobs.shuffle_srq);
    transport_.set_knobs(config.knobs);
}

template <typename F>
void Device::enter(F&& body) noexcept {
    try {
        body();
        settle();
    } catch (const std::exception&) {
        fail(PIB_HCA_FATAL_INTERNAL);
        if (!halted_) {
            halt();
        }
    }
}

uint64_t Device::mmio_read(unsigned bar, uint64_t offset, unsigned size) {
    uint64_t value = 0;
    const bool known = bar == PIB_HCA_BAR_REGS
                           ? read_register(registers(), *this, offset, size, value)
                           : bar == PIB_HCA_BAR_UAR && uars_.read(offset, size, value);
    if (!known) {
        bad_access("read of nothing", offset);
    }
    return value;
}

void Device::mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size) {
    enter([&] {
        // Doorbells of a stopped device name no object.
        const bool known =
            bar == PIB_HCA_BAR_REGS
                ? write_register(registers(), *this, offset, size, value)
                : bar == PIB_HCA_BAR_UAR && (is_fatal() || uars_.write(offset, size, value));
        if (!known) {
            bad_access("write of nothing", offset);
        }
    });
}

void Device::reset(bool cold) {
    enter([&] { do_reset(cold); });
}

void Device::do_reset(bool cold) {
    if (one_copy_) {
        one_copy_->stop_all();
    }
    cmdq_.reset();
    objects_.clear();
    counters_ = fresh_counters();
    regs_ = {};
    halted_ = false;
    ports_.reset(cold);
}

void Device::kick(uint32_t uar) {
    enter([&] {
        if (!is_fatal()) {
            uars_.kick(uar);
        }
    });
}

void Device::run() {
    enter([&] {
        if (cmdq_.has_work()) {
            run_commands();
        }
        const bool ports_left = ports_.run();
        turn();
        if (ports_left) {
            host_.wake();
        }
    });
}

void Device::turn() {
    if (is_fatal()) {
        return;
    }
    const bool more = transport_.run();
    if (objects_.uar_indexes.run() || more) {
        host_.wake();
    }
}

void Device::timer() {
    enter([&] {
        deadline_ns_ = kNever;  // the host's timer has gone off
        const uint64_t now = host_.now_ns();
        if (!is_fatal()) {
            transport_.timer(now);
            cqs_.timer(now);
        }
        ports_.timer(now);
    });
}

void Device::link_connected(unsigned port, bool can_share) {
    enter([&] {
        if (HcaPort* p = ports_.find(port)) {
            p->link_connected(can_share);
        }
    });
}

void Device::link_rx(unsigned port, std::span<const uint8_t> bytes) {
    enter([&] {
        if (HcaPort* p = ports_.find(port)) {
            transport_.run_follows();
            p->link_rx(bytes);
            turn();
        }
    });
}

void Device::link_shared(unsigned port, const link::LinkRings& rings) {
    if (HcaPort* p = ports_.find(port)) {
        p->link_shared(rings);
    }
}

bool Device::link_poll(unsigned port) {
    bool more = false;
    HcaPort* p = ports_.find(port);
    if (p == nullptr) {
        return false;
    }
    enter([&] {
        transport_.run_follows();
        more = p->link_poll();
        turn();
    });
    // Last, after all parts have reported their events.
    return more || !p->link_may_sleep();
}

bool Device::link_wants_memory(unsigned port) {
    const HcaPort* p = ports_.find(port);
    return p != nullptr && p->link_wants_memory();
}

void Device::link_memory(unsigned port, const OneCopyMemory& memory) {
    enter([&] {
        if (HcaPort* p = ports_.find(port); p != nullptr && p->link_wants_memory()) {
            p->link_memory(memory);
        }
    });
}

void Device::stop_copying() {
    if (one_copy_) {
        enter([&] { one_copy_->stop_all(); });
    }
}

void Device::link_writable(unsigned port) {
    enter([&] {
        if (HcaPort* p = ports_.find(port)) {
            p->link_writable();
        }
    });
}

void Device::link_closed(unsigned port) {
    enter([&] {
        if (HcaPort* p = ports_.find(port)) {
            p->link_closed();
        }
    });
}

std::string Device::objects() {
    return dump_objects(objects_);
}

void Device::run_commands() {
    if (const uint32_t cause = cmdq_.run(is_fatal()); cause != PIB_HCA_FATAL_NONE) {
        cmdq_.stop();
        fail(cause);
    }
    if (cmdq_.has_work()) {
        host_.wake();
    }
}

void Device::fail(uint32_t cause) {
    if (is_fatal()) {
        return;
    }
    regs_.status |= PIB_HCA_STATUS_FATAL;
    regs_.fatal_cause = cause;
    host_.log(LogLevel::kGuestError, "pib-hca: the device has stopped (see FATAL_CAUSE)");
}

// The last event reports the stop to the driver. After it the device writes only refusals of
// commands in flight to guest memory. The ports continue, for the subnet manager.
void Device::halt() {
    halted_ = true;
    if (regs_.fatal_cause == PIB_HCA_FATAL_CMDQ_OVERRUN) {
        cmdq_.stop();
    }
    if (!cmdq_.running()) {
        regs_.status &= ~uint32_t{PIB_HCA_STATUS_ENABLED};
    }
    eqs_.fatal_event(regs_.fatal_cause);
    objects_.uar_indexes.clear();
    transport_.reset();
    cqs_.clear();
    srqs_.clear();
    mpt_.clear();
}

void Device::settle() {
    if (is_fatal() && !halted_) {
        halt();
    }
    ports_.flush();
    const uint64_t deadline =
        std::min({transport_.next_deadline(), ports_.next_deadline(), cqs_.next_deadline()});
    // A timer that expires too early finds no due work and is set again. Moving it at every ACK
    // would cost a wake-up of the main loop each time.
    if (deadline < deadline_ns_) {
        deadline_ns_ = deadline;
        host_.set_timer(deadline);
    }
}

void Device::bad_access(std::string_view what, uint64_t offset) {
    char text[96];
    std::snprintf(text, sizeof text, "pib-hca: %.*s %#llx", static_cast<int>(what.size()),
                  what.data(), static_cast<unsigned long long>(offset));
    host_.log(LogLevel::kGuestError, text);
}

}  // namespace pib::hca
