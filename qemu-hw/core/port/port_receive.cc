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

void HcaPort::link_packet(const link::LinkPacket& packet) {
    link_errors_.good(1);
    receive(packet.bytes, packet.lrh, false);
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
bool HcaPort::passes_link(const ib::Lrh& lrh, bool looped) {
    const bool vl15 = lrh.vl == ib::kVl15;
    if (!vl15 && lrh.vl.value() >= view_.data_vls) {
        link_packet_fault(link::PacketFault::kMalformed);
        return false;
    }
    const bool state = vl15 ? looped || view_.link_up : view_.receives;
    if (!state || !accepts_dlid(lrh)) {
        drop();
        return false;
    }
    if (!vl15 && !view_.active) {
        // The neighbour sends data, so it is Active, and so are we.
        apply(ib::port_data_arrived(attrs()));
    }
    return true;
}

void HcaPort::receive(const ib::PacketBytes& bytes, const ib::Lrh& lrh, bool looped) {
    if (!looped) {
        pma().count_received(lrh);
    }
    if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
        trace->packet_in(parts_.host.now_ns(), number_, bytes.head(), bytes.size());
    }
    parts_.counters.add(PIB_HCA_COUNTER_RX_PACKETS, number_);
    parts_.counters.add(PIB_HCA_COUNTER_RX_BYTES, number_, bytes.size());
    if (!passes_link(lrh, looped)) {
        return;
    }
    const auto packet = ib::PacketView::parse(bytes, ib::Crcs::kElided);
    const bool vl15 = lrh.vl == ib::kVl15;
    // QP0 and VL15 belong together (IBA 9.6.1.5, C9-53).
    if (!packet || vl15 != (packet->bth().dest_qp == ib::kQp0)) {
        return drop();
    }
    if (vl15) {
        return receive_smp(*packet, looped);
    }
    if (packet->bth().dest_qp == ib::kQp1) {
        return receive_gmp(*packet);
    }
    client_->packet_in(number_, *packet);
}

// Packets that the transport takes in one piece are data for one of its QPs, over a link that is
// Active: nothing here treats them otherwise than packet by packet.
bool HcaPort::takes_runs_of(const ib::PacketRun& run) const {
    const ib::Lrh& lrh = run.first().lrh();
    return parts_.counters.trace == nullptr && view_.active && lrh.vl.value() < view_.data_vls &&
           owns_lid(lrh.dlid.value());
}

void HcaPort::count_received(const ib::PacketRun& run, uint32_t from, uint32_t count) {
    parts_.counters.add(PIB_HCA_COUNTER_RX_PACKETS, number_, count);
    parts_.counters.add(PIB_HCA_COUNTER_RX_BYTES, number_, run.size().bytes(from, count));
    pma().count_received(run.first().lrh(), run.size().words(from, count), count);
    link_errors_.good(count);
}

uint32_t HcaPort::link_run(const ib::PacketRun& run, uint32_t from) {
    const uint32_t taken = takes_runs_of(run) ? client_->run_in(number_, run, from) : 0;
    if (taken != 0) {
        count_received(run, from, taken);
    }
    return taken;
}

bool HcaPort::link_reference(const ib::PacketRun& run, std::vector<link::RamPiece>& where) {
    return takes_runs_of(run) && client_->reference_in(number_, run, where);
}

bool HcaPort::link_placed(const ib::PacketRun& run, std::span<const link::RamPiece> where) {
    if (!takes_runs_of(run) || !client_->placed_in(number_, run, where)) {
        return false;
    }
    count_received(run, 0, run.size().packets);
    return true;
}

// ---- subnet management

// Directed-route SMPs reach the guest as they came: its SMI does the same to them as ours, which
// here only decides whether they are for this node at all.
void HcaPort::receive_smp(const ib::PacketView& packet, bool looped) {
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
        client_->packet_in(number_, packet);
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
void HcaPort::receive_gmp(const ib::PacketView& packet) {
    const bool unicast = !packet.lrh().dlid.is_multicast();
    if (!unicast || !carries_mad(packet)) {
        return client_->packet_in(number_, packet);
    }
    const ib::Mad mad = copy_mad(packet);
    if (!is_for_pma(mad)) {
        return client_->packet_in(number_, packet);
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
