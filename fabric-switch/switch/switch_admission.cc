// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/switch_admission.h"

#include <utility>

namespace pib::fabric {
namespace {

// External ports of a switch have no GUID of their own, so port numbers distinguish them.
bool same_port(const link::Hello& one, const link::Hello& other) {
    const bool of_switch = one.role == link::Role::kSwitch;
    return one.role == other.role && one.port_guid == other.port_guid &&
           (!of_switch || one.port_number == other.port_number);
}

// The refusal of an adapter with a GUID of the switch at port `number`, or of a switch with a GUID
// of the adapter there.
link::Refuse guid_of_neighbour(const link::Hello& neighbour, unsigned number) {
    const bool of_switch = neighbour.role == link::Role::kSwitch;
    return {link::RefuseReason::kNotAllowed,
            "GUID belongs to the " + std::string(of_switch ? "switch" : "device") + " at port " +
                std::to_string(number) + ": give this " +
                (of_switch ? "device another GUID" : "switch another --guid")};
}

}  // namespace

const link::Hello* SwitchAdmission::neighbour(unsigned number) const {
    const auto& hello = neighbours_[number - 1].hello;
    return hello.node_guid == ib::Guid{} ? nullptr : &hello;
}

unsigned SwitchAdmission::port_of_other_role(const link::Hello& hello) const {
    for (unsigned number = config_.num_ports; number >= 1; --number) {
        const auto* who = neighbour(number);
        if (who != nullptr && who->role != hello.role &&
            (is_reserved(number) || is_attached(number)) && share_a_guid(*who, hello)) {
            return number;
        }
    }
    return 0;
}

void SwitchAdmission::set_neighbour(unsigned number, const link::Hello& hello,
                                    const std::string& owner) {
    neighbours_[number - 1] = {hello, owner};
}

link::LinkEndpoint::Buffers SwitchAdmission::link_buffers() const {
    link::LinkEndpoint::Buffers buffers;
    for (unsigned vl = 0; vl < link::data_vls(config_.vl_cap); ++vl) {
        buffers.receive_blocks[vl] = config_.receive_blocks;
    }
    return buffers;
}

Admission::Place SwitchAdmission::place(unsigned number) const {
    return {.port = ports_[number - 1].get(),
            .node_guid = config_.node_guid,
            .number = static_cast<uint8_t>(number),
            .name = "port " + std::to_string(number)};
}

std::expected<Admission::Place, link::Refuse> SwitchAdmission::admit(const link::Hello& hello,
                                                                     const Peer& peer) {
    using enum link::RefuseReason;
    if (hello.node_guid == config_.node_guid || hello.port_guid == config_.node_guid) {
        return std::unexpected(link::Refuse{
            kDuplicatePortGuid,
            "this switch has the same GUID: give one of them another GUID (a switch: --guid)"});
    }
    if (const unsigned number = port_of_other_role(hello)) {
        return std::unexpected(guid_of_neighbour(*neighbour(number), number));
    }
    // The lowest port that the peer had before (`known`), that no peer has had (`unused`), and that
    // has no link and no other owner (`vacant`); 0: none.
    unsigned known = 0, unused = 0, vacant = 0;
    for (unsigned number = config_.num_ports; number >= 1; --number) {
        if (is_reserved(number)) {
            continue;
        }
        const auto* who = neighbour(number);
        const bool owned = !owner(number).empty() && owner(number) != peer.name;
        if (who != nullptr && owned && share_a_guid(*who, hello)) {
            return std::unexpected(
                owned_by_another("GUID of port " + std::to_string(number), owner(number)));
        }
        if (who != nullptr && same_port(*who, hello)) {
            known = number;
        }
        vacant = is_attached(number) || owned ? vacant : number;
        unused = who == nullptr ? number : unused;
    }
    if (known != 0 && is_attached(known)) {
        return std::unexpected(link::Refuse{
            kDuplicatePortGuid, "port GUID is connected to port " + std::to_string(known) +
                                    " already: give each device its own GUID"});
    }
    const unsigned number = known != 0 ? known : unused != 0 ? unused : vacant;
    if (number == 0) {
        return std::unexpected(
            link::Refuse{kNoFreePort, "all " + std::to_string(config_.num_ports) +
                                          " ports are taken: start pib-switch with --ports"});
    }
    set_neighbour(number, hello, peer.name);
    return place(number);
}

}  // namespace pib::fabric
