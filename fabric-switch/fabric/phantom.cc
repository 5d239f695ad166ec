// SPDX-License-Identifier: GPL-2.0-or-later
// See phantom.h. Answers leave at once, or wait for credits in a bounded queue.
#include "fabric/phantom.h"

#include <algorithm>
#include <cstring>

#include "base/mad_packets.h"
#include "ib/mgmt/smi.h"

namespace pib::fabric {
namespace {

using ib::Counter;
using ib::PortEvent;

constexpr uint64_t kNever = UINT64_MAX;
// Maximum number of answers that wait for credits. Further answers are lost, as datagrams may be.
constexpr size_t kMaxWaiting = 64;
constexpr uint16_t kPKeys = 32;
constexpr uint8_t kVlCap = 4;  // 8 data VLs

ib::PortConfig port_config(const PhantomHca::PortConfig& port, uint8_t number) {
    namespace cap = ib::port_cap;
    const uint32_t speeds = port.modes.speed_ext != 0 ? cap::kIsExtendedSpeedsSupported : 0;
    return {.kind = ib::PortKind::kChannelAdapter,
            .port_number = number,
            .guid = port.guid,
            .link_width_supported = port.modes.width,
            .link_speed_supported = port.modes.speed,
            .link_speed_ext_supported = port.modes.speed_ext,
            .mtu_cap = ib::Mtu::k4096,
            .vl_cap = kVlCap,
            .pkey_cap = kPKeys,
            .guid_cap = 8,
            .sl2vl_inputs = 1,
            .capability_mask = cap::kIsTrapSupported | cap::kIsSlMappingSupported |
                               cap::kIsLedInfoSupported | cap::kIsSystemImageGuidSupported | speeds,
            .capability_mask2 = 0};
}

}  // namespace

class PhantomHca::Port final : public LinkUser {
  public:
    Port(PhantomHca& hca, ib::PortAttrs& attrs, ib::PortCounters& counters)
        : attrs(attrs), counters(counters), hca_(hca), cable_(attrs) {}

    void attach(Neighbour& link) override { cable_.attach(link); }
    void detach() override {
        link_down();
        cable_.detach();
    }
    void link_up(const link::ActiveLink& active) override {
        errors_ = {};
        ib::port_link_up(attrs, active.width, active.speed, active.speed_ext);
        hca_.timers_.touch(hca_);
    }
    void link_down() override {
        if (ib::port_link_down(attrs).has(PortEvent::kStateChange)) {
            counters.add(Counter::kLinkDowned);
        }
        waiting_.clear();
        hca_.timers_.touch(hca_);
    }
    void receive_fault(link::PacketFault fault) override {
        if (const auto error = errors_.dropped(fault, attrs, counters, now_ns())) {
            tell(*error);
        }
    }
    void raise(ib::LinkError error) {
        ib::count_link_error(error, counters);
        tell(error);
    }
    void pump() override;
    uint32_t receive(const ib::Burst& burst, const OfferRecord* offer) override;
    // Sends a packet, LRH to padding, or queues it until there are credits. Drops and counts it if
    // the queue is full.
    void send(std::span<const uint8_t> packet);
    void attributes_changed(ib::PortEvents events) { cable_.attributes_changed(events); }
    void set_cable(bool plugged) { cable_.plug(plugged); }

    ib::PortAttrs& attrs;
    ib::PortCounters& counters;

  private:
    bool transmit(std::span<const uint8_t> packet);
    [[nodiscard]] uint64_t now_ns() const { return hca_.timers_.clock().now_ns; }
    void tell(ib::LinkError error) {
        ib::tell_link_error(error, attrs.number, attrs, now_ns());
        hca_.timers_.touch(hca_);
    }

    PhantomHca& hca_;
    CableEnd cable_;
    ib::LinkErrors errors_;
    RingQueue<PacketRef> waiting_;
};

// Takes packets singly: a MAD is a message of one packet.
uint32_t PhantomHca::Port::receive(const ib::Burst& burst, const OfferRecord*) {
    if (!burst.is_single()) {
        return 0;
    }
    hca_.timers_.touch(hca_);
    counters.count_received(burst.lrh());
    errors_.good(1);
    const bool management = burst.lrh().vl == ib::kVl15;
    if (!management) {
        ib::port_data_arrived(attrs);
    }
    const bool taken = management || attrs.may_receive_data();
    const auto view = ib::PacketView::parse(burst.bytes(), ib::Crcs::kElided);
    if (taken && view && management) {
        hca_.smp_arrived(*this, *view);
    } else if (taken && view) {
        hca_.gmp_arrived(*this, *view);
    }
    if (cable_.neighbour() != nullptr) {
        cable_.neighbour()->release(burst.lrh().vl.value(), link::burst_blocks(burst));
    }
    return 1;
}

bool PhantomHca::Port::transmit(std::span<const uint8_t> packet) {
    const auto lrh = ib::Lrh::parse(packet.first<ib::Lrh::kSize>());
    const auto room = cable_.neighbour()->begin({.vl = lrh.vl.value(), .longest = packet.size()});
    if (room.packets == 0) {
        return false;
    }
    std::ranges::copy(packet, room.bytes().begin());
    cable_.neighbour()->commit(ib::BurstSize::of(packet.size()), nullptr);
    counters.count_sent(lrh);
    return true;
}

void PhantomHca::Port::send(std::span<const uint8_t> packet) {
    const bool vl15 = (packet[0] >> 4) == link::kVl15;
    if (cable_.neighbour() == nullptr || !(vl15 ? attrs.link_is_up() : attrs.may_send_data())) {
        return;
    }
    if (waiting_.empty() && transmit(packet)) {
        return;
    }
    if (waiting_.size() < kMaxWaiting) {
        waiting_.push(hca_.pool_.hold(packet, {}));
    } else {
        counters.add(vl15 ? Counter::kVl15Dropped : Counter::kQp1Dropped);
    }
}

void PhantomHca::Port::pump() {
    while (cable_.neighbour() != nullptr && !waiting_.empty() &&
           transmit(waiting_.front().bytes())) {
        waiting_.pop();
    }
}

// ---- the adapter

PhantomHca::PhantomHca(const Config& config, TimerQueue& timers, PacketPool& pool)
    : timers_(timers), pool_(pool), counters_(config.ports.size()) {
    node_.system_image_guid = config.system_image_guid;
    node_.node_guid = config.node_guid;
    node_.vendor_id = config.vendor_id;
    node_.device_id = config.device_id;
    node_.set_description(config.description);
    for (const PortConfig& port : config.ports) {
        const auto number = static_cast<uint8_t>(node_.ports.size() + 1);
        node_.ports.push_back(ib::make_port(port_config(port, number)));
    }
    for (size_t i = 0; i < node_.ports.size(); ++i) {
        ports_.push_back(std::make_unique<Port>(*this, node_.ports[i], counters_[i]));
    }
}

PhantomHca::~PhantomHca() = default;

LinkUser& PhantomHca::port(unsigned number) {
    return *ports_[number - 1];
}

void PhantomHca::set_cable(unsigned number, bool plugged) {
    ports_[number - 1]->set_cable(plugged);
}

void PhantomHca::raise(unsigned number, ib::LinkError error) {
    ports_[number - 1]->raise(error);
}

ib::PmaNode PhantomHca::pma_node() {
    return {.ports = counters_, .sampling = sampling_, .first_port = 1};
}

void PhantomHca::smp_arrived(Port& port, const ib::PacketView& packet) {
    const ib::Lrh& lrh = packet.lrh();
    auto smp = mad_of(packet, ib::kQp0);
    const bool for_us = lrh.dlid.is_permissive() || port.attrs.owns_lid(lrh.dlid);
    if (!smp || !for_us) {
        return;
    }
    const ib::SmiNode self{ib::NodeType::kChannelAdapter, node_.num_ports()};
    const uint8_t number = port.attrs.number;
    if (smp->is_directed_route() &&
        ib::smi_receive(*smp, self, number).action != ib::SmiAction::kLocal) {
        return;
    }
    const ib::SmpArrival arrival{
        .port = number, .slid = lrh.slid, .now_ns = timers_.clock().now_ns};
    ib::SmaAnswer answer = ib::sma_answer(node_, *smp, arrival);
    if (answer.disposition != ib::SmaDisposition::kReply) {
        return;
    }
    ++smps_answered_;
    ib::Lid dlid = lrh.slid.is_unicast() ? lrh.slid : ib::kPermissiveLid;
    if (answer.reply.is_directed_route()) {
        const auto way = ib::smi_send(answer.reply, self, number, lrh.slid);
        if (way.action != ib::SmiAction::kPort && way.action != ib::SmiAction::kLid) {
            return;
        }
        dlid = way.action == ib::SmiAction::kLid ? way.dlid : ib::kPermissiveLid;
    }
    const ib::Lid slid = dlid.is_permissive() ? ib::kPermissiveLid : port.attrs.lid();
    port.send(
        MadPacket(smp_headers(dlid, slid, lrh.sl, ib::Psn(next_psn_++)), answer.reply).bytes());
    if (smp->method() == ib::Method::kSet && answer.port >= 1 && answer.port <= ports_.size()) {
        ports_[answer.port - 1]->attributes_changed(answer.events);
    }
}

void PhantomHca::gmp_arrived(Port& port, const ib::PacketView& packet) {
    if (!port.attrs.owns_lid(packet.lrh().dlid)) {
        return;
    }
    const auto mad = gmp_of(packet, port.attrs, timers_.clock().now_ns);
    if (!mad || mad->mgmt_class() != ib::MgmtClass::kPerf) {
        return;
    }
    const auto reply = ib::pma_answer(pma_node(), *mad, timers_.clock().now_ns);
    if (!reply) {
        return;
    }
    ib::PacketHeaders headers = gmp_reply_headers(packet, port.attrs, ib::Psn(next_psn_++));
    headers.lrh.vl = ib::Vl(port.attrs.sl_to_vl[0][headers.lrh.sl.value()]);
    if (headers.lrh.vl.value() < port.attrs.data_vls()) {
        port.send(MadPacket(headers, *reply).bytes());
    }
}

// ---- time

void PhantomHca::send_traps() {
    for (const auto& port : ports_) {
        while (const auto trap = ib::next_trap(node_, port->attrs, timers_.clock().now_ns)) {
            const auto headers = smp_headers(port->attrs.sm_lid(), port->attrs.lid(),
                                             port->attrs.sm_sl(), ib::Psn(next_psn_++));
            port->send(MadPacket(headers, *trap).bytes());
        }
    }
}

void PhantomHca::on_deadline(uint64_t now_ns) {
    ib::pma_advance(pma_node(), now_ns);
    send_traps();
}

uint64_t PhantomHca::next_deadline() {
    uint64_t next = sampling_.deadline_ns().value_or(kNever);
    for (const ib::PortAttrs& port : node_.ports) {
        next = std::min(next, ib::next_trap_ns(port).value_or(kNever));
    }
    return next;
}

}  // namespace pib::fabric
