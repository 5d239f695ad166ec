// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/mad_packets.h"

#include <algorithm>

namespace pib::fabric {
namespace {

// A packet to QP1 with a wrong key, for a trap.
ib::KeyViolation violation(const ib::PacketView& packet, const ib::Deth& deth, uint32_t key) {
    ib::KeyViolation found{.key = key,
                           .sl = packet.lrh().sl,
                           .slid = packet.lrh().slid,
                           .dlid = packet.lrh().dlid,
                           .src_qp = deth.src_qp,
                           .dest_qp = packet.bth().dest_qp};
    if (packet.grh()) {
        found.sgid = packet.grh()->sgid;
        found.dgid = packet.grh()->dgid;
    }
    return found;
}

}  // namespace

std::optional<ib::Mad> mad_of(const ib::PacketView& packet, ib::Qpn qp) {
    const bool ud = packet.bth().opcode == ib::opcode::kUdSendOnly;
    const bool global_smp = qp == ib::kQp0 && packet.grh();
    if (!ud || global_smp || packet.bth().dest_qp != qp ||
        packet.payload().size() != ib::kMadSize) {
        return std::nullopt;
    }
    ib::Mad mad;
    std::ranges::copy(packet.payload(), mad.bytes.begin());
    return mad;
}

std::optional<ib::Mad> gmp_of(const ib::PacketView& packet, ib::PortAttrs& port, uint64_t now_ns) {
    const auto mad = mad_of(packet, ib::kQp1);
    const auto deth = packet.deth();
    if (!mad || !deth || !packet.lrh().slid.is_unicast()) {
        return std::nullopt;
    }
    if (port.find_pkey(packet.bth().pkey) < 0) {
        ib::count_violation(port, ib::port_info::kPKeyViolations);
        port.traps.add(ib::bad_p_key_notice(violation(packet, *deth, packet.bth().pkey.value())),
                       now_ns);
        return std::nullopt;
    }
    if (deth->qkey != ib::kGsiQKey) {
        ib::count_violation(port, ib::port_info::kQKeyViolations);
        port.traps.add(ib::bad_q_key_notice(violation(packet, *deth, deth->qkey.value())), now_ns);
        return std::nullopt;
    }
    return mad;
}

MadPacket::MadPacket(const ib::PacketHeaders& headers, const ib::Mad& mad) {
    auto builder = ib::PacketBuilder::begin(buffer_, headers, ib::kMadSize, ib::Crcs::kElided);
    if (builder) {
        std::ranges::copy(mad.bytes, builder->payload().begin());
        size_ = builder->finish().size();
    }
}

ib::PacketHeaders smp_headers(ib::Lid dlid, ib::Lid slid, ib::Sl sl, ib::Psn psn) {
    ib::PacketHeaders headers{};
    headers.lrh = {
        .vl = ib::kVl15, .sl = sl, .lnh = ib::Lnh::kIbaLocal, .dlid = dlid, .slid = slid};
    headers.bth.opcode = ib::opcode::kUdSendOnly;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::kQp0;
    headers.bth.psn = psn;
    return headers;
}

ib::PacketHeaders gmp_reply_headers(const ib::PacketView& request, const ib::PortAttrs& port,
                                    ib::Psn psn) {
    const ib::Lrh& lrh = request.lrh();
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = {}, .sl = lrh.sl, .lnh = lrh.lnh, .dlid = lrh.slid, .slid = lrh.dlid};
    if (request.grh()) {
        headers.grh = *request.grh();
        headers.grh->sgid = ib::Gid::from(port.gid_prefix(), port.guid());
        headers.grh->dgid = request.grh()->sgid;
        headers.grh->hop_lmt = 0xFF;
    }
    headers.bth.opcode = ib::opcode::kUdSendOnly;
    // The answer has the port's own P_Key. The P_Key of the request may be that of a limited
    // member, and limited members refuse each other's packets (IBA 10.9.3).
    headers.bth.pkey = port.pkeys[static_cast<size_t>(port.find_pkey(request.bth().pkey))];
    headers.bth.dest_qp = request.deth() ? request.deth()->src_qp : ib::kQp1;
    headers.bth.psn = psn;
    headers.deth = {.qkey = ib::kGsiQKey, .src_qp = ib::kQp1};
    return headers;
}

}  // namespace pib::fabric
