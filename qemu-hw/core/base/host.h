// SPDX-License-Identifier: GPL-2.0-or-later
// The environment of the HCA: guest memory, interrupts, two clocks, one timer, the fabric links.
// The core calls no other interface. QEMU (qemu-hw/glue) and the tests (tests/support/fake_host.h)
// implement it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pib::hca {

constexpr uint64_t kNever = UINT64_MAX;
constexpr int kNoVcpu = -1;

enum class LogLevel : uint8_t {
    kGuestError,  // the guest has programmed the device wrongly: QEMU's LOG_GUEST_ERROR
    kWarning,     // for the user: a closed link, misuse (strict), doubtful use (warnings)
    kTrace,
};

// The effect of the MSI-X capability on an interrupt of a vector.
enum class VectorState : uint8_t {
    kOpen,
    kMasked,    // the interrupt waits until the vector is unmasked
    kDisabled,  // MSI-X is disabled: the interrupt is lost
};

// Purpose of an access to guest memory.
enum class DmaPurpose : uint8_t {
    kOther,
    kCommand,   // the command queue, and structures of commands
    kPageList,  // tables that describe memory
    kQp,        // a QP's queues and their header
    kSrq,
    kCq,
    kEq,
    kPayload,
};

// None of these functions calls the device.
class Host {
  public:
    virtual ~Host() = default;

    // Copies from or to guest RAM at a bus address. False, without effect, if any byte of the range
    // is not RAM that the device may access (holes, ROM on write, MMIO, bus mastering off).
    [[nodiscard]] virtual bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) = 0;
    [[nodiscard]] virtual bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) = 0;

    // The same as dma_read(), for dumps of objects: traces and recordings leave the access out.
    // Also false if there is no guest memory (a replay).
    [[nodiscard]] virtual bool look(uint64_t bus_addr, std::span<uint8_t> to) {
        return dma_read(bus_addr, to);
    }

    // Compare-and-swap of an aligned 8-byte word of guest RAM, little-endian, atomic with respect
    // to the guest's processors. False: not RAM. Otherwise `expected` becomes the old value.
    [[nodiscard]] virtual bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected,
                                             uint64_t desired) = 0;

    // Announces the purpose of the next call of a function above. Accesses by ram() have no
    // purpose.
    virtual void dma_for(DmaPurpose /*purpose*/) {}

    // Host address of `length` bytes of guest RAM, for loads, and for stores that the caller
    // reports by ram_written(). Valid while ram_generation() stays the same. nullptr if the bytes
    // are not contiguous in the host's memory, are read-only, are not accessible to the device at
    // present, or have no lasting translation (a vIOMMU). The caller then uses dma_read() and
    // dma_write().
    virtual uint8_t* ram(uint64_t bus_addr, uint64_t length) = 0;
    // Reports bytes stored through a pointer of ram(), so that the VM marks their pages dirty and
    // discards translated code.
    virtual void ram_written(uint64_t bus_addr, uint64_t length) = 0;
    // The map generation: changes whenever results of ram() may have changed; never 0.
    uint64_t ram_generation() const { return ram_generation_; }
    // The implementation calls this when results of ram() may have changed, never during a call of
    // the device.
    void ram_changed() { ++ram_generation_; }

    // Release fence: orders all earlier dma_write() and ram_written() before all later ones and
    // before raise_msix().
    virtual void dma_barrier() = 0;

    // Sends the vector's MSI-X message after the current call of the device has returned: the
    // message is a write to an address that the guest chooses, and may call any function of the
    // device.
    virtual void raise_msix(unsigned vector) = 0;
    virtual VectorState vector_state(unsigned /*vector*/) { return VectorState::kOpen; }

    // Index of the virtual processor whose access the device handles now; kNoVcpu: the device
    // handles no access of a processor.
    virtual int vcpu() { return kNoVcpu; }

    // The VM's virtual clock, nanoseconds since power-on.
    virtual uint64_t now_ns() = 0;
    // A clock in nanoseconds that also runs while the VM is stopped, for time limits of other
    // processes.
    virtual uint64_t real_ns() = 0;
    // Requests Device::timer() when now_ns() reaches `deadline_ns`, which replaces the former
    // deadline; kNever: never. A deadline that has passed requests Device::timer() as wake()
    // requests Device::run(): soon, outside the current call.
    virtual void set_timer(uint64_t deadline_ns) = 0;
    // `wanted`: from now on the host may deliver kicks of this UAR by Device::kick(). Not `wanted`:
    // kicks arrive as stores to the UAR page.
    virtual void kicks(uint32_t uar, bool wanted) = 0;
    // Requests Device::run() soon, outside the current call.
    virtual void wake() = 0;
    // Requests DeviceLinks::poll() of a link in shared memory, as if the other end had woken this
    // side.
    virtual void link_wake(unsigned port) = 0;

    // Writes to the stream of a port's fabric link (ports count from 1). Returns the number of
    // bytes taken; if it is less than given, DeviceLinks::writable() follows. link_close() drops
    // the connection; the host reports a new one by DeviceLinks::connected().
    virtual size_t link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) = 0;
    virtual void link_close(unsigned port) = 0;
    // Wakes the other end of a link in shared memory.
    virtual void link_kick(unsigned port) = 0;

    virtual void log(LogLevel level, std::string_view text) = 0;

  private:
    uint64_t ram_generation_ = 1;
};

}  // namespace pib::hca
