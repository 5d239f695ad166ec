// SPDX-License-Identifier: GPL-2.0-or-later
// The attributes of a port (PortInfo, P_Key table, GUIDs): in the form that packet processing
// needs, and the effects of changes on the link, the driver and the transport.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ib/mgmt/vl_arbiter.h"
#include "port/port_context.h"
#include "port/port_endpoint.h"

namespace pib::hca {

// The attributes that packet processing needs.
struct PortView {
    bool link_up = false;   // Initialize, Armed or Active
    bool receives = false;  // Armed or Active
    bool active = false;
    uint8_t lmc = 0;
    uint16_t lid = 0;
    uint32_t mtu_bytes = 256;
    uint8_t data_vls = 1;
    uint32_t slower_rates = 0;  // static rates below the link's rate, one bit per code
    ib::SlToVl sl_to_vl{};
    std::vector<ib::Gid> gids;

    [[nodiscard]] bool owns_lid(uint16_t dlid) const {
        return lid != 0 && ib::Lid(dlid).is_unicast() && dlid >> lmc == lid >> lmc;
    }
    // A GID of the table, or the default prefix with a GUID of the table, which every port accepts
    // as well (IBA 4.1.1).
    [[nodiscard]] bool owns_gid(const ib::Gid& dgid) const {
        const bool by_default = dgid.subnet_prefix() == ib::kDefaultGidPrefix;
        return std::ranges::any_of(gids, [&](const ib::Gid& gid) {
            return !gid.is_zero() && (gid == dgid || (by_default && gid.guid() == dgid.guid()));
        });
    }
    [[nodiscard]] bool is_slower_than_link(uint8_t static_rate) const {
        return (slower_rates >> (static_rate & 31) & 1) != 0;
    }
};

class PortAttributes {
  public:
    PortAttributes(PortContext& port, PortEndpoint& link);

    const PortView& view() const { return view_; }
    // Updates view() from the attributes and restarts VL arbitration.
    void refresh();
    ib::VlArbiter& arbiter() { return arbiter_; }

    // After a change by the SM or by a command: raises events, retrains the link if the SM asks for
    // it, and updates cached attributes.
    void apply(ib::PortEvents events);
    // Sends the link parameters of the attributes to the peer, unless the link is up and the port
    // wants it to stay up.
    void sync_parameters();
    link::Hello hello(bool can_share) const;

    uint16_t pkey(unsigned index) const;
    unsigned pkey_count() const;
    const uint8_t* gid(unsigned index) const;
    // Count a violation and send a trap (257, 258).
    void pkey_violation(const ib::PacketView& packet);
    void qkey_violation(const ib::PacketView& packet);

  private:
    void tell(ib::PortEvents events);

    PortContext& port_;
    PortEndpoint& link_;
    PortView view_;
    ib::VlArbiter arbiter_;
};

}  // namespace pib::hca
