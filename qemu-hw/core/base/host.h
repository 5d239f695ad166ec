// SPDX-License-Identifier: GPL-2.0-or-later
// The environment of the HCA: guest memory, interrupts, one clock, one timer, the fabric links. The
// core calls no other interface. QEMU (qemu-hw/glue) and the tests (tests/support/fake_host.h)
// implement it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pib::hca {

constexpr uint64_t kNever = UINT64_MAX;

enum class LogLevel : uint8_t {
    kGuestError,  // the guest programmed the device wrongly; can be disabled, may repeat
    kWarning,     // the user should know: a refused link, a protocol error of the switch
    kTrace,
};

// None of these calls back into the device.
class Host {
  public:
    virtual ~Host() = default;

    // Copies from or to guest RAM at a bus address. False, without effect, when any byte of the
    // range is not RAM that the device may reach (holes, ROM on write, MMIO, bus mastering off).
    virtual bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) = 0;
    virtual bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) = 0;

    // Compare-and-swap of an aligned 8-byte word of guest RAM, little-endian, atomic against the
    // guest's processors. Returns false when not RAM; otherwise `expected` becomes the old value.
    virtual bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) = 0;

    // Host address of `length` bytes of guest RAM, for loads, and for stores that the caller
    // reports by ram_written(). Valid while ram_generation() stays the same. nullptr when they are
    // not contiguous in the host's memory, may not be written, are out of the device's present
    // reach, or have no lasting translation (a vIOMMU): the caller then uses dma_read() and
    // dma_write().
    virtual uint8_t* ram(uint64_t bus_addr, uint64_t length) = 0;
    // Reports bytes stored through such a pointer, for the VM's dirty pages and translated code.
    virtual void ram_written(uint64_t bus_addr, uint64_t length) = 0;
    // Never 0.
    uint64_t ram_generation() const { return ram_generation_; }
    // The implementation calls this when results of ram() may have changed. Never while the device
    // works.
    void ram_changed() { ++ram_generation_; }

    // Orders all earlier dma_write (and ram_written) before all later ones and before raise_msix
    // (release).
    virtual void dma_barrier() = 0;

    // The host sends the message after the call into the device has returned: it is a write to an
    // address of the guest's choice, and may call any function of the device again.
    virtual void raise_msix(unsigned vector) = 0;

    // The VM's virtual clock, nanoseconds since power-on.
    virtual uint64_t now_ns() = 0;
    // A clock that also runs while the VM is stopped, and a short pause, for bounded waits for
    // another process.
    virtual uint64_t real_ns() = 0;
    virtual void relax() = 0;
    // Asks for Device::timer() once the clock reaches `deadline_ns`; replaces the last one.
    virtual void set_timer(uint64_t deadline_ns) = 0;
    // From now on stores to PIB_HCA_UAR_KICK of this UAR may also arrive as Device::kick(), at the
    // host's choice; without it they arrive as doorbells only.
    virtual void kicks(uint32_t uar, bool wanted) = 0;
    // Asks for Device::run() soon, outside the current call.
    virtual void wake() = 0;
    // Asks for DeviceLinks::poll() of a link in shared memory, as the other end does when it wakes
    // us.
    virtual void link_wake(unsigned port) = 0;

    // Writes to the stream of a port's fabric link (port 1..). Returns the bytes taken; fewer than
    // given means DeviceLinks::writable() will follow. link_close() drops the connection; the host
    // reports DeviceLinks::connected() when it has a new one.
    virtual size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) = 0;
    virtual void link_close(unsigned port) = 0;
    // Wakes the other end of a link in shared memory, which sleeps.
    virtual void link_kick(unsigned port) = 0;

    virtual void log(LogLevel level, std::string_view text) = 0;

  private:
    uint64_t ram_generation_ = 1;
};

}  // namespace pib::hca
