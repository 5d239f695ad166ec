// SPDX-License-Identifier: GPL-2.0-or-later
// Hands the events of a port's link to the parts of the port.
#pragma once

#include <cstdint>

#include "port/copy_link.h"
#include "port/egress.h"
#include "port/ingress.h"
#include "port/port_attributes.h"
#include "port/port_context.h"
#include "port/port_endpoint.h"

namespace pib::hca {

class PortLinkEvents final : public PortEndpoint::Owner {
  public:
    // The parts of the port.
    struct Parts {
        const PortContext& context;
        PortAttributes& attributes;
        Egress& egress;
        Ingress& ingress;
        CopyLink& copies;
    };

    explicit PortLinkEvents(const Parts& parts) : port_(parts) {}

  private:
    void link_up(const link::ActiveLink& link) override;
    void link_down() override;
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        return port_.ingress.receive(burst, payload, false);
    }
    void link_packet_fault(link::PacketFault fault) override { port_.ingress.fault(fault); }
    uint64_t take_copied() override { return port_.context.client->take_copied(); }
    void link_gone() override;

    const Parts port_;
};

}  // namespace pib::hca
