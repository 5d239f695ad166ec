// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy on a port's link: shares guest memory with the switch, and revokes it.
#pragma once

#include "memory/peer_copy.h"
#include "port/port_context.h"
#include "port/port_endpoint.h"

namespace pib::hca {

class CopyLink final : private PeerCopyLink {
  public:
    CopyLink(const PortContext& port, PortEndpoint& link);

    // Whether the switch has agreed to peer copy and has not received the memory yet.
    [[nodiscard]] bool wants_memory() const;
    void share(const PeerCopyMemory& memory);
    // The connection has ended: the switch no longer shares the memory.
    void gone();

  private:
    // ---- PeerCopyLink
    [[nodiscard]] bool pulling() const override;
    void cancel_pull() override;
    void give_up() override;

    const PortContext& port_;
    PortEndpoint& link_;
};

}  // namespace pib::hca
