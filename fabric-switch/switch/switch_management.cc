// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/switch_management.h"

#include <algorithm>

#include "base/mad_packets.h"
#include "ib/wire/field.h"

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;

}  // namespace

// ---- SMPs

void SwitchManagement::receive_smp(uint8_t ingress, Transit& packet) {
    const ib::Lrh& lrh = packet.lrh();
    const bool to_port0 = lrh.dlid.is_permissive() || parts_.node.port0().owns_lid(lrh.dlid);
    if (!to_port0) {
        if (lrh.dlid.is_unicast()) {
            (void)parts_.relay.forward_unicast(ingress, packet);
        }
        return;
    }
    const auto view = ib::PacketView::parse(packet.bytes(), ib::Crcs::kElided);
    auto smp = view ? mad_of(*view, ib::kQp0) : std::nullopt;
    if (!smp) {
        return;
    }
    if (smp->is_directed_route()) {
        // An SMP that was LID-routed to this switch starts its directed part at port 0.
        directed_route(*smp, lrh.dlid.is_permissive() ? ingress : uint8_t{0}, lrh);
    } else {
        answer_smp(*smp, ingress, lrh);
    }
}

void SwitchManagement::directed_route(ib::Mad& smp, uint8_t ingress, const ib::Lrh& lrh) {
    const ib::SmiNode self{ib::NodeType::kSwitch, num_ports()};
    const auto decision = ib::smi_receive(smp, self, ingress);
    if (decision.action == ib::SmiAction::kLocal) {
        answer_smp(smp, ingress, lrh);
    } else {
        follow(decision, smp);
    }
}

void SwitchManagement::follow(const ib::SmiDecision& decision, const ib::Mad& smp) {
    switch (decision.action) {
        case ib::SmiAction::kPort:
            send_smp(smp, ib::kPermissiveLid, ib::Sl{}, decision.port);
            break;
        case ib::SmiAction::kLid:
            send_smp(smp, decision.dlid, ib::Sl{}, 0);
            break;
        case ib::SmiAction::kLocal:
        case ib::SmiAction::kDiscard:
            break;  // kLocal: a response to an SM at this switch, which has none
    }
}

void SwitchManagement::answer_smp(const ib::Mad& smp, uint8_t ingress, const ib::Lrh& lrh) {
    const ib::SmpArrival arrival{.port = ingress, .slid = lrh.slid, .now_ns = parts_.clock.now_ns};
    ib::SmaAnswer answer = ib::sma_answer(parts_.node, switch_attributes(), smp, arrival);
    if (answer.disposition != ib::SmaDisposition::kReply) {
        return;
    }
    ++parts_.node.smps_answered;
    if (answer.reply.is_directed_route()) {
        const ib::SmiNode self{ib::NodeType::kSwitch, num_ports()};
        follow(ib::smi_send(answer.reply, self, 0, lrh.slid), answer.reply);
    } else {
        // A requester without a LID gets the answer over the link on which its request arrived.
        const bool no_lid = !lrh.slid.is_unicast();
        send_smp(answer.reply, no_lid ? ib::kPermissiveLid : lrh.slid, lrh.sl,
                 no_lid ? ingress : uint8_t{0});
    }
    if (smp.method() == ib::Method::kSet) {
        apply(answer);
    }
}

// Ports act on the changes of a Set after its answer has been sent.
void SwitchManagement::apply(const ib::SmaAnswer& answer) {
    const uint64_t lifetime = lifetime_ns(parts_.node.get(si::kLifeTimeValue));
    for (const auto& port : parts_.ports) {
        port->queues().set_packet_lifetime(lifetime);
    }
    if (answer.port >= 1 && answer.port <= num_ports() && answer.events.any()) {
        port(answer.port).attributes_changed(answer.events);
    }
}

// Sends an SMP from QP0 through `out_port`; 0: through the port that the LFT has for `dlid`.
void SwitchManagement::send_smp(const ib::Mad& smp, ib::Lid dlid, ib::Sl sl, uint8_t out_port) {
    const ib::Lid slid = dlid.is_permissive() ? ib::kPermissiveLid : parts_.node.port0().lid();
    const MadPacket made(smp_headers(dlid, slid, sl, ib::Psn(next_psn_++)), smp);
    const auto packet = made.bytes();
    if (out_port == 0) {
        originate(packet);
        return;
    }
    show(packet);
    Transit transit(parts_.pool, packet);
    (void)port(out_port).send(transit, link::kVl15);
}

void SwitchManagement::originate(std::span<const uint8_t> packet) {
    if (packet.empty()) {
        return;
    }
    show(packet);
    Transit transit(parts_.pool, packet);
    parts_.counters[0].count_sent(transit.lrh());
    if (parts_.relay.forward(0, transit) == PacketRelay::Outcome::kLocal) {
        receive_gmp(transit);
    }
}

// ---- events and time

void SwitchManagement::link_state_changed() {
    parts_.node.set(si::kPortStateChange, 1);
    ib::PortAttrs& port0 = parts_.node.port0();
    port0.traps.add(ib::link_state_notice(port0.lid()), parts_.clock.now_ns);
}

void SwitchManagement::link_error(ib::LinkError error, uint8_t at) {
    ib::tell_link_error(error, at, parts_.node.port0(), parts_.clock.now_ns);
}

void SwitchManagement::advance(uint64_t now_ns) {
    if (sampling_.deadline_ns()) {
        ib::pma_advance(pma_node(), now_ns);
    }
    ib::PortAttrs& port0 = parts_.node.port0();
    while (const auto trap = ib::next_trap(parts_.node, port0, parts_.clock.now_ns)) {
        send_smp(*trap, port0.sm_lid(), port0.sm_sl(), 0);
    }
}

uint64_t SwitchManagement::next_deadline() const {
    constexpr uint64_t kNever = UINT64_MAX;
    const uint64_t trap = ib::next_trap_ns(parts_.node.port0()).value_or(kNever);
    return std::min(trap, sampling_.deadline_ns().value_or(kNever));
}

void SwitchManagement::show(std::span<const uint8_t> packet) const {
    if (tap_ != nullptr) {
        tap_->packet_seen(packet, {.now_ns = parts_.clock.now_ns,
                                   .lid = parts_.node.port0().lid().value(),
                                   .port = 0,
                                   .credits = std::nullopt});
    }
}

ib::PmaNode SwitchManagement::pma_node() {
    for (const auto& port : parts_.ports) {
        port->queues().count_wait();
    }
    return {
        .ports = parts_.counters, .sampling = sampling_, .first_port = 0, .all_port_select = true};
}

// ---- general management: the PMA answers, other classes have no agent here

void SwitchManagement::receive_gmp(const Transit& packet) {
    const auto request = ib::PacketView::parse(packet.bytes(), ib::Crcs::kElided);
    if (!request) {
        return;
    }
    parts_.counters[0].count_received(request->lrh());
    ib::PortAttrs& port0 = parts_.node.port0();
    const auto mad = gmp_of(*request, port0, parts_.clock.now_ns);
    if (!mad || mad->mgmt_class() != ib::MgmtClass::kPerf) {
        return;
    }
    const auto reply = ib::pma_answer(pma_node(), *mad, parts_.clock.now_ns);
    if (!reply) {
        return;
    }
    const MadPacket made(gmp_reply_headers(*request, port0, ib::Psn(next_psn_++)), *reply);
    originate(made.bytes());
}

}  // namespace pib::fabric
