// SPDX-License-Identifier: GPL-2.0-or-later
// The port's state: link, events, reset. Packets are in port_transmit.cc and port_receive.cc.
#include "port/hca_port.h"

#include "ib/mgmt/link_rate.h"

namespace pib::hca {

namespace {

constexpr unsigned kLoopedPerRun = 64;

// Port events of subnet management and what the driver is told of them; leaving and entering Active
// depends on the state before and is not here.
struct EventFlag {
    ib::PortEvent event;
    uint32_t flag;
};
constexpr EventFlag kEventFlags[] = {
    {ib::PortEvent::kLidChange, PIB_HCA_PORT_EVENT_LID_CHANGE},
    {ib::PortEvent::kSmChange, PIB_HCA_PORT_EVENT_SM_CHANGE},
    {ib::PortEvent::kClientReregister, PIB_HCA_PORT_EVENT_CLIENT_REREGISTER},
    {ib::PortEvent::kPKeyChange, PIB_HCA_PORT_EVENT_PKEY_CHANGE},
    {ib::PortEvent::kGidChange, PIB_HCA_PORT_EVENT_GID_CHANGE},
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

HcaPort::HcaPort(unsigned number, const PortParts& parts)
    : number_(number),
      parts_(parts),
      link_(parts.host, number, *this),
      arbiter_(parts.sma.port(number)) {
    if (parts.one_copy != nullptr) {
        parts.one_copy->set_link(number, *this);
    }
    refresh();
}

// ---- the device's entry points

void HcaPort::link_connected(bool can_share) {
    link_.connected(hello(can_share), ib::link_offer(attrs()));
}

void HcaPort::link_rx(std::span<const uint8_t> bytes) {
    link_.received(bytes);
    sync_offer();
    resume();
}

bool HcaPort::link_poll() {
    const bool more = link_.poll();
    sync_offer();
    resume();
    return more;
}

// The pages that are registered by now are marked before the switch hears of the memory.
void HcaPort::link_memory(const OneCopyMemory& memory) {
    std::vector<uint64_t> blocks;
    for (const RamBlock& block : memory.blocks) {
        blocks.push_back(block.bytes);
    }
    parts_.one_copy->attach(number_, memory);
    link_.share_memory(memory.control, blocks);
}

void HcaPort::link_gone() {
    // Between begin() and commit(), when a completion has closed the link.
    if (out_.route == Route::kLink) {
        out_ = {};
    }
    if (parts_.one_copy != nullptr) {
        parts_.one_copy->detach(number_);
    }
}

void HcaPort::link_writable() {
    link_.writable();
    resume();
}

void HcaPort::link_closed() {
    link_.closed();
    resume();
}

bool HcaPort::run() {
    for (unsigned i = 0; i < kLoopedPerRun && !loopback_.empty(); ++i) {
        const auto bytes = loopback_.front();
        if (const auto lrh = ib::parse_lrh(bytes, ib::Crcs::kElided)) {
            ib::Burst packet(*lrh, bytes);
            ib::Placement here;
            (void)receive(packet, here, true);
        }
        loopback_.pop();
    }
    resume();
    return !loopback_.empty();
}

void HcaPort::reset(bool cold) {
    loopback_.clear();
    queued_mads_.clear();
    waiting_ = {};
    wants_room_ = 0;
    pacer_.clear();
    paced_until_ns_ = kNever;
    out_ = {};
    if (!cold) {
        ib::port_link_down(attrs());
    }
    refresh();
    link_.retrain(ib::link_offer(attrs()));
}

// ---- state

void HcaPort::refresh() {
    const ib::Port& port = attrs();
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

void HcaPort::apply(ib::PortEvents events) {
    if (!events.any()) {
        return;
    }
    tell_client(events);
    // Last, because a link that goes down and up again comes back here.
    if (events.has(ib::PortEvent::kDownRequest)) {
        link_.retrain(ib::link_offer(attrs()));
    }
}

void HcaPort::tell_client(ib::PortEvents events) {
    const bool was_active = view_.active;
    refresh();
    uint32_t flags = event_flags(events);
    if (was_active != view_.active) {
        flags |= view_.active ? PIB_HCA_PORT_EVENT_ACTIVE : PIB_HCA_PORT_EVENT_ERROR;
    }
    if (flags != 0) {
        parts_.eqs.async_event(PIB_HCA_EVENT_PORT, 0, flags, static_cast<uint8_t>(number_));
    }
    const bool addresses = events.has(ib::PortEvent::kLidChange) ||
                           events.has(ib::PortEvent::kPKeyChange) ||
                           events.has(ib::PortEvent::kGidChange);
    if (addresses && client_ != nullptr) {
        client_->port_changed(number_);
    }
    // Whoever waits for credits of a link that is no more has to hear of it, in run().
    parts_.host.wake();
}

ib::link::Hello HcaPort::hello(bool can_share) const {
    const uint32_t runs = parts_.sma.config().runs ? ib::link::kFeatureRuns : 0;
    const uint32_t one_copy =
        runs != 0 && parts_.one_copy != nullptr ? ib::link::kFeatureOneCopy : 0;
    return {.features = can_share ? ib::link::kFeatureSharedMemory | runs | one_copy : 0,
            .role = ib::link::Role::kChannelAdapter,
            .port_number = static_cast<uint8_t>(number_),
            .node_guid = parts_.sma.node().node_guid,
            .port_guid = attrs().guid(),
            // The user's, not the guest's: it is a name for people who look at the switch.
            .node_description = parts_.sma.config().node_description};
}

// Enabled widths and speeds count when the link trains the next time (IBA 14.2.5.6). A port that
// fell asleep with its link (LinkDownDefaultState) does not want it back.
void HcaPort::sync_offer() {
    if (!link_.is_up() || !ib::port_wants_link(attrs())) {
        link_.set_offer(ib::link_offer(attrs()));
    }
}

void HcaPort::link_up(const link::ActiveLink& link) {
    link_errors_ = {};
    apply(ib::port_link_up(attrs(), link.width, link.speed, link.speed_ext));
}

void HcaPort::link_down() {
    const ib::PortEvents events = ib::port_link_down(attrs());
    if (events.any()) {  // else it was this port's own doing
        pma().add(ib::Counter::kLinkDowned);
    }
    apply(events);
}

void HcaPort::timer(uint64_t now_ns) {
    if (paced_until_ns_ <= now_ns) {
        paced_until_ns_ = kNever;
        if (client_ != nullptr) {
            client_->port_ready(number_);
        }
    }
    while (const auto trap = parts_.sma.next_trap(number_, now_ns)) {
        const ib::Port& port = attrs();
        ib::PacketHeaders headers{};
        headers.lrh = {.vl = ib::kVl15,
                       .sl = port.sm_sl(),
                       .lnh = ib::Lnh::kIbaLocal,
                       .dlid = port.sm_lid(),
                       .slid = port.lid()};
        send_mad(headers, *trap, false);
    }
}

// ---- what the transport asks

bool HcaPort::owns_lid(uint16_t dlid) const {
    return view_.lid != 0 && ib::Lid(dlid).is_unicast() &&
           dlid >> view_.lmc == view_.lid >> view_.lmc;
}

uint16_t HcaPort::pkey(unsigned index) const {
    const auto& pkeys = attrs().pkeys;
    return index < pkeys.size() ? pkeys[index].value() : 0;
}

unsigned HcaPort::pkey_count() const {
    return static_cast<unsigned>(attrs().pkeys.size());
}

const uint8_t* HcaPort::gid(unsigned index) const {
    const bool used = index < view_.gids.size() && !view_.gids[index].is_zero();
    return used ? view_.gids[index].bytes.data() : nullptr;
}

void HcaPort::pkey_violation(const ib::PacketView& packet) {
    ib::count_violation(attrs(), ib::port_info::kPKeyViolations);
    const auto violation = key_violation(packet, packet.bth().pkey.value());
    attrs().traps.add(ib::bad_p_key_notice(violation), parts_.host.now_ns());
}

void HcaPort::qkey_violation(const ib::PacketView& packet) {
    ib::count_violation(attrs(), ib::port_info::kQKeyViolations);
    const auto deth = packet.deth();
    const auto violation = key_violation(packet, deth ? deth->qkey.value() : 0);
    attrs().traps.add(ib::bad_q_key_notice(violation), parts_.host.now_ns());
}

void HcaPort::mad_dropped(bool vl15) {
    pma().add(vl15 ? ib::Counter::kVl15Dropped : ib::Counter::kQp1Dropped);
}

}  // namespace pib::hca
