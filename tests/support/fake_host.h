// SPDX-License-Identifier: GPL-2.0-or-later
// The host of an HCA under test: sparse guest RAM, recorded interrupts, a clock that the test
// moves, links that end in memory, and faults on demand.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/host.h"
#include "guest_ram.h"
#include "pib_hca_hw.h"

namespace pib::hca::test {

// A setting of the fake host whose changes affect the results of Host::ram().
template <typename T>
class Setting {
  public:
    Setting(Host& host, T value) : host_(host), value_(std::move(value)) {}
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;
    Setting& operator=(T value) {
        value_ = std::move(value);
        host_.ram_changed();
        return *this;
    }
    const T& operator*() const { return value_; }
    operator const T&() const { return value_; }

  private:
    Host& host_;
    T value_;
};

class FakeHost : public Host, public GuestRam {
  public:
    static constexpr size_t kLinkCapacity = 1u << 20;

    // ---- Host
    bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override;
    bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override;
    bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) override;
    uint8_t* ram(uint64_t bus_addr, uint64_t length) override;
    void ram_written(uint64_t bus_addr, uint64_t length) override;
    void dma_barrier() override { ++barriers; }
    void raise_msix(unsigned vector) override;
    VectorState vector_state(unsigned /*vector*/) override { return vectors; }
    uint64_t now_ns() override { return clock_ns; }
    uint64_t real_ns() override { return real_clock_ns; }
    void set_timer(uint64_t deadline_ns) override { timer_deadline_ns = deadline_ns; }
    void kicks(uint32_t uar, bool wanted) override;
    void wake() override { woken = true; }
    void link_wake(unsigned port) override { links.at(port).woken = true; }
    size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) override;
    void link_close(unsigned port) override;
    void link_kick(unsigned port) override { ++links.at(port).kicks; }
    void log(LogLevel level, std::string_view text) override;

    // ---- faults
    // DMA that touches any byte of the range fails from now on (a hole, a BAR, unplugged memory).
    void make_hole(uint64_t addr, uint64_t bytes) {
        GuestRam::make_hole(addr, bytes);
        ram_changed();
    }
    void make_read_only(uint64_t addr, uint64_t bytes) {
        GuestRam::make_read_only(addr, bytes);
        ram_changed();
    }
    void heal() {
        GuestRam::heal();
        fail_dma_after = UINT64_MAX;
    }
    Setting<bool> bus_master{*this, true};                // false: all DMA fails
    Setting<uint64_t> fail_dma_after{*this, UINT64_MAX};  // accesses that still succeed
    // Called before each DMA access; may act as a processor that writes while the device reads.
    using BeforeDma = std::function<void(uint64_t bus_addr, size_t bytes, bool is_write)>;
    Setting<BeforeDma> before_dma{*this, nullptr};
    // False: ram() returns nullptr, as behind a vIOMMU. It also returns nullptr while
    // record_writes, fail_dma_after or before_dma is set.
    Setting<bool> direct{*this, true};

    // ---- effects of the device
    struct Write {
        uint64_t addr;
        size_t bytes;
        uint64_t barriers_before;
    };
    Setting<bool> record_writes{*this, false};
    std::vector<Write> writes;  // filled while record_writes is set
    uint64_t dma_reads = 0;     // without accesses through ram()
    uint64_t dma_writes = 0;
    uint64_t ram_asked = 0;   // calls of ram()
    uint64_t ram_writes = 0;  // calls of ram_written()
    uint64_t barriers = 0;
    std::array<uint64_t, PIB_HCA_MAX_VECTORS> interrupts{};
    uint64_t interrupt_count() const;
    VectorState vectors = VectorState::kOpen;
    uint64_t clock_ns = 1'000'000;
    uint64_t real_clock_ns = 0;  // only the test moves it
    uint64_t timer_deadline_ns = kNever;
    bool woken = false;
    std::set<uint32_t> kicked_uars;  // UARs that kicks() has reported
    unsigned guest_errors = 0;
    std::string last_guest_error;
    std::vector<std::string> warnings;

    // ---- links; port 1 is links[1]
    struct Link {
        std::vector<uint8_t> sent;  // bytes from the device, at most kLinkCapacity
        bool blocked = false;       // a write was cut short: the test calls link_writable()
        unsigned closes = 0;
        uint64_t kicks = 0;
        bool woken = false;  // the test has to call link_poll()
    };
    std::array<Link, PIB_HCA_MAX_PORTS + 1> links;
    // Takes what a port has sent; the caller passes it to the other end, then calls link_writable()
    // if `blocked` was set.
    std::vector<uint8_t> take_link(unsigned port);
    // As above, for tests that call it very often: reuses the memory of `into`.
    void take_link(unsigned port, std::vector<uint8_t>& into);

  private:
    bool reachable(uint64_t addr, size_t bytes, bool write);
};

}  // namespace pib::hca::test
