// SPDX-License-Identifier: GPL-2.0-or-later
// A host that answers from a recording. It has no guest memory, no link and no clock.
#pragma once

#include <cstdint>
#include <utility>

#include "answers.h"
#include "base/host.h"
#include "record/output_check.h"
#include "seen_memory.h"

namespace pib::hca::replay {

class ReplayHost final : public Host {
  public:
    // `verbose`: lines that the device logs are printed.
    ReplayHost(Answers& answers, record::OutputCheck& check, bool verbose)
        : answers_(answers), check_(check), verbose_(verbose) {}

    [[nodiscard]] bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override;
    [[nodiscard]] bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override;
    [[nodiscard]] bool look(uint64_t /*bus_addr*/, std::span<uint8_t> /*to*/) override {
        return false;
    }
    [[nodiscard]] bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected,
                                     uint64_t desired) override;
    void dma_for(DmaPurpose purpose) override { purpose_ = purpose; }
    uint8_t* ram(uint64_t /*bus_addr*/, uint64_t /*length*/) override { return nullptr; }
    void ram_written(uint64_t /*bus_addr*/, uint64_t /*length*/) override {}
    void dma_barrier() override {}
    void raise_msix(unsigned vector) override { check_.call(Call::kInterrupt, vector); }
    VectorState vector_state(unsigned vector) override;
    uint64_t now_ns() override { return answers_.clock(); }
    uint64_t real_ns() override;
    void set_timer(uint64_t deadline_ns) override { check_.call(Call::kTimer, deadline_ns); }
    void kicks(uint32_t uar, bool wanted) override { check_.call(Call::kKicks, uar, wanted); }
    void wake() override { check_.call(Call::kWake); }
    void link_wake(unsigned port) override { check_.call(Call::kLinkWake, port); }
    size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) override;
    void link_close(unsigned port) override { check_.call(Call::kLinkClose, port); }
    void link_kick(unsigned port) override { check_.call(Call::kLinkKick, port); }
    void log(LogLevel level, std::string_view text) override;

  private:
    using Call = record::OutputCheck::Call;

    Answers& answers_;
    record::OutputCheck& check_;
    const bool verbose_;
    DmaPurpose purpose_ = DmaPurpose::kOther;
    SeenMemory memory_;  // used by a tolerant replay
};

}  // namespace pib::hca::replay
