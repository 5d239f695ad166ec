// SPDX-License-Identifier: GPL-2.0-or-later
// The fabric links of the device: functions by which the host reports events of a port's
// connection. Ports count from 1; a call for a port that does not exist has no effect.
#pragma once

#include <cstdint>
#include <span>

#include "device_recording.h"
#include "engine.h"
#include "ib/link/link_endpoint.h"
#include "memory/peer_copy.h"

namespace pib::hca {

class DeviceLinks {
  public:
    DeviceLinks(Engine& engine, DeviceRecording& recording)
        : engine_(engine), recording_(recording) {}

    // The host has a connection. `can_share`: the host can map memory that the other end shares.
    void connected(unsigned port, bool can_share);
    // Bytes have arrived from the stream. Each call does a bounded amount of work. Bytes that are
    // left wait for Device::run(): until then is_behind() is true, and the host reads no more.
    void received(unsigned port, std::span<const uint8_t> bytes);
    [[nodiscard]] bool is_behind(unsigned port);
    // The stream accepts output again.
    void writable(unsigned port);
    // The connection has ended.
    void closed(unsigned port);

    // The peer has shared memory. Call this before received() gets the peer's WELCOME. The mapping
    // must stay until closed() or Host::link_close().
    void shared(unsigned port, const link::LinkRings& rings);
    // The other end of a link in shared memory may have woken this side: handles a bounded number
    // of bytes of the ring. True: there may be more. False: the other end will wake this side
    // again.
    [[nodiscard]] bool poll(unsigned port);

    // Peer copy. wants_memory(): the switch accepts the guest's RAM. share_memory() shares it: send
    // the file descriptors with the bytes that share_memory() passes to Host::link_write(). The
    // memory must stay mapped as long as the rings.
    [[nodiscard]] bool wants_memory(unsigned port);
    void share_memory(unsigned port, const PeerCopyMemory& memory);

  private:
    HcaPort* find(unsigned port) { return engine_.objects().ports.find(port); }

    Engine& engine_;
    DeviceRecording& recording_;
};

}  // namespace pib::hca
