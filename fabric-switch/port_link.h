// SPDX-License-Identifier: GPL-2.0-or-later
// How a switch port reaches its neighbour: a connection to an HCA, to another process, or a port of
// another switch in this one. What the neighbour does comes back as calls of SwitchPort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/link/link_endpoint.h"

namespace pib::fabric {

class PortLink {
  public:
    virtual ~PortLink() = default;
    // Room for one packet, or an empty span: no credit or no room; see
    // LinkEndpoint::begin_packet().
    virtual std::span<std::uint8_t> begin_packet(unsigned vl, std::size_t bytes,
                                                 link::SendCrc crc) = 0;
    virtual void commit_packet() = 0;
    [[nodiscard]] virtual bool can_send(unsigned vl, std::size_t bytes,
                                        link::SendCrc crc) const = 0;
    // Receive buffer of packets that came in over this link is free again.
    virtual void release(unsigned vl, std::uint32_t blocks) = 0;
    // This port's side of the link; retrain() sends the same once more, through Down.
    virtual void set_offer(const ib::link::Link& offer) = 0;
    virtual void retrain() = 0;
};

}  // namespace pib::fabric
