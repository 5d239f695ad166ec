// SPDX-License-Identifier: GPL-2.0-or-later
#include "strict/command_watch.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace pib::hca {

namespace {

std::span<uint8_t> bytes_of(pib_hca_cmd& cmd) {
    return {reinterpret_cast<uint8_t*>(&cmd), sizeof cmd};
}

Subject subject_of(const pib_hca_cmd& cmd) {
    return {Thing::kCommand, cmd.id};
}

}  // namespace

void CommandWatch::started(uint64_t base, uint64_t cpl_base, uint32_t log_depth) {
    base_ = base;
    log_depth_ = log_depth;
    pending_.clear();
    const uint32_t depth = 1u << log_depth;
    for (uint32_t i = 0; i < depth; ++i) {
        pib_hca_cmd_cpl cpl{};
        const uint64_t place = cpl_base + uint64_t{i} * sizeof cpl;
        if (host_.dma_read(place, {reinterpret_cast<uint8_t*>(&cpl), sizeof cpl}) &&
            (cpl.owner & PIB_HCA_OWNER_BIT) != 0) {
            strict_.broken(Rule::kCplZero, {Thing::kCommandQueue, 0}, 0, i);
        }
    }
    strict_.memory_claimed({Thing::kCommandRing, 0}, base, uint64_t{depth} * sizeof(pib_hca_cmd));
    strict_.memory_claimed({Thing::kCompletionRing, 0}, cpl_base,
                           uint64_t{depth} * sizeof(pib_hca_cmd_cpl));
}

void CommandWatch::rung(uint32_t from, uint32_t to) {
    if (from == to) {
        strict_.broken(Rule::kDoorbellAgain, {Thing::kCommandQueue, 0}, to);
    }
    for (uint32_t counter = from; counter != to; ++counter) {
        add(counter);
    }
}

void CommandWatch::add(uint32_t counter) {
    Pending next;
    const uint64_t slot = counter & ((1u << log_depth_) - 1);
    next.place = base_ + slot * sizeof next.entry;
    if (host_.dma_read(next.place, bytes_of(next.entry))) {
        next.input = hash_input(next.entry);
        next.output = hash_output(next.entry);
        const bool used = std::ranges::any_of(
            pending_, [&](const Pending& other) { return other.entry.id == next.entry.id; });
        if (used) {
            strict_.broken(Rule::kIdUnique, subject_of(next.entry));
        }
    }
    pending_.push_back(next);
}

void CommandWatch::fetched(const pib_hca_cmd& cmd) {
    if (pending_.empty()) {
        return;
    }
    const Pending& pending = pending_.front();
    compare(pending, cmd);
    if (pending.input && hash_input(pending.entry) != pending.input) {
        strict_.broken(Rule::kInputChanged, subject_of(pending.entry), pending.entry.in_addr);
    }
}

void CommandWatch::outputs() {
    if (!pending_.empty()) {
        compare_output(pending_.front());
    }
}

void CommandWatch::wrote() {
    if (!pending_.empty()) {
        Pending& pending = pending_.front();
        pending.output = hash_output(pending.entry);
        pending.has_output = true;
    }
}

void CommandWatch::compare_output(const Pending& pending) {
    if (pending.output && hash_output(pending.entry) != pending.output) {
        strict_.broken(Rule::kOutputChanged, subject_of(pending.entry), pending.entry.out_addr);
    }
}

void CommandWatch::completing() {
    if (pending_.empty()) {
        return;
    }
    if (pending_.front().has_output) {
        compare_output(pending_.front());
    }
    pib_hca_cmd now;
    if (host_.dma_read(pending_.front().place, bytes_of(now))) {
        compare(pending_.front(), now);
    }
    pending_.pop_front();
}

void CommandWatch::compare(const Pending& pending, const pib_hca_cmd& now) {
    pib_hca_cmd before = pending.entry;
    pib_hca_cmd after = now;
    const auto [place, other] = std::ranges::mismatch(bytes_of(before), bytes_of(after));
    if (const auto offset = place - bytes_of(before).begin(); offset != sizeof before) {
        strict_.broken(Rule::kEntryChanged, subject_of(before), 0, static_cast<uint64_t>(offset));
    }
}

std::optional<uint64_t> CommandWatch::hash(uint64_t bus_addr, uint32_t length) {
    std::array<char, PIB_HCA_CMD_MAX_LENGTH> bytes;
    if (length == 0 || length > bytes.size()) {
        return std::nullopt;
    }
    const auto part = std::span(bytes).first(length);
    if (!host_.dma_read(bus_addr, {reinterpret_cast<uint8_t*>(part.data()), part.size()})) {
        return std::nullopt;
    }
    return std::hash<std::string_view>{}({part.data(), part.size()});
}

}  // namespace pib::hca
