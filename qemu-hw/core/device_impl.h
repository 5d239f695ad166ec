// SPDX-License-Identifier: GPL-2.0-or-later
// The device behind device.h: wires the parts together, holds the registers and decides when it
// stops.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "commands/command_queue.h"
#include "device.h"
#include "memory/one_copy.h"
#include "mmio/device_objects.h"
#include "mmio/registers.h"
#include "mmio/uar.h"

namespace pib::hca {

class DeviceImpl final : public Device, private EqTable::Events {
  public:
    DeviceImpl(const Config& config, Host& host);

    uint64_t mmio_read(unsigned bar, uint64_t offset, unsigned size) override;
    void mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size) override;
    void reset(bool cold) override;
    void kick(uint32_t uar) override;
    void run() override;
    void timer() override;
    void link_connected(unsigned port, bool can_share) override;
    void link_rx(unsigned port, std::span<const uint8_t> bytes) override;
    void link_writable(unsigned port) override;
    void link_closed(unsigned port) override;
    std::string objects() override;
    std::string trace() const override { return trace_.json(); }
    void link_shared(unsigned port, const link::LinkRings& rings) override;
    bool link_poll(unsigned port) override;
    bool link_wants_memory(unsigned port) override;
    void link_memory(unsigned port, const OneCopyMemory& memory) override;
    void stop_copying() override;

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
    static const Register<DeviceImpl> kRegisters[];
    static std::span<const Register<DeviceImpl>> registers();

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
    // Remembers why the device stops; settle() stops it, when nothing of it is at work any more.
    void fail(uint32_t cause);
    void halt();
    // Runs an entry point: afterwards the fabric gets what was queued and the host the next
    // deadline. Whatever the body throws (memory exhausted) stops the device instead of the virtual
    // machine.
    template <typename F>
    void enter(F&& body) noexcept;
    void settle();
    // Runs what a packet, a credit or a timer has made due, without another wake-up.
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
    std::unique_ptr<Transport> transport_;
    DeviceObjects objects_;
    CommandQueue cmdq_;
    UarPages uars_;
    RegisterValues regs_;
    bool halted_ = false;  // stopped for good until reset
    uint64_t deadline_ns_ = kNever;
};

}  // namespace pib::hca
