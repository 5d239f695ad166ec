// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/port_attributes.h"

#include "base/event.h"
#include "ib/mgmt/link_rate.h"
#include "ib/mgmt/traps.h"

namespace pib::hca {

namespace {

// Flags of the port event for the driver. tell() adds the flags for leaving and entering Active,
// which depend on the former state.
struct EventFlag {
    ib::PortEvent event;
    uint32_t flag;
};
constexpr EventFlag kEventFlags[] = {
    {ib::PortEvent::kLidChange, port_event::kLidChange},
    {ib::PortEvent::kSmChange, port_event::kSmChange},
    {ib::PortEvent::kClientReregister, port_event::kClientReregister},
    {ib::PortEvent::kPKeyChange, port_event::kPkeyChange},
    {ib::PortEvent::kGidChange, port_event::kGidChange},
};

uint32_t event_flags(ib::PortEvents events) {
    uint32_t flags = 0;
    for (const EventFlag& row : kEventFlags) {
        flags |= events.has(row.event) ? row.flag : 0;
    }
    return flags;
}

uint32_t slower_rates(uint32_t link_mbps) {
    uint32_t mask = 0;
    for (uint8_t code = 0; code <= ib::kMaxRateCode; ++code) {
        const uint32_t mbps = ib::data_mbps(code);
        mask |= mbps != 0 && mbps < link_mbps ? 1u << code : 0;
    }
    return mask;
}

ib::KeyViolation key_violation(const ib::PacketView& packet, uint32_t key) {
    const auto deth = packet.deth();
    ib::KeyViolation violation{.key = key,
                               .sl = packet.lrh().sl,
                               .slid = packet.lrh().slid,
                               .dlid = packet.lrh().dlid,
                               .src_qp = deth ? deth->src_qp : ib::Qpn{},
                               .dest_qp = packet.bth().dest_qp};
    if (packet.grh()) {
        violation.sgid = packet.grh()->sgid;
        violation.dgid = packet.grh()->dgid;
    }
    return violation;
}

}  // namespace

PortAttributes::PortAttributes(PortContext& port, PortEndpoint& link)
    : port_(port), link_(link), arbiter_(port.attrs()) {
    refresh();
}

void PortAttributes::refresh() {
    const ib::PortAttrs& port = port_.attrs();
    view_.link_up = port.link_is_up();
    view_.receives = port.may_receive_data();
    view_.active = port.may_send_data();
    view_.lid = port.lid().value();
    view_.lmc = port.lmc();
    view_.mtu_bytes = ib::mtu_bytes(port.neighbor_mtu());
    view_.data_vls = port.data_vls();
    view_.sl_to_vl = port.sl_to_vl[0];
    arbiter_.restart();
    view_.slower_rates = slower_rates(ib::active_data_mbps(port));
    view_.gids.resize(port.guids.size());
    for (size_t i = 0; i < port.guids.size(); ++i) {
        const bool empty = port.guids[i] == ib::Guid{};
        view_.gids[i] = empty ? ib::Gid{} : ib::Gid::from(port.gid_prefix(), port.guids[i]);
    }
}

void PortAttributes::apply(ib::PortEvents events) {
    if (!events.any()) {
        return;
    }
    tell(events);
    // retrain() is last: it may take the link down and up, and each of the two calls apply() again.
    if (events.has(ib::PortEvent::kDownRequest)) {
        link_.retrain(ib::link_parameters(port_.attrs()));
    }
}

void PortAttributes::tell(ib::PortEvents events) {
    const bool was_active = view_.active;
    refresh();
    uint32_t flags = event_flags(events);
    if (was_active != view_.active) {
        flags |= view_.active ? port_event::kActive : port_event::kError;
    }
    if (flags != 0) {
        port_.eqs.async_event(Event::kPort, 0, flags, port_.number8());
    }
    const bool addresses = events.has(ib::PortEvent::kLidChange) ||
                           events.has(ib::PortEvent::kPKeyChange) ||
                           events.has(ib::PortEvent::kGidChange);
    if (addresses && port_.client != nullptr) {
        port_.client->port_changed(port_.number);
    }
    // Wakes QPs that wait for credits of a link that has gone down; run() resumes them.
    port_.host.wake();
}

// Changed widths and speeds take effect when the link trains the next time (IBA 14.2.5.6). A port
// that has entered Sleep when its link went down (LinkDownDefaultState) tells the peer that it no
// longer wants the link.
void PortAttributes::sync_parameters() {
    if (!link_.is_up() || !ib::port_wants_link(port_.attrs())) {
        link_.set_parameters(ib::link_parameters(port_.attrs()));
    }
}

link::Hello PortAttributes::hello(bool can_share) const {
    const uint32_t bursts = port_.sma.config().bursts ? link::kFeatureBursts : 0;
    const uint32_t peer_copy =
        bursts != 0 && port_.peer_copy != nullptr ? link::kFeaturePeerCopy : 0;
    return {.features = can_share ? link::kFeatureSharedMemory | bursts | peer_copy : 0,
            .role = link::Role::kChannelAdapter,
            .port_number = port_.number8(),
            .node_guid = port_.sma.node().node_guid,
            .port_guid = port_.attrs().guid(),
            // The user sets this name, not the guest; the switch shows it.
            .node_description = port_.sma.config().node_description};
}

uint16_t PortAttributes::pkey(unsigned index) const {
    const auto& pkeys = port_.attrs().pkeys;
    return index < pkeys.size() ? pkeys[index].value() : 0;
}

unsigned PortAttributes::pkey_count() const {
    return static_cast<unsigned>(port_.attrs().pkeys.size());
}

const uint8_t* PortAttributes::gid(unsigned index) const {
    const bool used = index < view_.gids.size() && !view_.gids[index].is_zero();
    return used ? view_.gids[index].bytes.data() : nullptr;
}

void PortAttributes::pkey_violation(const ib::PacketView& packet) {
    ib::count_violation(port_.attrs(), ib::port_info::kPKeyViolations);
    const auto violation = key_violation(packet, packet.bth().pkey.value());
    port_.attrs().traps.add(ib::bad_p_key_notice(violation), port_.host.now_ns());
}

void PortAttributes::qkey_violation(const ib::PacketView& packet) {
    ib::count_violation(port_.attrs(), ib::port_info::kQKeyViolations);
    const auto deth = packet.deth();
    const auto violation = key_violation(packet, deth ? deth->qkey.value() : 0);
    port_.attrs().traps.add(ib::bad_q_key_notice(violation), port_.host.now_ns());
}

}  // namespace pib::hca
