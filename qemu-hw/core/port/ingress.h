// SPDX-License-Identifier: GPL-2.0-or-later
// Received packets of a port: the checks of the link layer, then the port's own MADs, then the
// transport.
#pragma once

#include <cstdint>

#include "ib/mgmt/link_errors.h"
#include "port/port_attributes.h"
#include "port/port_mads.h"

namespace pib::hca {

class Ingress {
  public:
    Ingress(PortContext& port, PortAttributes& attributes, PortMads& mads)
        : port_(port), attributes_(attributes), mads_(mads) {}

    // See link::LinkEvents::link_burst(). `looped`: sent by this port itself, not received from the
    // link.
    uint32_t receive(ib::Burst& burst, ib::Placement& payload, bool looped);
    void fault(link::PacketFault fault);
    void link_up() { link_errors_ = {}; }

  private:
    enum class Admission : uint8_t { kYes, kWakes, kNoVl, kDropped };
    uint32_t take(ib::Burst& burst, ib::Placement& payload, bool looped);
    // Calls take() for a burst of several packets, and records them in the trace.
    uint32_t take_traced(ib::Burst& burst, ib::Placement& payload, bool looped);
    Admission admit(const ib::Lrh& lrh, bool looped) const;
    [[nodiscard]] bool passes_link(const ib::Burst& burst, bool looped);
    [[nodiscard]] bool accepts_dlid(const ib::Lrh& lrh) const;
    [[nodiscard]] bool accepts_address(const ib::PacketView& packet) const;
    [[nodiscard]] bool loses_mad(const ib::Burst& burst);
    uint32_t mad_in(const ib::Burst& packet, ib::Placement& payload, PortMads::Taken taken);
    void count(const ib::Burst& burst, uint32_t packets, bool looped);
    void drop() { port_.count(HcaCounter::kRxDropped); }

    PortContext& port_;
    PortAttributes& attributes_;
    PortMads& mads_;
    ib::LinkErrors link_errors_;
};

}  // namespace pib::hca
