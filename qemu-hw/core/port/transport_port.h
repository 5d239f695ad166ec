// SPDX-License-Identifier: GPL-2.0-or-later
// The functions of a port that the transport calls (Port); the parts of the port implement them.
#pragma once

#include "port/egress.h"
#include "port/port.h"
#include "port/port_attributes.h"
#include "port/port_mads.h"

namespace pib::hca {

class TransportPort : public Port {
  public:
    TransportPort(PortAttributes& attributes, Egress& egress, PortMads& mads)
        : attributes_(attributes), egress_(egress), mads_(mads) {}

    link::BurstRoom begin(const TxRequest& request) final { return egress_.begin(request); }
    void commit(const ib::BurstSize& size, const link::OfferedPayload& offered) final {
        egress_.commit(size, offered);
    }
    unsigned lane(const TxRequest& request) const final { return egress_.lane(request); }
    VlGrant arbitrate(ib::VlMask ready) final { return egress_.arbitrate(ready); }
    void end_grant() final { egress_.end_grant(); }

    [[nodiscard]] bool is_active() const final { return attributes_.view().active; }
    uint16_t lid() const final { return attributes_.view().lid; }
    uint8_t lmc() const final { return attributes_.view().lmc; }
    [[nodiscard]] bool owns_lid(uint16_t dlid) const final {
        return attributes_.view().owns_lid(dlid);
    }
    uint32_t mtu_bytes() const final { return attributes_.view().mtu_bytes; }
    uint16_t pkey(unsigned index) const final { return attributes_.pkey(index); }
    unsigned pkey_count() const final { return attributes_.pkey_count(); }
    const uint8_t* gid(unsigned index) const final { return attributes_.gid(index); }
    void pkey_violation(const ib::PacketView& packet) final { attributes_.pkey_violation(packet); }
    void qkey_violation(const ib::PacketView& packet) final { attributes_.qkey_violation(packet); }
    void mad_dropped(bool vl15) final { mads_.dropped(vl15); }

  private:
    PortAttributes& attributes_;
    Egress& egress_;
    PortMads& mads_;
};

}  // namespace pib::hca
