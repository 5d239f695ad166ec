// SPDX-License-Identifier: GPL-2.0-or-later
// A host that passes calls on to another host, adds them to the OutputCheck, and records answers.
#pragma once

#include <utility>

#include "base/forwarding_host.h"
#include "record/recorder.h"

namespace pib::hca::record {

class RecordingHost final : public ForwardingHost {
  public:
    RecordingHost(Host& host, Recorder& recorder) : ForwardingHost(host), recorder_(recorder) {}

    [[nodiscard]] bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override;
    [[nodiscard]] bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override;
    [[nodiscard]] bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected,
                                     uint64_t desired) override;
    void dma_for(DmaPurpose purpose) override {
        purpose_ = purpose;
        host_.dma_for(purpose);
    }
    void raise_msix(unsigned vector) override;
    VectorState vector_state(unsigned vector) override;
    uint64_t now_ns() override;
    uint64_t real_ns() override;
    void set_timer(uint64_t deadline_ns) override;
    void kicks(uint32_t uar, bool wanted) override;
    void wake() override;
    void link_wake(unsigned port) override;
    size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) override;
    void link_close(unsigned port) override;
    void link_kick(unsigned port) override;

  private:
    using Call = OutputCheck::Call;
    DmaPurpose take_purpose() { return std::exchange(purpose_, DmaPurpose::kOther); }

    Recorder& recorder_;
    DmaPurpose purpose_ = DmaPurpose::kOther;
};

}  // namespace pib::hca::record
