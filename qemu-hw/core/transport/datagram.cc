// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/datagram.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "qp/completions.h"
#include "qp/error_states.h"
#include "qp/page_waits.h"
#include "qp/qp_header.h"
#include "qp/qp_modify.h"
#include "qp/receive_queue.h"
#include "queues/segments.h"
#include "queues/work_queue.h"

namespace pib::hca {
namespace {

// The first bytes of every datagram's receive buffer belong to the GRH, present or not
// (IBA 11.4.1.2).
constexpr uint32_t kGrhBytes = ib::Grh::kSize;
constexpr uint32_t kUseQpQkey = 1u << 31;  // a bit of the WQE's Q_Key: use the QP's (IBA 10.2.5)

ib::PKey pkey_at(const Port& port, unsigned index) {
    return ib::PKey(port.pkey(index));
}

}  // namespace

// ---------------------------------------------------------------- send

Turn Datagram::run(QueuePair& qp, Budget& budget) {
    // A datagram completes when it is sent, so the window holds at most one datagram, which waits
    // for room at the port, for a turn in its lane, or for a page.
    while (qp.can_send() && !qp.paging.send.waiting) {
        if (budget.spent()) {
            return Turn::kMore;
        }
        if (qp.window.empty() && !fetch(qp)) {
            break;
        }
        if (qp.window.front().failed()) {
            fail_send(services_, qp, qp.window.front().error);
            break;
        }
        if (budget.vl != Budget::kAnyVl && services_.scheduler().lane_of(qp) != budget.vl)
            [[unlikely]] {
            return Turn::kMore;  // the QP gets a turn in the lane of this packet's VL
        }
        const uint32_t bytes = qp.window.front().wqe.data.length;
        const uint64_t before = services_.scheduler().extra();
        switch (send_front(qp)) {
            case Sent::kYes:
                budget.charge(bytes);
                budget.spend(services_.scheduler().extra() - before);
                qp.req.sent_end = qp.window.front().psn_first + 1;
                complete_send(services_, qp, {});
                break;
            case Sent::kBlocked:
                return Turn::kBlocked;
            case Sent::kNoPayload:
                if (await_page(services_, qp, QpHalf::kRequester)) {
                    return Turn::kIdle;
                }
                fail_send(
                    services_, qp,
                    protection_error(services_.mpt(), qp.window.segments_at(0, qp.key_user()), 0));
                break;
        }
    }
    report_drained(services_, qp);
    return Turn::kIdle;
}

bool Datagram::fetch(QueuePair& qp) {
    if (qp.state != QpState::kRts || qp.sq.ready() == 0) {
        return false;
    }
    const std::span<uint8_t> place = qp.window.reserve(qp.sq.stride(), services_.snapshots());
    if (place.empty() || !copy_wqe(services_, qp, qp.sq, place)) {
        fatal(services_, qp);
        return false;
    }
    SendRequest& request = qp.window.push(qp.sq.consumer, qp.req.next);
    request.packets = 1;
    const SendRules rules{.type = qp.type, .max_inline = qp.max_inline};
    const auto decoded = decode_send_wqe(place, rules, request.wqe);
    request.error = decoded ? check(qp, request.wqe) : decoded.error();
    services_.trace_send(qp, request, place);
    ++qp.sq.consumer;
    ++qp.req.next;
    return true;
}

WqeError Datagram::check(const QueuePair& qp, const SendWqe& wqe) {
    const Port& port = services_.port_of(qp);
    if (wqe.data.length > port.mtu_bytes()) {
        return {WcStatus::kLocLenErr,  // a datagram is one packet (C9-179)
                refuse(Rule::kWqeAboveMtu, wqe.data.length, port.mtu_bytes())};
    }
    const Verdict broken = check_address(qp, std::get<DatagramOp>(wqe.op));
    return broken == CmdStatus::kOk ? WqeError{} : WqeError{WcStatus::kLocQpOpErr, broken};
}

Verdict Datagram::check_address(const QueuePair& qp, const DatagramOp& op) {
    const Port& port = services_.port_of(qp);
    const bool to_group = op.dest_qpn == ib::kMulticastQpn.value();
    const LidClass allowed{.multicast = to_group && qp.type == QpType::kUd,
                           .permissive = qp.type == QpType::kSmi};
    // The port of the address vector must be the QP's port (IBA 10.2.2.2).
    if (op.av.port != qp.port()) {
        return refuse(Rule::kWqeAvPort, op.av.port, qp.port());
    }
    if (op.dest_qpn > ib::Qpn::kMask) {
        return refuse(Rule::kWqeDestQpn, op.dest_qpn, ib::Qpn::kMask);
    }
    if (to_group && !(ib::Lid(op.av.dlid).is_multicast() && op.av.has_grh)) {
        return refuse(Rule::kWqeGroup, op.dest_qpn, op.av.dlid);
    }
    if (const Verdict verdict = check_address_vector(op.av, port, allowed);
        verdict != CmdStatus::kOk) {
        return verdict;
    }
    const uint16_t last_pkey =
        qp.type == QpType::kGsi ? static_cast<uint16_t>(port.pkey_count() - 1) : uint16_t{0};
    return op.pkey_index <= last_pkey ? CmdStatus::kOk
                                      : refuse(Rule::kWqePkeyIndex, op.pkey_index, last_pkey);
}

ib::PacketHeaders Datagram::headers(const QueuePair& qp, const SendWqe& wqe) {
    const Port& port = services_.port_of(qp);
    const auto& op = std::get<DatagramOp>(wqe.op);
    ib::PacketHeaders headers;
    address_packet(headers, op.av, port);
    if (headers.lrh.dlid.is_permissive()) {
        headers.lrh.slid = ib::kPermissiveLid;  // the whole path is a directed route (IBA 14.2.2.1)
    }
    const bool with_imm = wqe.opcode == SendOpcode::kSendWithImm;
    headers.bth.opcode = with_imm ? ib::opcode::kUdSendOnlyImm : ib::opcode::kUdSendOnly;
    headers.bth.solicited_event = (wqe.flags & send_flag::kSolicited) != 0;
    headers.bth.mig_req = true;  // C9-7: datagrams have no migration
    headers.bth.dest_qp = ib::Qpn(op.dest_qpn);
    headers.bth.psn = qp.window.front().psn_first;
    // SMPs carry the default P_Key, which receivers do not check (C9-41, 10.9.8). The WQE names the
    // P_Key of a GMP; MODIFY_QP has set the P_Key of a UD QP.
    const unsigned index =
        qp.type == QpType::kGsi ? op.pkey_index : static_cast<unsigned>(qp.attr.pkey_index);
    headers.bth.pkey = qp.type == QpType::kSmi ? ib::kDefaultPKey : pkey_at(port, index);
    const uint32_t qkey = (op.qkey & kUseQpQkey) != 0 ? qp.attr.qkey : op.qkey;
    headers.deth = {.qkey = ib::QKey(qkey), .src_qp = qp.wire_qpn()};
    std::memcpy(headers.imm_dt.data.data(), &wqe.imm_data, headers.imm_dt.data.size());
    return headers;
}

Sent Datagram::send_front(QueuePair& qp) {
    const SendWqe& wqe = qp.window.front().wqe;
    const SegmentView segments = qp.window.segments_at(0, qp.key_user());
    Port& port = services_.port_of(qp);
    const ib::PacketHeaders out = headers(qp, wqe);
    qp.scheduling.last_dlid = out.lrh.dlid.value();
    qp.scheduling.last_sl = out.lrh.sl.value();
    const auto fill = [&](std::span<uint8_t> room) {
        return gather(services_.mpt(), segments, 0, room);
    };
    // The switch does not return a multicast packet to the port that has sent it, so the HCA's own
    // members, which may include the sender, get their copies here (IBA 10.5.2). A port that is not
    // Active sends nothing.
    const auto copy_to_members = [&](std::span<const uint8_t> bytes) {
        if (!out.lrh.dlid.is_multicast() || !port.is_active()) {
            return;
        }
        if (const auto view = ib::PacketView::parse(bytes, ib::Crcs::kElided)) {
            services_.scheduler().add_extra(multicast_in(qp.port(), *view) *
                                            (wqe.data.length + kCopyCost));
        }
    };
    const Outlet to{
        .port = port, .static_rate = std::get<DatagramOp>(wqe.op).av.static_rate, .qpn = qp.qpn};
    return send_packet(to, out, wqe.data.length, fill, copy_to_members, qp.type == QpType::kSmi);
}

// ---------------------------------------------------------------- receive

// The P_Key of SMPs is not checked (C9-41), GMPs may use any P_Key of the table (C9-42), and other
// packets must match the P_Key of the QP (C9-43).
unsigned Datagram::matching_pkey(const QueuePair& qp, const ib::PacketView& packet) {
    const Port& port = services_.port_of(qp);
    if (qp.type == QpType::kSmi) {
        return 0;
    }
    const bool any = qp.type == QpType::kGsi;
    const unsigned first = any ? 0 : qp.attr.pkey_index;
    const unsigned end = any ? port.pkey_count() : first + 1;
    for (unsigned index = first; index < end; ++index) {
        if (ib::pkeys_match(packet.bth().pkey, pkey_at(port, index))) {
            return index;
        }
    }
    return kNoPkey;
}

// All packets except SMPs must carry the receiver's Q_Key (C9-44 and following).
bool Datagram::qkey_matches(const QueuePair& qp, const ib::PacketView& packet) {
    return qp.type == QpType::kSmi || packet.deth()->qkey.value() == qp.attr.qkey;
}

void Datagram::packet_in(QueuePair& qp, unsigned port, const ib::PacketView& packet) {
    if (!qp.can_receive() || qp.port() != port) {
        count_dropped(services_, port);
        return;
    }
    const unsigned pkey_index = matching_pkey(qp, packet);
    if (pkey_index == kNoPkey) {
        services_.port_of(qp).pkey_violation(packet);
        count_dropped(services_, port);
        return;
    }
    if (!qkey_matches(qp, packet)) {
        services_.port_of(qp).qkey_violation(packet);
        count_dropped(services_, port);
        return;
    }
    deliver(qp, packet, pkey_index);
}

uint32_t Datagram::multicast_in(unsigned port, const ib::PacketView& packet) {
    // Only the GRH names the group (IBA 9.8.3.4). A P_Key or Q_Key that does not match one of many
    // receivers is not a violation.
    if (!packet.grh()) {
        count_dropped(services_, port);
        return 0;
    }
    uint32_t copies = 0;
    services_.qps().failed_cqs().collect();
    for (const uint32_t qpn : mcast_.members(packet.grh()->dgid, packet.lrh().dlid)) {
        QueuePair* qp = services_.qps().find(qpn);
        if (qp == nullptr || !qp->can_receive() || qp->port() != port) {
            continue;
        }
        const unsigned pkey_index = matching_pkey(*qp, packet);
        if (pkey_index == kNoPkey || !qkey_matches(*qp, packet)) {
            count_dropped(services_, port);
            continue;
        }
        deliver(*qp, packet, pkey_index);
        ++copies;
    }
    fail_qps_of_collected_cqs(services_);
    return copies;
}

void Datagram::no_receive(const QueuePair& qp) {
    if (qp.is_special()) {
        services_.port_of(qp).mad_dropped(qp.type == QpType::kSmi);
    }
    services_.count(qp, HcaCounter::kRxDropped);
}

void Datagram::deliver(QueuePair& qp, const ib::PacketView& packet, unsigned pkey_index) {
    if (!qp.has_receive_queue()) {
        no_receive(qp);
        return;
    }
    const auto bytes = kGrhBytes + static_cast<uint32_t>(packet.payload().size());
    switch (fetch_recv(services_, qp, bytes)) {
        case Fetch::kOk:
            break;
        case Fetch::kShort:
            // Drops the packet; the WQE stays for the next packet (IBA 9.9.3.1, class D).
            services_.count(qp, HcaCounter::kRespLocalLengthError);
            services_.count(qp, HcaCounter::kRxDropped);
            return;
        case Fetch::kNone:
            no_receive(qp);
            return;
        case Fetch::kBad:
            enter_error(services_, qp);
            return;
    }
    if (!scatter_packet(qp, packet)) {
        (void)services_.mpt().take_miss();  // a datagram waits for no page: this is an error
        fail_recv(services_, qp,
                  protection_error(services_.mpt(), qp.resp.recv.segments(), access::kLocalWrite));
        enter_error(services_, qp);
        return;
    }
    complete_recv(services_, qp, describe(qp, packet, pkey_index));
}

bool Datagram::scatter_packet(QueuePair& qp, const ib::PacketView& packet) {
    const SegmentView segments = qp.resp.recv.segments();
    if (packet.grh() &&
        !scatter(services_.mpt(), segments, 0, packet.bytes().part(ib::Lrh::kSize, kGrhBytes))) {
        return false;
    }
    return scatter(services_.mpt(), segments, kGrhBytes, packet.payload());
}

// The receive completion's fields (IBA 11.4.2.1).
Completion Datagram::describe(const QueuePair& qp, const ib::PacketView& packet,
                              unsigned pkey_index) {
    const Port& port = services_.port_of(qp);
    Completion completion{.opcode = CompletionOpcode::kRecv};
    if (packet.bth().solicited_event) {
        completion.flags |= completion_flag::kSolicited;
    }
    completion.byte_count = kGrhBytes + static_cast<uint32_t>(packet.payload().size());
    completion.src_qp = packet.deth()->src_qp.value();
    completion.slid = packet.lrh().slid.value();
    completion.sl = packet.lrh().sl.value();
    completion.port = qp.port();
    completion.pkey_index =
        qp.type == QpType::kGsi ? static_cast<uint16_t>(pkey_index) : uint16_t{0};
    if (packet.lrh().dlid.is_unicast()) {
        const unsigned lmc_mask = (1u << port.lmc()) - 1u;
        completion.dlid_path_bits = static_cast<uint8_t>(packet.lrh().dlid.value() & lmc_mask);
    }
    if (packet.grh()) {
        completion.flags |= completion_flag::kGrh;
    }
    if (const auto imm = packet.imm_dt()) {
        completion.flags |= completion_flag::kImm;
        std::memcpy(&completion.imm_data, imm->data.data(), imm->data.size());
    }
    return completion;
}

}  // namespace pib::hca
