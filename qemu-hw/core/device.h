// SPDX-License-Identifier: GPL-2.0-or-later
// The HCA as a whole: what QEMU or a test creates, and the entry points by which the world reaches
// it. One caller at a time; every entry point runs to completion and never blocks.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "base/config.h"
#include "base/host.h"
#include "ib/link/link_endpoint.h"

namespace pib::hca {

struct OneCopyMemory;

class Device {
  public:
    // The reason, one line for a user, when the configuration is not possible.
    static std::expected<std::unique_ptr<Device>, std::string> create(const Config& config,
                                                                      Host& host);
    virtual ~Device() = default;

    // BAR accesses; size 1, 2, 4 or 8. Anything undefined reads 0 and is ignored.
    virtual uint64_t mmio_read(unsigned bar, uint64_t offset, unsigned size) = 0;
    virtual void mmio_write(unsigned bar, uint64_t offset, uint64_t value, unsigned size) = 0;

    // Function-level or system reset: no DMA and no interrupt afterwards; the links stay connected,
    // the ports' subnet state stays as firmware would keep it only until a power-on (`cold`).
    virtual void reset(bool cold) = 0;

    // A store to PIB_HCA_UAR_KICK of this UAR, or several.
    virtual void kick(uint32_t uar) = 0;

    virtual void run() = 0;    // after Host::wake()
    virtual void timer() = 0;  // after the deadline of Host::set_timer()

    // Fabric links, port 1..: the host has a connection, bytes came in, more can be written, it is
    // gone. `can_share`: the host can map memory that the other end hands over.
    virtual void link_connected(unsigned port, bool can_share) = 0;
    virtual void link_rx(unsigned port, std::span<const uint8_t> bytes) = 0;
    virtual void link_writable(unsigned port) = 0;
    virtual void link_closed(unsigned port) = 0;

    // For people: every object (docs/observability.md), and the trace of Config::trace_entries.
    // JSON.
    virtual std::string objects() = 0;
    virtual std::string trace() const = 0;
    // Memory has been handed over, before the bytes that it came with go to link_rx(). It stays
    // until link_closed() or Host::link_close().
    virtual void link_shared(unsigned port, const link::LinkRings& rings) = 0;
    // One copy: the switch may be given the guest's RAM; it is handed over with the bytes that go
    // to Host::link_write() during link_memory(). The memory stays as long as the rings.
    virtual bool link_wants_memory(unsigned port) = 0;
    virtual void link_memory(unsigned port, const OneCopyMemory& memory) = 0;
    // When it returns, the switch neither reads nor writes the guest's memory until the device is
    // called again: the VM stops, or its memory changes. The only call that waits, 1 s at most.
    virtual void stop_copying() = 0;
    // The other end of a link in shared memory may have woken us: takes a bounded amount out of the
    // ring. True when more may be there; otherwise the other end has been asked to wake us.
    virtual bool link_poll(unsigned port) = 0;
};

}  // namespace pib::hca
