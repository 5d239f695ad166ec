// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/port_operations.h"

#include <algorithm>
#include <span>

#include "ib/mgmt/smi.h"
#include "port/hca_port.h"
#include "port/pma_answer.h"

namespace pib::hca {

namespace {

namespace pi = ib::port_info;

constexpr uint32_t kModifyDeviceMask =
    PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID | PIB_HCA_MODIFY_DEVICE_NODE_DESC;
constexpr uint8_t kMadIfcFlags = PIB_HCA_MAD_IFC_IGNORE_MKEY | PIB_HCA_MAD_IFC_IGNORE_BKEY;

// PortInfo fields that QUERY_PORT copies unchanged.
struct ByteField {
    uint8_t pib_hca_query_port::* member;
    ib::Field field;
};
constexpr ByteField kByteFields[] = {
    {&pib_hca_query_port::state, pi::kPortState},
    {&pib_hca_query_port::phys_state, pi::kPortPhysicalState},
    {&pib_hca_query_port::lmc, pi::kLmc},
    {&pib_hca_query_port::sm_sl, pi::kMasterSmSl},
    {&pib_hca_query_port::max_mtu, pi::kMtuCap},
    {&pib_hca_query_port::active_mtu, pi::kNeighborMtu},
    {&pib_hca_query_port::max_vl_count, pi::kVlCap},
    {&pib_hca_query_port::init_type_reply, pi::kInitTypeReply},
    {&pib_hca_query_port::subnet_timeout, pi::kSubnetTimeOut},
    {&pib_hca_query_port::active_width, pi::kLinkWidthActive},
    {&pib_hca_query_port::active_speed, pi::kLinkSpeedActive},
    {&pib_hca_query_port::active_speed_ext, pi::kLinkSpeedExtActive},
};

bool all_zero(std::span<const uint8_t> bytes) {
    return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

MadIfcReply smp_by_software(HcaPorts& ports, const ib::Mad& mad, const ib::SmpArrival& arrival) {
    MadIfcReply reply;
    if (!ib::smp_is_for_sma(mad)) {
        return reply;
    }
    const ib::SmaAnswer answer = ports.sma().answer(mad, arrival);
    if (answer.disposition == ib::SmaDisposition::kReply) {
        reply.result |= PIB_HCA_MAD_RESULT_REPLY;
        reply.mad = answer.reply;
    } else {
        // No other agent would answer a MAD that the SMA discards.
        reply.result |= PIB_HCA_MAD_RESULT_CONSUMED;
    }
    ports.find(arrival.port)->apply(answer.events);
    return reply;
}

MadIfcReply pma_by_software(HcaPorts& ports, const ib::Mad& mad, uint64_t now_ns) {
    MadIfcReply reply;
    if (const auto answer = answer_pma(ports, mad, now_ns)) {
        reply.result |= PIB_HCA_MAD_RESULT_REPLY;
        reply.mad = *answer;
    } else {
        reply.result |= PIB_HCA_MAD_RESULT_CONSUMED;
    }
    return reply;
}

Verdict no_port(HcaPorts& ports, uint32_t number) {
    return refuse(Rule::kNoPort, number, ports.ports().size());
}

}  // namespace

CmdResult<pib_hca_query_port> query_port(HcaPorts& ports, uint32_t number) {
    if (ports.find(number) == nullptr) {
        return std::unexpected(no_port(ports, number));
    }
    const ib::PortAttrs& port = ports.sma().port(number);
    pib_hca_query_port out{};
    ib::store_be(out.port_guid, port.guid().value());
    ib::store_be(out.gid_prefix, port.gid_prefix());
    out.capability_mask = static_cast<uint32_t>(port.get(pi::kCapabilityMask));
    out.capability_mask2 = static_cast<uint16_t>(port.get(pi::kCapabilityMask2));
    out.max_msg_size = Limits::kMaxMessage;
    out.bad_pkey_count = static_cast<uint32_t>(port.get(pi::kPKeyViolations));
    out.qkey_violation_count = static_cast<uint32_t>(port.get(pi::kQKeyViolations));
    out.lid = port.lid().value();
    out.sm_lid = port.sm_lid().value();
    out.pkey_table_length = static_cast<uint16_t>(port.pkeys.size());
    out.gid_table_length = static_cast<uint16_t>(port.guids.size());
    for (const ByteField& row : kByteFields) {
        out.*row.member = static_cast<uint8_t>(port.get(row.field));
    }
    return out;
}

CmdResult<PKeyTable> query_pkeys(HcaPorts& ports, uint32_t number) {
    const HcaPort* port = ports.find(number);
    if (port == nullptr) {
        return std::unexpected(no_port(ports, number));
    }
    PKeyTable table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        table[i] = port->pkey(i);
    }
    return table;
}

CmdResult<GidTable> query_gids(HcaPorts& ports, uint32_t number) {
    const HcaPort* port = ports.find(number);
    if (port == nullptr) {
        return std::unexpected(no_port(ports, number));
    }
    GidTable table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        if (const uint8_t* gid = port->gid(i)) {
            std::copy_n(gid, table[i].size(), table[i].begin());
        }
    }
    return table;
}

Verdict modify_port(HcaPorts& ports, uint32_t number, const pib_hca_modify_port& in,
                    uint64_t now_ns) {
    HcaPort* port = ports.find(number);
    if (port == nullptr) {
        return no_port(ports, number);
    }
    if ((in.flags & ~PIB_HCA_MODIFY_PORT_RESET_QKEY_COUNT) != 0) {
        return refuse(Rule::kPortFlags, in.flags, PIB_HCA_MODIFY_PORT_RESET_QKEY_COUNT);
    }
    if (in.reserved != 0) {
        return refuse(Rule::kPortReserved, in.reserved);
    }
    const uint32_t named = in.set_capability_mask | in.clear_capability_mask;
    const uint32_t both = in.set_capability_mask & in.clear_capability_mask;
    if ((named & ~kSoftwareCapabilities) != 0) {
        return refuse(Rule::kPortCapability, named, kSoftwareCapabilities);
    }
    if (both != 0) {
        return refuse(Rule::kPortBothMasks, in.set_capability_mask, both);
    }
    if ((in.flags & PIB_HCA_MODIFY_PORT_RESET_QKEY_COUNT) != 0) {
        ports.sma().port(number).set(pi::kQKeyViolations, 0);
    }
    ports.sma().change_capabilities(number, in.set_capability_mask, in.clear_capability_mask,
                                    now_ns);
    return CmdStatus::kOk;
}

Verdict modify_device(HcaPorts& ports, const pib_hca_modify_device& in, uint64_t now_ns) {
    if ((in.mask & ~kModifyDeviceMask) != 0) {
        return refuse(Rule::kDeviceMask, in.mask, kModifyDeviceMask);
    }
    if (in.reserved != 0) {
        return refuse(Rule::kDeviceReserved, in.reserved);
    }
    const bool new_guid = (in.mask & PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID) != 0;
    const ib::Guid guid(ib::load_be<uint64_t>(in.sys_image_guid));
    if (new_guid && guid == ib::Guid{}) {
        return refuse(Rule::kDeviceGuid);
    }
    if (new_guid) {
        ports.sma().set_system_image_guid(guid, now_ns);
    }
    if ((in.mask & PIB_HCA_MODIFY_DEVICE_NODE_DESC) != 0) {
        ports.sma().set_description(std::span(in.node_description), now_ns);
    }
    return CmdStatus::kOk;
}

// IGNORE_BKEY has no effect, because the guest's software handles all baseboard management MADs,
// which a B_Key protects.
CmdResult<MadIfcReply> mad_ifc(HcaPorts& ports, uint32_t number, const pib_hca_mad_ifc& in,
                               uint64_t now_ns) {
    if (ports.find(number) == nullptr) {
        return std::unexpected(no_port(ports, number));
    }
    if ((in.flags & ~kMadIfcFlags) != 0) {
        return std::unexpected(refuse(Rule::kMadFlags, in.flags, kMadIfcFlags));
    }
    if (!all_zero(in.reserved)) {
        return std::unexpected(refuse(Rule::kMadReserved));
    }
    ib::Mad mad;
    std::ranges::copy(in.mad, mad.bytes.begin());
    if (mad.is_smp()) {
        return smp_by_software(ports, mad,
                               {.port = static_cast<uint8_t>(number),
                                .slid = ib::Lid(in.slid),
                                .now_ns = now_ns,
                                .ignore_m_key = (in.flags & PIB_HCA_MAD_IFC_IGNORE_MKEY) != 0});
    }
    if (is_for_pma(mad)) {
        return pma_by_software(ports, mad, now_ns);
    }
    return MadIfcReply{};
}

}  // namespace pib::hca
