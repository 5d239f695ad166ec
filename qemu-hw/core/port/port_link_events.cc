// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/port_link_events.h"

namespace pib::hca {

void PortLinkEvents::link_up(const link::ActiveLink& link) {
    port_.ingress.link_up();
    port_.attributes.apply(
        ib::port_link_up(port_.context.attrs(), link.width, link.speed, link.speed_ext));
}

void PortLinkEvents::link_down() {
    const ib::PortEvents events = ib::port_link_down(port_.context.attrs());
    if (events.any()) {  // otherwise the port itself took the link down
        port_.context.pma_counters().add(ib::Counter::kLinkDowned);
    }
    port_.attributes.apply(events);
}

void PortLinkEvents::link_gone() {
    port_.egress.link_gone();
    port_.copies.gone();
}

}  // namespace pib::hca
