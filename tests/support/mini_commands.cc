// SPDX-License-Identifier: GPL-2.0-or-later
#include "mini_commands.h"

#include <algorithm>

#include "ring_slots.h"

namespace pib::hca::test {

bool MiniRegisters::pump(unsigned turns) {
    for (; host_.woken && turns > 0; --turns) {
        host_.woken = false;
        device_.run();
    }
    return !host_.woken;
}

bool MiniCommands::enable(uint32_t log_depth) {
    cmd_ring_ = host_.alloc(sizeof(pib_hca_cmd) << log_depth);
    cpl_ring_ = host_.alloc(sizeof(pib_hca_cmd_cpl) << log_depth);
    in_buffer_ = host_.alloc(PIB_HCA_CMD_MAX_LENGTH);
    out_buffer_ = host_.alloc(PIB_HCA_CMD_MAX_LENGTH);
    cmd_log_depth_ = log_depth;
    cmd_producer_ = 0;
    cmd_consumer_ = 0;
    write64(PIB_HCA_REG_CMDQ_BASE, cmd_ring_);
    write64(PIB_HCA_REG_CMDQ_CPL_BASE, cpl_ring_);
    write32(PIB_HCA_REG_CMDQ_LOG_DEPTH, log_depth);
    write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
    return (read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_ENABLED) != 0;
}

pib_hca_cmd MiniCommands::make_entry(uint16_t opcode, uint32_t object, size_t in_length,
                                     size_t out_length) const {
    pib_hca_cmd entry{};
    entry.opcode = opcode;
    entry.object = object;
    entry.in_addr = in_length != 0 ? in_buffer_ : 0;
    entry.out_addr = out_length != 0 ? out_buffer_ : 0;
    entry.in_length = static_cast<uint32_t>(in_length);
    entry.out_length = static_cast<uint32_t>(out_length);
    return entry;
}

uint16_t MiniCommands::enqueue(pib_hca_cmd entry) {
    entry.id = next_id_++;
    host_.poke(cmd_ring_ + slot(cmd_producer_, cmd_log_depth_) * sizeof entry, entry);
    ++cmd_producer_;
    return entry.id;
}

CommandOutcome MiniCommands::submit(pib_hca_cmd entry) {
    enqueue(entry);
    ring_commands();
    pump();
    CommandOutcome outcome = reap();
    while (submit_steps_clock && outcome.status == CommandOutcome().status && step_clock()) {
        outcome = reap();
    }
    return outcome;
}

bool MiniCommands::step_clock() {
    if (host_.timer_deadline_ns == kNever) {
        return false;
    }
    host_.clock_ns = std::max(host_.clock_ns, host_.timer_deadline_ns);
    host_.timer_deadline_ns = kNever;
    device_.timer();
    return pump();
}

CommandOutcome MiniCommands::reap() {
    const uint64_t at = cpl_ring_ + slot(cmd_consumer_, cmd_log_depth_) * sizeof(pib_hca_cmd_cpl);
    const auto cpl = host_.peek<pib_hca_cmd_cpl>(at);
    if (!owned(cpl.owner, cmd_consumer_, cmd_log_depth_)) {
        return {};
    }
    ++cmd_consumer_;
    return {cpl.status, cpl.result, cpl.out_length};
}

CommandOutcome MiniCommands::command(pib_hca_cmd_opcode opcode, uint32_t object) {
    return submit(make_entry(opcode, object, 0, 0));
}

}  // namespace pib::hca::test
