// SPDX-License-Identifier: GPL-2.0-or-later
// A host that records each access to guest memory in the trace. It gives no pointers to guest
// memory, so that no access is missed.
#pragma once

#include <utility>

#include "base/forwarding_host.h"
#include "base/trace.h"

namespace pib::hca {

class TracedHost final : public ForwardingHost {
  public:
    TracedHost(Host& host, Trace& trace) : ForwardingHost(host), trace_(trace) {}

    [[nodiscard]] bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override {
        return record(bus_addr, to.size(), false, host_.dma_read(bus_addr, to));
    }
    [[nodiscard]] bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override {
        return record(bus_addr, from.size(), true, host_.dma_write(bus_addr, from));
    }
    [[nodiscard]] bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected,
                                     uint64_t desired) override {
        return record(bus_addr, sizeof expected, true,
                      host_.dma_cmpxchg64(bus_addr, expected, desired));
    }
    void dma_for(DmaPurpose purpose) override {
        purpose_ = purpose;
        host_.dma_for(purpose);
    }

  private:
    [[nodiscard]] bool record(uint64_t bus_addr, size_t length, bool write, bool done) {
        trace_.dma(host_.now_ns(), {.bus_addr = bus_addr,
                                    .length = static_cast<uint32_t>(length),
                                    .write = write,
                                    .failed = !done,
                                    .purpose = std::exchange(purpose_, DmaPurpose::kOther)});
        return done;
    }

    Trace& trace_;
    DmaPurpose purpose_ = DmaPurpose::kOther;
};

}  // namespace pib::hca
