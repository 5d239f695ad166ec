// SPDX-License-Identifier: GPL-2.0-or-later
// A host that passes each call except ram() on to another host. A class that changes more calls
// derives from it.
#pragma once

#include "base/host.h"

namespace pib::hca {

class ForwardingHost : public Host {
  public:
    explicit ForwardingHost(Host& host) : host_(host) {}

    [[nodiscard]] bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override {
        return host_.dma_read(bus_addr, to);
    }
    [[nodiscard]] bool look(uint64_t bus_addr, std::span<uint8_t> to) override {
        return host_.look(bus_addr, to);
    }
    [[nodiscard]] bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override {
        return host_.dma_write(bus_addr, from);
    }
    [[nodiscard]] bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected,
                                     uint64_t desired) override {
        return host_.dma_cmpxchg64(bus_addr, expected, desired);
    }
    void dma_for(DmaPurpose purpose) override { host_.dma_for(purpose); }
    // Gives no pointers, so that each access comes through the functions above, and ram_changed()
    // is never needed. All parts of the device must use this host: with the other host, a
    // GuestBuffer would access guest memory by a pointer.
    uint8_t* ram(uint64_t /*bus_addr*/, uint64_t /*length*/) override { return nullptr; }
    void ram_written(uint64_t bus_addr, uint64_t length) override {
        host_.ram_written(bus_addr, length);
    }
    void dma_barrier() override { host_.dma_barrier(); }
    void raise_msix(unsigned vector) override { host_.raise_msix(vector); }
    VectorState vector_state(unsigned vector) override { return host_.vector_state(vector); }
    int vcpu() override { return host_.vcpu(); }
    uint64_t now_ns() override { return host_.now_ns(); }
    uint64_t real_ns() override { return host_.real_ns(); }
    void set_timer(uint64_t deadline_ns) override { host_.set_timer(deadline_ns); }
    void kicks(uint32_t uar, bool wanted) override { host_.kicks(uar, wanted); }
    void wake() override { host_.wake(); }
    void link_wake(unsigned port) override { host_.link_wake(port); }
    size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) override {
        return host_.link_write(port, parts);
    }
    void link_close(unsigned port) override { host_.link_close(port); }
    void link_kick(unsigned port) override { host_.link_kick(port); }
    void log(LogLevel level, std::string_view text) override { host_.log(level, text); }

  protected:
    Host& host_;
};

}  // namespace pib::hca
