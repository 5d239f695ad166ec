// SPDX-License-Identifier: GPL-2.0-or-later
// Port 0: directed-route SMPs on their way, requests to the SMA and the PMA, traps.
#include <algorithm>

#include "base/mad_packets.h"
#include "ib/wire/field.h"
#include "switch/switch.h"

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;

}  // namespace

ib::PmaNode Switch::pma_node() {
    return {.ports = counters_, .sampling = sampling_, .first_port = 0, .all_port_select = true};
}

// ---- SMPs

void Switch::smp_arrived(std::uint8_t ingress, Transit& packet) {
    const ib::Lrh& lrh = packet.lrh();
    const bool to_port0 = lrh.dlid.is_permissive() || node_.port0().owns_lid(lrh.dlid);
    if (!to_port0) {
        if (lrh.dlid.is_unicast()) {
            (void)forward_unicast(ingress, packet);
        }
        return;
    }
    const auto view = ib::PacketView::parse(packet.bytes(), lrh);
    auto smp = view ? mad_of(*view, ib::kQp0) : std::nullopt;
    if (!smp) {
        return;
    }
    if (smp->is_directed_route()) {
        // One that was LID-routed to this switch starts its directed part from port 0.
        directed_route(*smp, lrh.dlid.is_permissive() ? ingress : std::uint8_t{0}, lrh);
    } else {
        answer_smp(*smp, ingress, lrh);
    }
}

void Switch::directed_route(ib::Mad& smp, std::uint8_t ingress, const ib::Lrh& lrh) {
    const ib::SmiNode self{ib::NodeType::kSwitch, num_ports()};
    const auto decision = ib::smi_receive(smp, self, ingress);
    if (decision.action == ib::SmiAction::kLocal) {
        answer_smp(smp, ingress, lrh);
    } else {
        follow(decision, smp);
    }
}

void Switch::follow(const ib::SmiDecision& decision, const ib::Mad& smp) {
    switch (decision.action) {
        case ib::SmiAction::kPort:
            send_smp(smp, ib::kPermissiveLid, ib::Sl{}, decision.port);
            break;
        case ib::SmiAction::kLid:
            send_smp(smp, decision.dlid, ib::Sl{}, 0);
            break;
        case ib::SmiAction::kLocal:
        case ib::SmiAction::kDiscard:
            break;  // an answer to oneself: there is no SM in a switch
    }
}

void Switch::answer_smp(const ib::Mad& smp, std::uint8_t ingress, const ib::Lrh& lrh) {
    const ib::SmpArrival arrival{.port = ingress, .slid = lrh.slid, .now_ns = now_ns()};
    ib::SmaAnswer answer = ib::sma_answer(node_, switch_attributes(), smp, arrival);
    if (answer.disposition != ib::SmaDisposition::kReply) {
        return;
    }
    if (answer.reply.is_directed_route()) {
        const ib::SmiNode self{ib::NodeType::kSwitch, num_ports()};
        follow(ib::smi_send(answer.reply, self, 0, lrh.slid), answer.reply);
    } else {
        // A requester without a LID gets the answer over the link of its request.
        const bool no_lid = !lrh.slid.is_unicast();
        send_smp(answer.reply, no_lid ? ib::kPermissiveLid : lrh.slid, lrh.sl,
                 no_lid ? ingress : std::uint8_t{0});
    }
    if (smp.method() == ib::Method::kSet) {
        apply(answer);
    }
}

// Changes by a Set take effect after its answer has been sent.
void Switch::apply(const ib::SmaAnswer& answer) {
    const std::uint64_t lifetime = lifetime_ns(node_.get(si::kLifeTimeValue));
    for (const auto& port : ports_) {
        port->set_packet_lifetime(lifetime);
    }
    if (answer.port >= 1 && answer.port <= num_ports() && answer.events.any()) {
        port(answer.port).attributes_changed(answer.events);
    }
}

// Sends from QP0; `out_port` 0: by the LFT.
void Switch::send_smp(const ib::Mad& smp, ib::Lid dlid, ib::Sl sl, std::uint8_t out_port) {
    const ib::Lid slid = dlid.is_permissive() ? ib::kPermissiveLid : node_.port0().lid();
    const MadPacket made(smp_headers(dlid, slid, sl, ib::Psn(next_psn_++)), smp);
    const auto packet = made.bytes();
    if (out_port == 0) {
        originate(packet);
        return;
    }
    if (tap_ != nullptr) {
        tap_->packet_seen(packet, now_ns());
    }
    Transit transit(pool_, packet);
    (void)port(out_port).send(transit, link::kVl15);
}

void Switch::originate(std::span<const std::uint8_t> packet) {
    if (packet.empty()) {
        return;
    }
    if (tap_ != nullptr) {
        tap_->packet_seen(packet, now_ns());
    }
    Transit transit(pool_, packet);
    counters_[0].count_sent(transit.lrh());
    (void)forward(0, transit);
}

void Switch::send_traps() {
    ib::Port& port0 = node_.port0();
    while (const auto trap = ib::next_trap(node_, port0, now_ns())) {
        send_smp(*trap, port0.sm_lid(), port0.sm_sl(), 0);
    }
}

// ---- general management: the PMA answers, other classes have no agent here

void Switch::gmp_arrived(const ib::PacketView& request) {
    const ib::Lrh& lrh = request.lrh();
    counters_[0].count_received(lrh);
    ib::Port& port0 = node_.port0();
    const auto mad = gmp_of(request, port0);
    if (!mad || mad->mgmt_class() != ib::MgmtClass::kPerf) {
        return;
    }
    const auto reply = ib::pma_answer(pma_node(), *mad, now_ns());
    if (!reply) {
        return;
    }
    const MadPacket packet(gmp_reply_headers(request, port0, ib::Psn(next_psn_++)), *reply);
    originate(packet.bytes());
}

}  // namespace pib::fabric
