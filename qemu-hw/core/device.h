// SPDX-License-Identifier: GPL-2.0-or-later
// The HCA as a whole: what QEMU or a test creates, and the entry points by which the world reaches
// it. One caller at a time; every entry point runs to completion and never blocks.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/counters.h"
#include "base/host.h"
#include "base/trace.h"
#include "commands/command_queue.h"
#include "ib/link/link_endpoint.h"
#include "memory/mpt.h"
#include "memory/one_copy.h"
#include "mmio/device_objects.h"
#include "mmio/registers.h"
#include "mmio/uar.h"
#include "port/hca_ports.h"
#include "queues/cq.h"
#include "queues/eq.h"
#include "queues/srq.h"
#include "transport/transport.h"

namespace pib::hca {

class Device final : private EqTable::Events {
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

    // Fabric links, port 1..: the host has a connection, bytes came in, more can be written, it is
    // gone. `can_share`: the host can map memory that the other end hands over.
    void link_connected(unsigned port, bool can_share);
    void link_rx(unsigned port, std::span<const uint8_t> bytes);
    void link_writable(unsigned port);
    void link_closed(unsigned port);

    // For humans: every object (docs/observability.md), and the trace of Config::trace_entries, as
    // JSON.
    std::string objects();
    std::string trace() const { return trace_.json(); }
    // The peer has shared memory; called before its bytes are passed to link_rx(). The mapping
    // stays until link_closed() or Host::link_close().
    void link_shared(unsigned port, const link::LinkRings& rings);
    // One copy: the switch may be given the guest's RAM; it is handed over with the bytes that go
    // to Host::link_write() during link_memory(). The memory stays as long as the rings.
    bool link_wants_memory(unsigned port);
    void link_memory(unsigned port, const OneCopyMemory& memory);
    // When it returns, the switch neither reads nor writes the guest's memory until the device is
    // called again: the VM stops, or its memory changes. The only call that waits, 1 s at most.
    void stop_copying();
    // The other end of a link in shared memory may have woken us: takes a bounded amount out of the
    // ring. True when more may be there; otherwise the other end has been asked to wake us.
    bool link_poll(unsigned port);

  private:
    // Registers that hold a value; all are zero after reset.
    struct RegisterValues {
        uint32_t control = 0;
        uint32_t status = 0;
        uint32_t fatal_cause = 0;
        uint32_t scratch = 0;
        uint64_t cmdq_base = 0;
        uint64_t cmdq_cpl_base = 0;
        uint32_t cmdq_log_depth = 0;
    };
    static const Register<Device> kRegisters[];
    static std::span<const Register<Device>> registers();

    Device(const Config& config, Host& host);

    // device_registers.cc: the handlers of the table
    uint64_t read_version();
    uint64_t read_control() { return regs_.control; }
    uint64_t read_status() { return regs_.status; }
    uint64_t read_fatal_cause() { return regs_.fatal_cause; }
    uint64_t read_port_count() { return config_.port_count; }
    uint64_t read_vector_count() { return config_.vector_count; }
    uint64_t read_uar_count() { return PIB_HCA_MAX_UARS; }
    uint64_t read_scratch() { return regs_.scratch; }
    uint64_t read_cmdq_base() { return regs_.cmdq_base; }
    uint64_t read_cmdq_cpl_base() { return regs_.cmdq_cpl_base; }
    uint64_t read_cmdq_log_depth() { return regs_.cmdq_log_depth; }
    uint64_t read_cmdq_consumed() { return cmdq_.consumed(); }
    uint64_t read_clock() { return host_.now_ns(); }
    uint64_t read_node_guid() { return config_.node_guid; }
    void write_control(uint64_t value);
    void write_scratch(uint64_t value) { regs_.scratch = static_cast<uint32_t>(value); }
    void write_cmdq_base(uint64_t value) { regs_.cmdq_base = value; }
    void write_cmdq_cpl_base(uint64_t value) { regs_.cmdq_cpl_base = value; }
    void write_cmdq_log_depth(uint64_t value) {
        regs_.cmdq_log_depth = static_cast<uint32_t>(value);
    }
    void write_cmdq_doorbell(uint64_t value);
    void write_test_irq(uint64_t value);

    // ---- EqTable::Events
    void eq_fatal(uint32_t cause) override { fail(cause); }
    void interrupt_raised() override {
        counters_.add(PIB_HCA_COUNTER_INTERRUPTS, Counters::kNoPort);
    }

    Counters fresh_counters() { return {.trace = trace_.enabled() ? &trace_ : nullptr}; }
    void enable();
    void run_commands();
    void do_reset(bool cold);
    bool is_fatal() const { return (regs_.status & PIB_HCA_STATUS_FATAL) != 0; }
    // Records the reason for a stop; settle() stops the device when the current call ends.
    void fail(uint32_t cause);
    void halt();
    // Runs an entry point: afterwards it sends queued frames and sets the host's timer. An
    // exception of the body (memory exhausted) stops the device instead of the virtual machine.
    template <typename F>
    void enter(F&& body) noexcept;
    void settle();
    // Runs work caused by a packet, a credit or a timer, without another wake-up.
    void turn();
    void bad_access(std::string_view what, uint64_t offset);

    const Config config_;
    Host& host_;
    Trace trace_;
    Counters counters_;
    EqTable eqs_;
    CqTable cqs_;
    SrqTable srqs_;
    Mpt mpt_;
    std::unique_ptr<OneCopy> one_copy_;  // nullptr unless Config::one_copy
    HcaPorts ports_;
    Transport transport_;
    DeviceObjects objects_;
    CommandQueue cmdq_;
    UarPages uars_;
    RegisterValues regs_;
    bool halted_ = false;  // stopped for good until reset
    uint64_t deadline_ns_ = kNever;
};

}  // namespace pib::hca
