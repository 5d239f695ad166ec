// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy over the link of a port: hands guest memory to the switch, and takes it back.
#pragma once

#include "memory/one_copy.h"
#include "port/port_context.h"
#include "port/port_link.h"

namespace pib::hca {

class CopyLink final : private OneCopyLink {
  public:
    CopyLink(const PortContext& port, PortLink& link);

    // Whether the switch would take guest memory that it does not have yet.
    bool wants_memory() const;
    void share(const OneCopyMemory& memory);
    bool is_shared() const;
    // The connection has ended, and with it what was shared.
    void gone();

  private:
    // ---- OneCopyLink
    bool pulling() const override;
    void cancel_pull() override;
    void give_up() override;

    const PortContext& port_;
    PortLink& link_;
};

}  // namespace pib::hca
