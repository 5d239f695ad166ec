// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/port_mads.h"

#include <algorithm>

#include "ib/mgmt/smi.h"
#include "port/pma_answer.h"

namespace pib::hca {

namespace {

constexpr size_t kMaxQueued = 64;
// Hop limit of a response's GRH, a new value independent of the request's (IBA 13.5.4.3).
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

// ---- subnet management

// Directed-route SMPs reach the guest unchanged, because its SMI processes them again. The SMI here
// only decides whether they are for this node.
PortMads::Taken PortMads::smp_in(const ib::PacketView& packet, bool looped) {
    if (!carries_mad(packet) || packet.grh()) {
        return Taken::kDropped;
    }
    ib::Mad mad = copy_mad(packet);
    if (!mad.is_smp()) {
        return Taken::kDropped;
    }
    if (mad.is_directed_route()) {
        const ib::SmiNode node{.num_ports = port_.sma.node().num_ports()};
        const auto decision = ib::smi_receive(mad, node, port_.number8());
        if (decision.action != ib::SmiAction::kLocal) {
            return Taken::kDropped;
        }
    }
    if (!ib::smp_is_for_sma(mad)) {
        return Taken::kForeign;
    }
    return answer_smp(packet, mad, looped);
}

// Sets the path of the reply to a directed-route SMP; false if its return path is invalid.
// `loopback`: the reply is for the guest's own QP0, which has sent the request through this port.
bool PortMads::direct_reply(const ib::Lrh& request, ib::Mad& reply, ib::PacketHeaders& headers,
                            bool& loopback) const {
    const ib::SmiNode node{.num_ports = port_.sma.node().num_ports()};
    const auto way = ib::smi_send(reply, node, port_.number8(), request.slid);
    if (way.action == ib::SmiAction::kLid) {
        headers.lrh.dlid = way.dlid;
        return true;
    }
    headers.lrh.dlid = headers.lrh.slid = ib::kPermissiveLid;
    loopback = loopback && way.action == ib::SmiAction::kLocal;
    return way.action == ib::SmiAction::kPort || loopback;
}

PortMads::Taken PortMads::answer_smp(const ib::PacketView& packet, const ib::Mad& request,
                                     bool looped) {
    const ib::SmpArrival arrival{
        .port = port_.number8(), .slid = packet.lrh().slid, .now_ns = port_.host.now_ns()};
    ib::SmaAnswer answer = port_.sma.answer(request, arrival);
    if (answer.disposition == ib::SmaDisposition::kReply) {
        ib::PacketHeaders headers = reply_headers(packet);
        bool loopback = looped && request.is_directed_route();
        if (!request.is_directed_route() ||
            direct_reply(packet.lrh(), answer.reply, headers, loopback)) {
            send(headers, answer.reply, loopback);
        }
    }
    // Applies the events after the reply is sent, because they may take the link down.
    attributes_.apply(answer.events);
    return answer.disposition == ib::SmaDisposition::kDiscard ? Taken::kDropped : Taken::kAnswered;
}

// ---- performance management

// QP1 accepts any P_Key of the table and one Q_Key (C9-42, C9-50). The transport checks both for
// packets that the guest receives.
PortMads::Taken PortMads::gmp_in(const ib::PacketView& packet) {
    if (!carries_mad(packet)) {
        return Taken::kForeign;
    }
    const ib::Mad mad = copy_mad(packet);
    if (!is_for_pma(mad)) {
        return Taken::kForeign;
    }
    if (!packet.lrh().slid.is_unicast()) {
        return Taken::kDropped;  // the answer would go to a group, or to no port (IBA 13.5.4)
    }
    if (port_.attrs().find_pkey(packet.bth().pkey) < 0) {
        attributes_.pkey_violation(packet);
        return Taken::kDropped;
    }
    if (packet.deth()->qkey != ib::kGsiQKey) {
        attributes_.qkey_violation(packet);
        return Taken::kDropped;
    }
    answer_gmp(packet, mad);
    return Taken::kAnswered;
}

void PortMads::answer_gmp(const ib::PacketView& packet, const ib::Mad& request) {
    const auto reply = answer_pma(port_.ports, request, port_.host.now_ns());
    if (!reply) {
        return;
    }
    ib::PacketHeaders headers = reply_headers(packet);
    const int pkey_index = port_.attrs().find_pkey(packet.bth().pkey);
    headers.bth.pkey = port_.attrs().pkeys[static_cast<size_t>(pkey_index)];
    headers.deth = {.qkey = ib::kGsiQKey, .src_qp = ib::kQp1};
    send(headers, *reply, false);
}

// ---- responses

// IBA 13.5.4: a response is sent to the LID, QP and GID of the requester, on the same SL.
ib::PacketHeaders PortMads::reply_headers(const ib::PacketView& request) const {
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
    const PortView& view = attributes_.view();
    if (!view.owns_gid(from.dgid)) {
        headers.grh->sgid = view.gids[0];
    }
    return headers;
}

// The LID that the requester used, path bits included; the base LID if the DLID is not one of the
// port's.
ib::Lid PortMads::reply_slid(ib::Lid request_dlid) const {
    const PortView& view = attributes_.view();
    if (view.owns_lid(request_dlid.value())) {
        return request_dlid;
    }
    return view.lid != 0 ? ib::Lid(view.lid) : ib::kPermissiveLid;
}

// ---- sending

void PortMads::send_traps(uint64_t now_ns) {
    while (const auto trap = port_.sma.next_trap(port_.number, now_ns)) {
        const ib::PortAttrs& port = port_.attrs();
        ib::PacketHeaders headers{};
        headers.lrh = {.vl = ib::kVl15,
                       .sl = port.sm_sl(),
                       .lnh = ib::Lnh::kIbaLocal,
                       .dlid = port.sm_lid(),
                       .slid = port.lid()};
        send(headers, *trap, false);
    }
}

void PortMads::resume() {
    while (!queued_.empty() && try_send(queued_.front())) {
        queued_.pop_front();
    }
}

bool PortMads::try_send(const OwnMad& mad) {
    return egress_.send_own(mad.request, std::span(mad.bytes).first(mad.request.bytes),
                            mad.loopback);
}

// `headers` has the addresses; this function fills in the other fields.
void PortMads::send(const ib::PacketHeaders& headers, const ib::Mad& mad, bool loopback) {
    ib::PacketHeaders full = headers;
    full.bth.opcode = ib::opcode::kUdSendOnly;
    full.bth.psn = psn_;
    ++psn_;
    if (!full.bth.pkey.is_valid()) {
        full.bth.pkey = ib::kDefaultPKey;  // QP0 checks no P_Key (C9-41)
    }
    OwnMad own;
    auto builder = ib::PacketBuilder::begin(own.bytes, full, mad.bytes.size(), ib::Crcs::kElided);
    if (!builder) {
        return;
    }
    std::ranges::copy(mad.bytes, builder->payload().begin());
    const bool vl15 = full.lrh.vl == ib::kVl15;
    own.request = {.dlid = full.lrh.dlid.value(),
                   .sl = full.lrh.sl.value(),
                   .vl15 = vl15,
                   .bytes = static_cast<uint32_t>(builder->finish().size())};
    own.loopback = loopback;
    if (queued_.empty() && try_send(own)) {
        return;
    }
    if (queued_.size() < kMaxQueued) {
        queued_.push_back(own);
    } else {
        dropped(vl15);
    }
}

void PortMads::dropped(bool vl15) {
    port_.pma_counters().add(vl15 ? ib::Counter::kVl15Dropped : ib::Counter::kQp1Dropped);
}

}  // namespace pib::hca
