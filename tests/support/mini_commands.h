// SPDX-License-Identifier: GPL-2.0-or-later
// The lowest layers of MiniDriver: registers, doorbells and commands.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "device.h"
#include "fake_host.h"

namespace pib::hca::test {

struct CommandOutcome {
    uint8_t status = 0xff;  // PIB_HCA_CMD_STATUS_*; 0xff: no completion came
    uint32_t result = 0;
    uint32_t out_length = 0;
    bool ok() const { return status == PIB_HCA_CMD_STATUS_OK; }
};

class MiniRegisters {
  public:
    MiniRegisters(FakeHost& host, Device& device) : host_(host), device_(device) {}

    FakeHost& host() { return host_; }
    Device& device() { return device_; }

    uint32_t read32(uint64_t reg) { return static_cast<uint32_t>(read(reg, 4)); }
    uint64_t read64(uint64_t reg) { return read(reg, 8); }
    void write32(uint64_t reg, uint32_t value) { write(reg, value, 4); }
    void write64(uint64_t reg, uint64_t value) { write(reg, value, 8); }
    uint64_t read(uint64_t reg, unsigned size) {
        return device_.mmio_read(PIB_HCA_BAR_REGS, reg, size);
    }
    void write(uint64_t reg, uint64_t value, unsigned size) {
        device_.mmio_write(PIB_HCA_BAR_REGS, reg, value, size);
    }
    void ring(uint32_t uar, uint32_t doorbell, uint64_t value, unsigned size = 4) {
        device_.mmio_write(PIB_HCA_BAR_UAR, uint64_t{uar} * PIB_HCA_UAR_PAGE_SIZE + doorbell, value,
                           size);
    }

    // Gives the device the turns that it requests, at most `turns`; true if it requests no more.
    bool pump(unsigned turns = 1000);

  protected:
    FakeHost& host_;
    Device& device_;
};

class MiniCommands : public MiniRegisters {
  public:
    using MiniRegisters::MiniRegisters;

    // submit() moves the clock until the command completes, for devices whose commands take time.
    bool submit_steps_clock = false;
    // Moves the clock to the device's next deadline; false without one.
    bool step_clock();
    // Allocates command rings and enables the device; false if the device refuses.
    bool enable(uint32_t log_depth = 4);
    // Submits one command and returns its completion. submit() chooses `entry.id`.
    CommandOutcome submit(pib_hca_cmd entry);
    // Writes an entry to the ring without a doorbell; returns the id that it chose for the entry.
    uint16_t enqueue(pib_hca_cmd entry);
    void ring_commands() { write32(PIB_HCA_REG_CMDQ_DOORBELL, cmd_producer_); }
    // The next completion, or status 0xff when there is none.
    CommandOutcome reap();
    uint64_t cmdq_base() const { return cmd_ring_; }
    uint64_t cmdq_cpl_base() const { return cpl_ring_; }

    CommandOutcome command(pib_hca_cmd_opcode opcode, uint32_t object = 0);
    template <typename In>
    CommandOutcome command_in(pib_hca_cmd_opcode opcode, uint32_t object, const In& in) {
        host_.poke(in_buffer_, in);
        return submit(make_entry(opcode, object, sizeof in, 0));
    }
    template <typename Out>
    CommandOutcome command_out(pib_hca_cmd_opcode opcode, uint32_t object, Out& out) {
        const CommandOutcome outcome = submit(make_entry(opcode, object, 0, sizeof out));
        out = host_.peek<Out>(out_buffer_);
        return outcome;
    }
    template <typename In, typename Out>
    CommandOutcome command_in_out(pib_hca_cmd_opcode opcode, uint32_t object, const In& in,
                                  Out& out) {
        host_.poke(in_buffer_, in);
        const CommandOutcome outcome = submit(make_entry(opcode, object, sizeof in, sizeof out));
        out = host_.peek<Out>(out_buffer_);
        return outcome;
    }
    // An entry that points to the driver's own input and output buffers.
    pib_hca_cmd make_entry(uint16_t opcode, uint32_t object, size_t in_length,
                           size_t out_length) const;
    uint64_t in_buffer() const { return in_buffer_; }
    uint64_t out_buffer() const { return out_buffer_; }

    static uint32_t must(const CommandOutcome& outcome, const char* what) {
        if (!outcome.ok()) {
            throw std::runtime_error(std::string(what) + " was refused with status " +
                                     std::to_string(outcome.status));
        }
        return outcome.result;
    }

  private:
    uint64_t cmd_ring_ = 0;
    uint64_t cpl_ring_ = 0;
    uint64_t in_buffer_ = 0;
    uint64_t out_buffer_ = 0;
    uint32_t cmd_log_depth_ = 0;
    uint32_t cmd_producer_ = 0;
    uint32_t cmd_consumer_ = 0;
    uint16_t next_id_ = 1;
};

}  // namespace pib::hca::test
