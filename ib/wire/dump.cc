// SPDX-License-Identifier: GPL-2.0-or-later
// Packet dump: LIDs, VL, opcode, BTH, then the extended headers of the opcode.
#include "ib/wire/dump.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace pib::ib {
namespace {

// Appends formatted text. No caller formats more text at once than `piece` holds.
[[gnu::format(printf, 2, 3)]] void add(std::string& line, const char* format, ...) {
    std::array<char, 160> piece;
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(piece.data(), piece.size(), format, arguments);
    va_end(arguments);
    line += piece.data();
}

struct NamedValue {
    unsigned value;
    const char* name;
};

const char* name_of(std::span<const NamedValue> names, unsigned value) {
    const auto found = std::ranges::find(names, value, &NamedValue::value);
    return found == names.end() ? nullptr : found->name;
}

constexpr NamedValue kMethods[] = {{0x01, "Get"},     {0x02, "Set"},       {0x03, "Send"},
                                   {0x05, "Trap"},    {0x06, "Report"},    {0x07, "TrapRepress"},
                                   {0x81, "GetResp"}, {0x86, "ReportResp"}};

constexpr NamedValue kClasses[] = {{0x01, "SMP"},  {0x81, "DR-SMP"}, {0x03, "SA"},
                                   {0x04, "Perf"}, {0x05, "BM"},     {0x06, "DevMgt"},
                                   {0x07, "CM"},   {0x08, "SNMP"},   {0x21, "CC"}};

constexpr NamedValue kSmAttributes[] = {
    {attr::kNotice, "Notice"},
    {attr::kNodeDescription, "NodeDescription"},
    {attr::kNodeInfo, "NodeInfo"},
    {attr::kSwitchInfo, "SwitchInfo"},
    {attr::kGuidInfo, "GUIDInfo"},
    {attr::kPortInfo, "PortInfo"},
    {attr::kPKeyTable, "P_KeyTable"},
    {attr::kSlToVlMappingTable, "SLtoVLMappingTable"},
    {attr::kVlArbitrationTable, "VLArbitrationTable"},
    {attr::kLinearForwardingTable, "LinearForwardingTable"},
    {attr::kRandomForwardingTable, "RandomForwardingTable"},
    {attr::kMulticastForwardingTable, "MulticastForwardingTable"},
    {attr::kSmInfo, "SMInfo"},
    {attr::kVendorDiag, "VendorDiag"},
    {attr::kLedInfo, "LedInfo"}};

constexpr NamedValue kPerfAttributes[] = {
    {attr::kClassPortInfo, "ClassPortInfo"},
    {attr::kPortSamplesControl, "PortSamplesControl"},
    {attr::kPortSamplesResult, "PortSamplesResult"},
    {attr::kPortCounters, "PortCounters"},
    {attr::kPortRcvErrorDetails, "PortRcvErrorDetails"},
    {attr::kPortXmitDiscardDetails, "PortXmitDiscardDetails"},
    {attr::kPortVlXmitFlowCtlUpdateErrors, "PortVLXmitFlowCtlUpdateErrors"},
    {attr::kPortVlXmitWaitCounters, "PortVLXmitWaitCounters"},
    {attr::kPortCountersExtended, "PortCountersExtended"},
    {attr::kPortSamplesResultExtended, "PortSamplesResultExtended"},
    {attr::kPortExtendedSpeedsCounters, "PortExtendedSpeedsCounters"},
    {attr::kPortXmitDataSl, "PortXmitDataSL"},
    {attr::kPortRcvDataSl, "PortRcvDataSL"}};

constexpr const char* kNakNames[] = {"PSN sequence error", "invalid request", "remote access error",
                                     "remote operational error", "invalid RD request"};

void add_named(std::string& line, std::span<const NamedValue> names, unsigned value) {
    const char* name = name_of(names, value);
    if (name != nullptr) {
        add(line, " %s", name);
    } else {
        add(line, " 0x%02x", value);
    }
}

void add_path(std::string& line, std::span<const uint8_t, kSmpPathSize> path, size_t hops) {
    for (size_t i = 1; i <= std::min(hops, kSmpPathSize - 1); ++i) {
        add(line, "%s%u", i == 1 ? "" : ",", path[i]);
    }
}

void add_lrh(std::string& line, const Lrh& lrh) {
    add(line, "%u>%u vl%u sl%u", lrh.slid.value(), lrh.dlid.value(), lrh.vl.value(),
        lrh.sl.value());
}

void add_gid(std::string& line, const Gid& gid) {
    add(line, "%016" PRIx64 ":%016" PRIx64, gid.subnet_prefix(), gid.guid().value());
}

void add_bth(std::string& line, const PacketView& packet) {
    const Bth& bth = packet.bth();
    add(line, " %s qp 0x%06x psn %u pkey 0x%04x", packet.opcode().name, bth.dest_qp.value(),
        bth.psn.value(), bth.pkey.value());
    line += bth.solicited_event ? " se" : "";
    line += bth.ack_req ? " ackreq" : "";
    line += bth.fecn ? " fecn" : "";
    line += bth.becn ? " becn" : "";
}

void add_aeth(std::string& line, const Aeth& aeth) {
    switch (aeth.kind()) {
        case AethKind::kAck:
            add(line, " ack credits %u", aeth.code());
            break;
        case AethKind::kRnrNak:
            add(line, " RNR NAK timer %u", aeth.code());
            break;
        case AethKind::kNak:
            add(line, " NAK %s",
                aeth.code() < std::size(kNakNames) ? kNakNames[aeth.code()] : "reserved");
            break;
        default:
            add(line, " reserved syndrome 0x%02x", aeth.syndrome);
    }
    add(line, " msn %u", aeth.msn);
}

void add_extended(std::string& line, const PacketView& packet) {
    if (const auto deth = packet.deth()) {
        add(line, " from 0x%06x qkey 0x%08x", deth->src_qp.value(), deth->qkey.value());
    }
    if (const auto xrceth = packet.xrceth()) {
        add(line, " srq 0x%06x", xrceth->xrc_srq);
    }
    if (const auto feth = packet.feth()) {
        add(line, " placement %u level %u", feth->placement, feth->selectivity);
    }
    if (const auto reth = packet.reth()) {
        add(line, " va 0x%" PRIx64 " rkey 0x%08x len %u", reth->va, reth->rkey.value(),
            reth->dma_len);
    }
    if (const auto atomic = packet.atomic_eth()) {
        add(line, " va 0x%" PRIx64 " rkey 0x%08x swap/add 0x%" PRIx64 " cmp 0x%" PRIx64, atomic->va,
            atomic->rkey.value(), atomic->swap_or_add, atomic->compare);
    }
    if (const auto masked = packet.masked_atomic_eth()) {
        const AtomicEth& atomic = masked->atomic;
        add(line, " va 0x%" PRIx64 " rkey 0x%08x swap/add 0x%" PRIx64 " cmp 0x%" PRIx64, atomic.va,
            atomic.rkey.value(), atomic.swap_or_add, atomic.compare);
        add(line, " masks 0x%" PRIx64 " 0x%" PRIx64, masked->swap_mask, masked->compare_mask);
    }
    if (const auto aeth = packet.aeth()) {
        add_aeth(line, *aeth);
    }
    if (const auto ack = packet.atomic_ack_eth()) {
        add(line, " orig 0x%" PRIx64, ack->original_data);
    }
    if (const auto imm = packet.imm_dt()) {
        add(line, " imm %02x%02x%02x%02x", imm->data[0], imm->data[1], imm->data[2], imm->data[3]);
    }
    if (const auto ieth = packet.ieth()) {
        add(line, " invalidate 0x%08x", ieth->rkey.value());
    }
}

// Whether the packet carries a MAD: it is a UD packet to QP0 or QP1 with 256 bytes of payload.
bool carries_mad(const PacketView& packet) {
    const Qpn qp = packet.bth().dest_qp;
    return packet.opcode().service == Service::kUd && (qp == kQp0 || qp == kQp1) &&
           packet.payload().size() == kMadSize;
}

void add_unreadable(std::string& line, std::span<const uint8_t> bytes, ParseError error) {
    add(line, " [%s] %zu bytes:", to_string(error), bytes.size());
    for (size_t i = 0; i < std::min<size_t>(bytes.size(), 24); ++i) {
        add(line, " %02x", bytes[i]);
    }
}

}  // namespace

std::string dump_mad(const Mad& mad) {
    std::string line = "MAD";
    add_named(line, kClasses, static_cast<unsigned>(mad.mgmt_class()));
    add_named(line, kMethods, static_cast<unsigned>(mad.method()));
    std::span<const NamedValue> attributes;
    if (mad.is_smp()) {
        attributes = kSmAttributes;
    } else if (mad.mgmt_class() == MgmtClass::kPerf) {
        attributes = kPerfAttributes;
    }
    add_named(line, attributes, mad.attribute_id());
    add(line, " mod 0x%x tid 0x%" PRIx64, mad.attribute_modifier(), mad.transaction_id());
    if (mad.status() != 0) {
        add(line, " status 0x%04x", mad.status());
    }
    if (mad.is_directed_route()) {
        add(line, " %s hop %u/%u path ", is_returning(mad) ? "back" : "out", hop_pointer(mad),
            hop_count(mad));
        add_path(line, initial_path(mad), hop_count(mad));
    }
    return line;
}

std::string dump_packet(std::span<const uint8_t> bytes, Crcs crcs) {
    std::string line;
    if (const auto lrh = parse_lrh(bytes, crcs)) {
        add_lrh(line, *lrh);
    }
    const auto packet = PacketView::parse(bytes, crcs);
    if (!packet) {
        add_unreadable(line, bytes, packet.error());
        return line;
    }
    if (packet->grh()) {
        line += " grh ";
        add_gid(line, packet->grh()->sgid);
        line += ">";
        add_gid(line, packet->grh()->dgid);
    }
    add_bth(line, *packet);
    add_extended(line, *packet);
    if (carries_mad(*packet)) {
        Mad mad;
        std::ranges::copy(packet->payload(), mad.bytes.begin());
        line += ": " + dump_mad(mad);
    } else if (!packet->payload().empty()) {
        add(line, " +%zu", packet->payload().size());
    }
    line += packet->icrc_is_good() ? "" : " BAD-ICRC";
    line += packet->vcrc_is_good() ? "" : " BAD-VCRC";
    return line;
}

}  // namespace pib::ib
