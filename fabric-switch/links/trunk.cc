// SPDX-License-Identifier: GPL-2.0-or-later
// See trunk.h. Both sides check the peer's identity against their own topology file.
#include "links/trunk.h"

namespace pib::fabric {
namespace {

using link::Refuse;
using link::RefuseReason;

}  // namespace

std::string Trunk::name() const {
    return near_.config().description + " port " + std::to_string(port_);
}

Admission::Place Trunk::place() const {
    Admission::Place place = near_.admission().place(port_);
    place.name = name();
    return place;
}

link::Hello Trunk::hello() const {
    // External ports of a switch have no GUID; they use the node's, as port 0 does (IBA 4.1.1).
    return {.features = 0,
            .role = link::Role::kSwitch,
            .port_number = port_,
            .node_guid = near_.config().node_guid,
            .port_guid = near_.config().node_guid,
            .node_description = near_.config().description};
}

std::expected<Admission::Place, std::string> Trunk::welcomed(const link::Welcome& welcome) {
    if (welcome.switch_guid == near_.config().node_guid) {
        return std::unexpected(
            "a switch with the same GUID answers: give one of them a different --guid");
    }
    const bool expected_guid = far_.guid == ib::Guid{} || far_.guid == welcome.switch_guid;
    const bool expected_port = far_.port == 0 || far_.port == welcome.port_number;
    if (!expected_guid || !expected_port) {
        return std::unexpected("port " + std::to_string(welcome.port_number) + " of switch " +
                               to_text(welcome.switch_guid) + " answers instead of port " +
                               std::to_string(far_.port) + " of \"" + far_.id +
                               "\": do both processes have the same topology file?");
    }
    if (far_.guid == ib::Guid{}) {
        const link::Hello far{.features = 0,
                              .role = link::Role::kSwitch,
                              .port_number = welcome.port_number,
                              .node_guid = welcome.switch_guid,
                              .port_guid = welcome.switch_guid,
                              .node_description = {}};
        if (const unsigned number = near_.admission().port_of_other_role(far)) {
            return std::unexpected("the device at port " + std::to_string(number) +
                                   " has the GUID of the switch that answers: give one of them "
                                   "another GUID");
        }
        near_.admission().set_neighbour(port_, far);
    }
    return place();
}

std::expected<Admission::Place, Refuse> Trunk::admit(const link::Hello& hello, const Peer& peer) {
    const std::string what = "the cable to port " + std::to_string(hello.port_number) + " of \"" +
                             hello.node_description + "\" ";
    if (connects_) {
        return std::unexpected(Refuse{RefuseReason::kDuplicatePortGuid,
                                      what + "is connected from this side: only one of the two "
                                             "processes may have --connect for it"});
    }
    if (port().cable().attached()) {
        return std::unexpected(Refuse{RefuseReason::kDuplicatePortGuid,
                                      what + "is connected already: connect each cable once"});
    }
    const std::string& owner = near_.admission().owner(port_);
    if (!owner.empty() && owner != peer.name) {
        return std::unexpected(owned_by_another(what, owner));
    }
    near_.admission().set_neighbour(port_, hello, peer.name);
    return place();
}

}  // namespace pib::fabric
