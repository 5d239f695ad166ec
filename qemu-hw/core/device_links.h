// SPDX-License-Identifier: GPL-2.0-or-later
// The fabric links of the device, as the host serves them. Ports count from 1; a number without a
// port has no effect.
#pragma once

#include <cstdint>
#include <span>

#include "engine.h"
#include "ib/link/link_endpoint.h"
#include "memory/one_copy.h"

namespace pib::hca {

class DeviceLinks {
  public:
    explicit DeviceLinks(Engine& engine) : engine_(engine) {}

    // The host has a connection; `can_share`: it can map memory that the other end shares.
    void connected(unsigned port, bool can_share);
    // Bytes came in.
    void received(unsigned port, std::span<const uint8_t> bytes);
    // More can be written.
    void writable(unsigned port);
    // The connection is gone.
    void closed(unsigned port);

    // The peer has shared memory; called before its bytes are passed to received(). The mapping
    // stays until closed() or Host::link_close().
    void shared(unsigned port, const link::LinkRings& rings);
    // The other end of a link in shared memory may have woken us: takes a bounded amount out of the
    // ring. True when more may be there; otherwise the other end has been asked to wake us.
    bool poll(unsigned port);

    // Peer copy: the switch may be given the guest's RAM; it is handed over with the bytes that go
    // to Host::link_write() during share_memory(). The memory stays as long as the rings.
    bool wants_memory(unsigned port);
    void share_memory(unsigned port, const OneCopyMemory& memory);

  private:
    HcaPort* find(unsigned port) { return engine_.objects().ports.find(port); }

    Engine& engine_;
};

}  // namespace pib::hca
