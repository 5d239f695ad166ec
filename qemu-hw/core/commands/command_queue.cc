// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/command_queue.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "memory/peer_copy.h"

namespace pib::hca {

namespace {

constexpr uint64_t kRingAlignment = 4096;
// Bytes of payload whose copy takes as long as the reading of one page of a page list.
constexpr uint64_t kBytesPerPage = 256;

// Checks that every page of a ring is readable and writable, without a change of its contents.
bool ring_is_memory(Host& host, uint64_t base, uint64_t bytes) {
    for (uint64_t offset = 0; offset < bytes; offset += kRingAlignment) {
        uint64_t expected = 0;
        host.dma_for(DmaPurpose::kCommand);
        if (!host.dma_cmpxchg64(base + offset, expected, 0)) {
            return false;
        }
    }
    return true;
}

Verdict check_entry(const pib_hca_cmd& cmd, const CommandSpec& spec) {
    if (!all_zero(cmd.reserved)) {
        return refuse(Rule::kEntryReserved);
    }
    if (cmd.modifier != 0) {
        return refuse(Rule::kModifier, cmd.modifier);
    }
    if (cmd.object != 0 && !spec.names_object) {
        return refuse(Rule::kObjectUnused, cmd.object);
    }
    if (cmd.in_length < spec.in_length) {
        return refuse(Rule::kInputShort, cmd.in_length, spec.in_length);
    }
    if (cmd.in_length > PIB_HCA_CMD_MAX_LENGTH) {
        return refuse(Rule::kInputLong, cmd.in_length, PIB_HCA_CMD_MAX_LENGTH);
    }
    return cmd.out_length <= PIB_HCA_CMD_MAX_LENGTH
               ? CmdStatus::kOk
               : refuse(Rule::kOutputLong, cmd.out_length, PIB_HCA_CMD_MAX_LENGTH);
}

// A driver of a later interface version may pass a longer structure if the additional bytes are
// zero.
Verdict check_tail(Host& host, const pib_hca_cmd& cmd, const CommandSpec& spec) {
    std::array<uint8_t, kMaxCommandData> bytes;
    for (uint32_t at = spec.in_length; at < cmd.in_length;) {
        const size_t count = std::min<size_t>(cmd.in_length - at, bytes.size());
        const auto part = std::span(bytes).first(count);
        host.dma_for(DmaPurpose::kCommand);
        if (!host.dma_read(cmd.in_addr + at, part)) {
            return refuse(Rule::kInputMemory, cmd.in_addr, cmd.in_length);
        }
        if (std::ranges::any_of(part, [](uint8_t byte) { return byte != 0; })) {
            return refuse(Rule::kInputTail, cmd.in_addr, spec.in_length);
        }
        at += static_cast<uint32_t>(count);
    }
    return CmdStatus::kOk;
}

Refusal refusal_of(const pib_hca_cmd& cmd, const Verdict& verdict) {
    const CommandSpec* spec = find_command(cmd.opcode);
    return {.what = spec != nullptr ? spec->name : "command",
            .opcode = cmd.opcode,
            .id = cmd.id,
            .object = cmd.object,
            .pages_at = spec != nullptr ? spec->pages_at : uint16_t{0},
            .verdict = verdict};
}

// The result of a refused command is the number of the rule that it breaks.
uint32_t result_of(const CommandReply& reply) {
    return reply.verdict == CmdStatus::kOk ? reply.result : manual_number(reply.verdict.rule);
}

}  // namespace

CommandQueue::CommandQueue(DeviceObjects& objects)
    : objects_(objects), host_(objects.host), pace_(host_, objects.counters.adversary) {
    if (Strict* strict = objects.counters.strict; strict != nullptr) {
        watch_.emplace(host_, *strict);
    }
}

Verdict CommandQueue::start(const Rings& rings) {
    if (const Verdict verdict = check(rings); verdict != CmdStatus::kOk) {
        return verdict;
    }
    rings_ = rings;
    running_ = true;
    producer_ = 0;
    consumed_ = 0;
    if (watch_) {
        watch_->started(rings.base, rings.cpl_base, rings.log_depth);
    }
    return CmdStatus::kOk;
}

Verdict CommandQueue::check(const Rings& rings) {
    if (rings.log_depth > PIB_HCA_CMDQ_MAX_LOG_DEPTH) {
        return refuse(Rule::kRingDeep, rings.log_depth, PIB_HCA_CMDQ_MAX_LOG_DEPTH);
    }
    if (rings.base % kRingAlignment != 0) {
        return refuse(Rule::kRingAligned, rings.base, kRingAlignment);
    }
    if (rings.cpl_base % kRingAlignment != 0) {
        return refuse(Rule::kCplAligned, rings.cpl_base, kRingAlignment);
    }
    const uint64_t bytes = sizeof(pib_hca_cmd) << rings.log_depth;
    if (!ring_is_memory(host_, rings.base, bytes)) {
        return refuse(Rule::kRingMemory, rings.base, bytes);
    }
    const uint64_t cpl_bytes = sizeof(pib_hca_cmd_cpl) << rings.log_depth;
    return ring_is_memory(host_, rings.cpl_base, cpl_bytes)
               ? CmdStatus::kOk
               : refuse(Rule::kCplMemory, rings.cpl_base, cpl_bytes);
}

uint32_t CommandQueue::doorbell(uint32_t producer) {
    // The counters count modulo 2^32, so a counter that moves backwards appears far ahead.
    const uint32_t depth = 1u << rings_.log_depth;
    if (producer - consumed_ > depth || producer - consumed_ < producer_ - consumed_) {
        objects_.refusals.ignored_store(
            PIB_HCA_BAR_REGS, PIB_HCA_REG_CMDQ_DOORBELL,
            refuse(Rule::kDoorbellCounter, producer, consumed_ + depth));
        return PIB_HCA_FATAL_CMDQ_OVERRUN;
    }
    if (watch_) {
        watch_->rung(producer_, producer);
    }
    producer_ = producer;
    return PIB_HCA_FATAL_NONE;
}

uint32_t CommandQueue::run(bool stopped) {
    turn_pages_ = 0;
    if (held_) {
        go_on();
        if (!memory_is_free() || pace_.waits()) {
            return PIB_HCA_FATAL_NONE;
        }
        if (stopped) {
            held_->reply = refuse(Rule::kDeviceStopped);
            report(*held_);
        }
        if (!complete(*std::exchange(held_, std::nullopt))) {
            return PIB_HCA_FATAL_CMDQ_DMA;
        }
    }
    for (uint32_t n = 0; n < kCommandsPerTurn && turn_pages_ < kPagesPerTurn && has_next(); ++n) {
        if (pace_.waits()) [[unlikely]] {
            return PIB_HCA_FATAL_NONE;
        }
        Executed next;
        if (!fetch(next.cmd)) {
            return PIB_HCA_FATAL_CMDQ_DMA;
        }
        if (objects_.counters.trace != nullptr) [[unlikely]] {
            next.fetched_ns = host_.now_ns();
        }
        if (watch_) {
            watch_->fetched(next.cmd);
        }
        next.reply =
            stopped ? CommandReply(refuse(Rule::kDeviceStopped)) : execute(next.cmd, next.in);
        report(next);
        if (!stopped && (!memory_is_free() || pace_.waits())) {
            held_ = next;
        } else if (!complete(next)) {
            return PIB_HCA_FATAL_CMDQ_DMA;
        }
    }
    return PIB_HCA_FATAL_NONE;
}

bool CommandQueue::fetch(pib_hca_cmd& cmd) {
    const uint32_t slot = consumed_ & ((1u << rings_.log_depth) - 1);
    host_.dma_for(DmaPurpose::kCommand);
    return host_.dma_read(rings_.base + slot * sizeof cmd,
                          {reinterpret_cast<uint8_t*>(&cmd), sizeof cmd});
}

bool CommandQueue::memory_is_free() const {
    return (objects_.peer_copy == nullptr || !objects_.peer_copy->is_busy()) &&
           !objects_.transport.holds_completions() && !objects_.cqs.is_resizing() &&
           !objects_.mpt.windows().is_unbinding();
}

// Goes on with a command that has more CQEs to copy, or windows to free, than one call may handle.
void CommandQueue::go_on() {
    objects_.mpt.windows().unbind_more();
    if (objects_.cqs.is_resizing()) {
        held_->reply = objects_.cqs.resize_more();
        report(*held_);
    }
}

CommandReply CommandQueue::execute(const pib_hca_cmd& cmd, CommandInput& in) {
    const CommandSpec* spec = find_command(cmd.opcode);
    if (spec == nullptr) {
        return refuse(Rule::kOpcode, cmd.opcode);
    }
    in.object = cmd.object;
    const Verdict verdict =
        check_entry(cmd, *spec).and_then([&] { return read_input(cmd, *spec, in); });
    if (verdict != CmdStatus::kOk) {
        return verdict;
    }
    turn_pages_ += spec->page_count(in);
    if (objects_.counters.adversary != nullptr) [[unlikely]] {
        objects_.choose_numbers();
    }
    // Zeroes the output first, so that a command whose output is not writable is refused before it
    // has an effect. Cuts the output to the room that a driver of an earlier interface version has
    // for it.
    static constexpr std::array<uint8_t, kMaxCommandData> kZeros{};
    const uint32_t room = std::min<uint32_t>(cmd.out_length, spec->out_length);
    if (watch_ && room != 0) {
        watch_->outputs();
    }
    host_.dma_for(DmaPurpose::kCommand);
    if (room != 0 && !host_.dma_write(cmd.out_addr, std::span(kZeros).first(room))) {
        return refuse(Rule::kOutputMemory, cmd.out_addr, room);
    }
    if (watch_ && room != 0) {
        objects_.counters.strict->output({Thing::kCommand, cmd.id}, cmd.out_addr, room);
    }
    CommandReply reply = call(*spec, in);
    const uint32_t written = std::min(room, reply.out_length);
    host_.dma_for(DmaPurpose::kCommand);
    if (written != 0 && !host_.dma_write(cmd.out_addr, std::span(reply.bytes).first(written))) {
        return refuse(Rule::kOutputMemory, cmd.out_addr, written);
    }
    if (watch_ && room != 0) {
        watch_->wrote();
    }
    if (DriverCoverage* coverage = objects_.counters.coverage;
        coverage != nullptr && reply.verdict == CmdStatus::kOk) {
        coverage->input(cmd.opcode, std::span(in.bytes).first(spec->in_length));
    }
    return reply;
}

// Calls the command's function, and counts its work for the turn.
CommandReply CommandQueue::call(const CommandSpec& spec, const CommandInput& in) {
    const uint64_t before = objects_.transport.extra_work();
    CommandReply reply = spec.run(objects_, in);
    const uint64_t work = objects_.transport.extra_work() - before + objects_.srqs.take_moved();
    turn_pages_ += work / kBytesPerPage;
    return reply;
}

Verdict CommandQueue::read_input(const pib_hca_cmd& cmd, const CommandSpec& spec,
                                 CommandInput& in) {
    host_.dma_for(DmaPurpose::kCommand);
    if (spec.in_length != 0 &&
        !host_.dma_read(cmd.in_addr, std::span(in.bytes).first(spec.in_length))) {
        return refuse(Rule::kInputMemory, cmd.in_addr, spec.in_length);
    }
    return check_tail(host_, cmd, spec);
}

void CommandQueue::report(const Executed& executed) {
    if (executed.reply.verdict != CmdStatus::kOk) {
        objects_.refusals.add(refusal_of(executed.cmd, executed.reply.verdict));
    }
}

void CommandQueue::trace(const Executed& executed) {
    Trace* trace = objects_.counters.trace;
    if (trace == nullptr) [[likely]] {
        return;
    }
    const auto& [cmd, in, reply, fetched_ns] = executed;
    const bool refused = reply.verdict != CmdStatus::kOk;
    const CommandSpec* spec = find_command(cmd.opcode);
    const size_t taken = spec == nullptr || refused ? 0 : spec->in_length;
    trace->command(host_.now_ns(),
                   {.fetched_ns = fetched_ns,
                    .opcode = cmd.opcode,
                    .id = cmd.id,
                    .object = cmd.object,
                    .result = result_of(reply),
                    .status = static_cast<uint8_t>(reply.verdict.status()),
                    .input = std::span(in.bytes).first(taken),
                    .reason = refused ? reason_of(refusal_of(cmd, reply.verdict)) : ""});
}

bool CommandQueue::complete(const Executed& executed) {
    trace(executed);
    if (DriverCoverage* coverage = objects_.counters.coverage;
        coverage != nullptr && find_command(executed.cmd.opcode) != nullptr) {
        coverage->command(executed.cmd.opcode,
                          static_cast<uint8_t>(executed.reply.verdict.status()));
    }
    if (watch_) {
        watch_->completing();
    }
    if (!write_completion(executed)) {
        return false;
    }
    ++consumed_;
    pace_.completed();
    objects_.eqs.async_event(Event::kCommand, executed.cmd.id);
    return true;
}

bool CommandQueue::write_completion(const Executed& executed) {
    const auto& [cmd, in, reply, fetched_ns] = executed;
    pib_hca_cmd_cpl cpl{};
    cpl.result = result_of(reply);
    cpl.out_length = reply.out_length;
    cpl.id = cmd.id;
    cpl.status = static_cast<uint8_t>(reply.verdict.status());
    cpl.owner = (consumed_ >> rings_.log_depth & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
    const uint32_t slot = consumed_ & ((1u << rings_.log_depth) - 1);
    const uint64_t addr = rings_.cpl_base + slot * sizeof cpl;
    constexpr size_t kBody = offsetof(pib_hca_cmd_cpl, owner);
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&cpl), sizeof cpl);
    host_.dma_barrier();  // orders the output structure before its completion
    host_.dma_for(DmaPurpose::kCommand);
    if (!host_.dma_write(addr, bytes.first(kBody))) {
        return false;
    }
    host_.dma_barrier();
    host_.dma_for(DmaPurpose::kCommand);
    if (!host_.dma_write(addr + kBody, bytes.subspan(kBody))) {
        return false;
    }
    host_.dma_barrier();
    return true;
}

}  // namespace pib::hca
