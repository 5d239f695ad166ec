// SPDX-License-Identifier: GPL-2.0-or-later
// The command queue: fetches entries from the ring, does the checks that all commands share,
// executes them and writes their completions. Some completions are held back, and later commands
// wait behind them: the completion of a command that revokes memory until the switch has stopped
// accessing that memory, the completion of RESIZE_CQ until all CQEs are copied, and the completion
// of a command that ends a QP until the memory windows of the QP are free.
#pragma once

#include <cstdint>
#include <optional>

#include "base/host.h"
#include "commands/command_pace.h"
#include "commands/command_table.h"
#include "pib_hca_hw.h"
#include "strict/command_watch.h"

namespace pib::hca {

class CommandQueue {
  public:
    // Limits of one run(): number of commands, and of pages in their page lists. Searches through
    // all QPs and moved WQEs count like pages. A later run() executes the other commands, so that
    // no doorbell takes long.
    static constexpr uint32_t kCommandsPerTurn = 16;
    static constexpr uint64_t kPagesPerTurn = 1u << 16;

    explicit CommandQueue(DeviceObjects& objects);

    struct Rings {
        uint64_t base = 0;
        uint64_t cpl_base = 0;
        uint32_t log_depth = 0;
    };

    // A refusal has no effect.
    Verdict start(const Rings& rings);
    // Stops reading entries; the counters keep their values.
    void stop() { running_ = false; }
    void reset() {
        held_.reset();
        pace_.reset();
        running_ = false;
        producer_ = 0;
        consumed_ = 0;
    }
    [[nodiscard]] bool running() const { return running_; }
    uint32_t consumed() const { return consumed_; }
    uint32_t outstanding() const { return running_ ? producer_ - consumed_ : 0; }

    // `producer` is the doorbell's counter. Returns PIB_HCA_FATAL_CMDQ_OVERRUN or
    // PIB_HCA_FATAL_NONE; run() executes the commands.
    uint32_t doorbell(uint32_t producer);

    // Executes commands up to the limits above; if `stopped`, refuses each of them. Returns
    // PIB_HCA_FATAL_CMDQ_DMA if a ring is not accessible, else PIB_HCA_FATAL_NONE.
    uint32_t run(bool stopped);
    [[nodiscard]] bool has_work() const { return has_next() && !pace_.is_waiting(); }
    // Whether a completion waits until the switch has stopped accessing revoked memory, RESIZE_CQ
    // has copied all CQEs, or the windows of a QP are free; run() then writes it. False while an
    // adversarial device delays the completion.
    [[nodiscard]] bool is_held() const { return running_ && held_ && !pace_.is_waiting(); }
    // When run() is due because a command of an adversarial device has waited long enough.
    uint64_t next_deadline() const { return running_ ? pace_.next_deadline() : kNever; }

  private:
    [[nodiscard]] bool has_next() const { return running_ && !held_ && consumed_ != producer_; }
    // A command that has been executed.
    struct Executed {
        pib_hca_cmd cmd;
        CommandInput in;
        CommandReply reply;
        uint64_t fetched_ns = 0;  // for the trace
    };

    // Checks size, alignment and memory of the rings.
    Verdict check(const Rings& rings);
    [[nodiscard]] bool fetch(pib_hca_cmd& cmd);
    CommandReply execute(const pib_hca_cmd& cmd, CommandInput& in);
    // Reads the input structure, and checks that additional bytes of the input are zero.
    Verdict read_input(const pib_hca_cmd& cmd, const CommandSpec& spec, CommandInput& in);
    // Whether the switch has stopped accessing revoked memory, no CQEs are being copied, and no
    // windows are being freed.
    [[nodiscard]] bool memory_is_free() const;
    void go_on();
    CommandReply call(const CommandSpec& spec, const CommandInput& in);
    // Records the refusal, if the command was refused.
    void report(const Executed& executed);
    void trace(const Executed& executed);
    [[nodiscard]] bool complete(const Executed& executed);
    [[nodiscard]] bool write_completion(const Executed& executed);

    DeviceObjects& objects_;
    Host& host_;
    CommandPace pace_;
    Rings rings_;
    std::optional<Executed> held_;
    std::optional<CommandWatch> watch_;  // no value: the device does not check its driver
    bool running_ = false;
    uint32_t producer_ = 0;
    uint32_t consumed_ = 0;
    uint64_t turn_pages_ = 0;
};

}  // namespace pib::hca
