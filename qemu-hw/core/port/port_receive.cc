// SPDX-License-Identifier: GPL-2.0-or-later
// Packets that came in: the checks of the link layer, the SMPs and PMA queries that the device
// answers itself, as an HCA's firmware does, and the rest, which is the transport's.
#include <algorithm>

#include "ib/mgmt/smi.h"
#include "port/hca_port.h"

namespace pib::hca {

namespace {

// IBA 13.5.4.3: the GRH of a response starts anew.
constexpr uint8_t kResponseHopLimit = 255;

// A MAD is one UD SEND of 256 bytes (IBA 13.4.2).
bool carries_mad(const ib::PacketView& packet) {
    return packet.bth().opcode == ib::opcode::kUdSendOnly &&
           packet.payload().size() == ib::kMadSize;
}

ib::Mad copy_mad(const ib::PacketView& packet) {
    ib::Mad mad;
    std::ranges::copy(packet.payload(), mad.bytes.begin());
    return mad;
}

}  // namespace

uint32_t HcaPort::link_burst(ib::Burst& burst, ib::Placement& payload) {
    return receive(burst, payload, false);
}

void HcaPort::link_packet_fault(link::PacketFault fault) {
    const uint64_t now_ns = parts_.host.now_ns();
    if (const auto error = link_errors_.dropped(fault, attrs(), pma(), now_ns)) {
        ib::tell_link_error(*error, static_cast<uint8_t>(number_), attrs(), now_ns);
    }
}

bool HcaPort::accepts_dlid(const ib::Lrh& lrh) const {
    if (lrh.vl == ib::kVl15) {
        return lrh.dlid.is_permissive() || owns_lid(lrh.dlid.value());
    }
    return lrh.dlid.is_multicast() || owns_lid(lrh.dlid.value());
}

// What the link state, the VL and the DLID let in (IBA 7.2.7, 7.6, 7.11).
HcaPort::Admission HcaPort::admit(const ib::Lrh& lrh, bool looped) const {
    const bool vl15 = lrh.vl == ib::kVl15;
    if (!vl15 && lrh.vl.value() >= view_.data_vls) {
        return Admission::kNoVl;
    }
    const bool state = vl15 ? looped || view_.link_up : view_.receives;
    if (!state || !accepts_dlid(lrh)) {
        return Admission::kDropped;
    }
    return vl15 || view_.active ? Admission::kYes : Admission::kWakes;
}

// Several packets pass if nothing is to be done for any of them.
bool HcaPort::passes_link(const ib::Burst& burst, bool looped) {
    const Admission admission = admit(burst.lrh(), looped);
    if (admission == Admission::kYes) [[likely]] {
        return true;
    }
    if (!burst.is_single()) {
        return false;
    }
    if (admission == Admission::kWakes) {
        // The neighbour sends data, so it is Active, and so are we.
        apply(ib::port_data_arrived(attrs()));
        return true;
    }
    if (admission == Admission::kNoVl) {
        link_packet_fault(link::PacketFault::kMalformed);
    } else {
        drop();
    }
    return false;
}

void HcaPort::count_received(const ib::Burst& burst, uint32_t count, bool looped) {
    if (!looped) {
        link_errors_.good(count);
        pma().count_received(burst.lrh(), burst.size().words(0, count), count);
    }
    parts_.counters.add(PIB_HCA_COUNTER_RX_PACKETS, number_, count);
    parts_.counters.add(PIB_HCA_COUNTER_RX_BYTES, number_, burst.size().bytes(0, count));
}

// A single packet is counted before anybody looks at it: it may ask for these counters. Of several
// those count that were taken.
uint32_t HcaPort::receive(ib::Burst& burst, ib::Placement& payload, bool looped) {
    Trace* trace = parts_.counters.trace;
    if (burst.is_single()) {
        count_received(burst, 1, looped);
        if (trace != nullptr) [[unlikely]] {
            trace->packet_in(parts_.host.now_ns(), number_, burst.bytes().head(),
                             burst.bytes().size());
        }
        (void)take(burst, payload, looped);
        return 1;
    }
    const uint32_t taken = trace == nullptr ? take(burst, payload, looped) : 0;
    if (taken != 0 && !payload.is_offered()) {
        count_received(burst, taken, looped);
    }
    return taken;
}

uint32_t HcaPort::take(ib::Burst& burst, ib::Placement& payload, bool looped) {
    if (!passes_link(burst, looped)) {
        return 0;
    }
    const bool vl15 = burst.lrh().vl == ib::kVl15;
    // QP0 and VL15 belong together (IBA 9.6.1.5, C9-53).
    if (!burst.check() || vl15 != (burst.first().bth().dest_qp == ib::kQp0)) {
        if (burst.is_single()) {
            drop();
        }
        return 0;
    }
    if (vl15) {
        receive_smp(burst, looped);
        return 1;
    }
    if (burst.first().bth().dest_qp == ib::kQp1 && burst.is_single()) {
        receive_gmp(burst);
        return 1;
    }
    return client_->burst_in(number_, burst, payload);
}

// ---- subnet management

// Directed-route SMPs reach the guest as they came: its SMI does the same to them as ours, which
// here only decides whether they are for this node at all.
void HcaPort::receive_smp(const ib::Burst& burst, bool looped) {
    const ib::PacketView& packet = burst.first();
    if (!carries_mad(packet) || packet.grh()) {
        return drop();
    }
    ib::Mad mad = copy_mad(packet);
    if (!mad.is_smp()) {
        return drop();
    }
    if (mad.is_directed_route()) {
        const ib::SmiNode node{.num_ports = parts_.sma.node().num_ports()};
        const auto decision = ib::smi_receive(mad, node, static_cast<uint8_t>(number_));
        if (decision.action != ib::SmiAction::kLocal) {
            return drop();
        }
    }
    if (ib::smp_is_for_sma(mad)) {
        answer_smp(packet, mad, looped);
    } else {
        give_to_client(burst);
    }
}

// Directs the reply to a directed-route SMP; false when the way back leads nowhere. `loopback`: to
// the guest's own QP0, which had sent the request to the port that it stands behind.
bool HcaPort::direct_reply(const ib::Lrh& request, ib::Mad& reply, ib::PacketHeaders& headers,
                           bool& loopback) const {
    const ib::SmiNode node{.num_ports = parts_.sma.node().num_ports()};
    const auto way = ib::smi_send(reply, node, static_cast<uint8_t>(number_), request.slid);
    if (way.action == ib::SmiAction::kLid) {
        headers.lrh.dlid = way.dlid;
        return true;
    }
    headers.lrh.dlid = headers.lrh.slid = ib::kPermissiveLid;
    loopback = loopback && way.action == ib::SmiAction::kLocal;
    return way.action == ib::SmiAction::kPort || loopback;
}

void HcaPort::answer_smp(const ib::PacketView& packet, const ib::Mad& request, bool looped) {
    const ib::SmpArrival arrival{.port = static_cast<uint8_t>(number_),
                                 .slid = packet.lrh().slid,
                                 .now_ns = parts_.host.now_ns()};
    ib::SmaAnswer answer = parts_.sma.answer(request, arrival);
    if (answer.disposition == ib::SmaDisposition::kReply) {
        ib::PacketHeaders headers = reply_headers(packet);
        bool loopback = looped && request.is_directed_route();
        if (!request.is_directed_route() ||
            direct_reply(packet.lrh(), answer.reply, headers, loopback)) {
            send_mad(headers, answer.reply, loopback);
        }
    }
    if (answer.disposition == ib::SmaDisposition::kDiscard) {
        drop();
    }
    // After the reply: it may be the last packet before the link goes down.
    apply(answer.events);
}

// ---- performance management

// QP1 takes any P_Key of the table and one Q_Key (C9-42, C9-50); of what the guest gets the
// transport checks both.
void HcaPort::receive_gmp(const ib::Burst& burst) {
    const ib::PacketView& packet = burst.first();
    const bool unicast = !packet.lrh().dlid.is_multicast();
    if (!unicast || !carries_mad(packet)) {
        return give_to_client(burst);
    }
    const ib::Mad mad = copy_mad(packet);
    if (!is_for_pma(mad)) {
        return give_to_client(burst);
    }
    if (attrs().find_pkey(packet.bth().pkey) < 0) {
        pkey_violation(packet);
        return drop();
    }
    if (packet.deth()->qkey != ib::kGsiQKey) {
        qkey_violation(packet);
        return drop();
    }
    answer_gmp(packet, mad);
}

void HcaPort::answer_gmp(const ib::PacketView& packet, const ib::Mad& request) {
    const auto reply = parts_.pma.answer(request, parts_.host.now_ns());
    if (!reply) {
        return;
    }
    ib::PacketHeaders headers = reply_headers(packet);
    const int pkey_index = attrs().find_pkey(packet.bth().pkey);
    headers.bth.pkey = attrs().pkeys[static_cast<size_t>(pkey_index)];
    headers.deth = {.qkey = ib::kGsiQKey, .src_qp = ib::kQp1};
    send_mad(headers, *reply, false);
}

// ---- responses

// IBA 13.5.4: a response goes back to the LID, QP and GID that the request came from, on the same
// SL.
ib::PacketHeaders HcaPort::reply_headers(const ib::PacketView& request) const {
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = request.lrh().vl,
                   .sl = request.lrh().sl,
                   .lnh = ib::Lnh::kIbaLocal,
                   .dlid = request.lrh().slid,
                   .slid = reply_slid(request.lrh().dlid)};
    headers.bth.dest_qp = request.deth()->src_qp;
    if (!request.grh()) {
        return headers;
    }
    const ib::Grh& from = *request.grh();
    headers.lrh.lnh = ib::Lnh::kIbaGlobal;
    headers.grh = ib::Grh{.tclass = from.tclass,
                          .flow_label = from.flow_label,
                          .hop_lmt = kResponseHopLimit,
                          .sgid = from.dgid,
                          .dgid = from.sgid};
    if (std::ranges::find(view_.gids, from.dgid) == view_.gids.end()) {
        headers.grh->sgid = view_.gids[0];
    }
    return headers;
}

// The LID that the requester wrote to, path bits included; the base LID if that names no LID.
ib::Lid HcaPort::reply_slid(ib::Lid request_dlid) const {
    if (owns_lid(request_dlid.value())) {
        return request_dlid;
    }
    return view_.lid != 0 ? ib::Lid(view_.lid) : ib::kPermissiveLid;
}

}  // namespace pib::hca
