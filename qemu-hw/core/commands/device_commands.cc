// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about the device as a whole.
#include <algorithm>

#include "commands/command_table.h"
#include "commands/port_operations.h"
#include "ib/wire/field.h"

namespace pib::hca {

namespace {

// The project's version, 0.1.0.
constexpr uint64_t kFirmwareVersion = uint64_t{0} << 32 | 1u << 16 | 0;
// Local CA ACK Delay: 4.096 us * 2^15 = 134 ms, because QEMU may have to wait for a processor.
constexpr uint8_t kLocalCaAckDelay = 15;
constexpr uint64_t kPageSizes = ((uint64_t{2} << PIB_HCA_MAX_LOG_PAGE_SIZE) - 1) &
                                ~((uint64_t{1} << PIB_HCA_MIN_LOG_PAGE_SIZE) - 1);

void put_identity(const DeviceObjects& objects, pib_hca_query_device& out) {
    const ib::SmaNode& node = objects.ports.sma().node();
    ib::store_be(out.node_guid, node.node_guid.value());
    ib::store_be(out.sys_image_guid, node.system_image_guid.value());
    std::ranges::copy(node.description, out.node_description);
    out.fw_version = kFirmwareVersion;
    out.vendor_id = kVendorOui;
    out.vendor_part_id = kDeviceId;
    out.hw_version = kHardwareRevision;
    out.port_count = static_cast<uint8_t>(objects.config.port_count);
    out.device_memory_pages = objects.config.device_memory_pages;
}

void put_limits(const Config& config, pib_hca_query_device& out) {
    out.max_mr_size = Limits::kMaxMrBytes;
    out.page_size_cap = kPageSizes;
    out.max_qp = Limits::kQps;
    out.max_qp_wr = 1u << PIB_HCA_MAX_WQ_LOG_DEPTH;
    out.max_sge = Limits::kSge;
    out.max_sge_rd = Limits::kSge;
    out.max_inline_data = Limits::kInline;
    out.max_cq = Limits::kCqs;
    out.max_cqe = 1u << PIB_HCA_MAX_CQ_LOG_DEPTH;
    out.max_mr = Limits::kMrs;
    out.max_pd = Limits::kPds;
    out.max_eq = Limits::kEqs;
    out.max_uar = PIB_HCA_MAX_UARS;
    out.max_mcast_grp = Limits::kMcastGroups;
    out.max_mcast_qp_attach = Limits::kMcastAttachPerGroup;
    out.max_total_mcast_qp_attach = Limits::kMcastGroups * Limits::kMcastAttachPerGroup;
    out.max_qp_rd_atom = Limits::kRdAtomic;
    out.max_qp_init_rd_atom = Limits::kRdAtomic;
    out.max_res_rd_atom = Limits::kQps * Limits::kRdAtomic;
    out.max_srq = Limits::kSrqs;
    out.max_srq_wr = 1u << PIB_HCA_MAX_WQ_LOG_DEPTH;
    out.max_xrcd = Limits::kXrcds;
    out.max_srq_sge = Limits::kSge;
    out.max_pkeys = Limits::kPkeys;
    out.max_msg_size = Limits::kMaxMessage;
    out.privileged_lkey = kPrivilegedLkey;
    out.local_ca_ack_delay = kLocalCaAckDelay;
    out.max_mw = Limits::kMrs;
    out.max_fast_reg_pages = Limits::kFastRegPages;
    out.feature_flags = PIB_HCA_FEATURE_MEM_MGT_EXTENSIONS | PIB_HCA_FEATURE_MW_TYPE_1 |
                        PIB_HCA_FEATURE_MW_TYPE_2B | PIB_HCA_FEATURE_FLUSH_GLOBAL |
                        PIB_HCA_FEATURE_ATOMIC_WRITE | PIB_HCA_FEATURE_MASKED_ATOMICS |
                        PIB_HCA_FEATURE_ON_DEMAND | PIB_HCA_FEATURE_APM | PIB_HCA_FEATURE_REFUSALS |
                        (config.knobs.inject ? PIB_HCA_FEATURE_INJECT : 0) |
                        (config.shadow_doorbells ? PIB_HCA_FEATURE_SHADOW_DOORBELLS : 0);
}

}  // namespace

CommandReply cmd_nop(DeviceObjects&, const CommandInput&) {
    return {};
}

CommandReply cmd_query_device(DeviceObjects& objects, const CommandInput&) {
    pib_hca_query_device out{};
    put_identity(objects, out);
    put_limits(objects.config, out);
    return CommandReply::data(out);
}

CommandReply cmd_modify_device(DeviceObjects& objects, const CommandInput& in) {
    return modify_device(objects.ports, in.as<pib_hca_modify_device>(), objects.host.now_ns());
}

CommandReply cmd_query_counters(DeviceObjects& objects, const CommandInput& in) {
    if (in.object == 0) {
        return CommandReply::data(objects.counters.totals());
    }
    if (objects.ports.find(in.object) == nullptr) {
        return refuse(Rule::kNoPort, in.object, objects.config.port_count);
    }
    return CommandReply::data(objects.counters.rows[in.object]);
}

}  // namespace pib::hca
