// SPDX-License-Identifier: GPL-2.0-or-later
// The commands about ports: what they show, what they refuse, and MADs that software hands in.
#include "bench.h"
#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
using ib::Method;

namespace {

pib_hca_mad_ifc mad_ifc_input(const ib::Mad& mad) {
    pib_hca_mad_ifc in{};
    std::ranges::copy(mad.bytes, in.mad);
    in.slid = 0xffff;
    return in;
}

uint32_t hand_in(PortBench& bench, const pib_hca_mad_ifc& in, ib::Mad* out = nullptr) {
    const auto reply = mad_ifc(bench.ports, 1, in, bench.host.clock_ns);
    REQUIRE(reply);
    if (out != nullptr) {
        *out = reply->mad;
    }
    return reply->result;
}

Verdict modify(PortBench& bench, uint32_t set, uint32_t clear, uint32_t flags = 0,
               uint32_t reserved = 0) {
    pib_hca_modify_port in{};
    in.set_capability_mask = set;
    in.clear_capability_mask = clear;
    in.flags = flags;
    in.reserved = reserved;
    return modify_port(bench.ports, 1, in, bench.host.clock_ns);
}

constexpr uint32_t kSuccess = PIB_HCA_MAD_RESULT_SUCCESS;
constexpr uint32_t kReply = kSuccess | PIB_HCA_MAD_RESULT_REPLY;
constexpr uint32_t kConsumed = kSuccess | PIB_HCA_MAD_RESULT_CONSUMED;

}  // namespace

TEST_CASE("QUERY_PORT returns PortInfo") {
    PortBench bench;
    auto out = query_port(bench.ports, 1);
    REQUIRE(out);
    CHECK(out->state == 1);
    CHECK(out->phys_state == 2);
    bench.bring_up();
    out = query_port(bench.ports, 1);
    REQUIRE(out);
    CHECK(ib::load_be<uint64_t>(out->port_guid) == 0x5254000000000011);
    CHECK(ib::load_be<uint64_t>(out->gid_prefix) == ib::kDefaultGidPrefix);
    CHECK(out->state == 4);
    CHECK(out->phys_state == 5);
    CHECK(out->lid == PortBench::kLid);
    CHECK(out->sm_lid == PortBench::kSmLid);
    CHECK(out->pkey_table_length == 32);
    CHECK(out->gid_table_length == 16);
    CHECK(out->max_mtu == 5);
    CHECK(out->active_mtu == 5);
    CHECK(out->max_vl_count == 4);
    CHECK(out->active_width == 2);
    CHECK(out->active_speed_ext == 8);
    CHECK(out->max_msg_size == Limits::kMaxMessage);
    CHECK((out->capability_mask & ib::port_cap::kIsTrapSupported) != 0);
    CHECK((out->capability_mask2 & ib::port_cap2::kIsLinkSpeedNdrSupported) != 0);
}

TEST_CASE("commands return the P_Key and GID tables of a port") {
    PortBench bench;
    const auto pkeys = query_pkeys(bench.ports, 1);
    REQUIRE(pkeys);
    CHECK((*pkeys)[0] == 0xffff);
    CHECK((*pkeys)[1] == 0);
    const auto gids = query_gids(bench.ports, 1);
    REQUIRE(gids);
    CHECK(ib::load_be<uint64_t>(&(*gids)[0][8]) == 0x5254000000000011);
    CHECK((*gids)[15] == GidTable::value_type{});
}

TEST_CASE("commands refuse an unknown port") {
    PortBench bench;
    for (const uint32_t port : {0u, 2u, UINT32_MAX}) {
        CHECK(query_port(bench.ports, port).error() == CmdStatus::kBadResource);
        CHECK(query_pkeys(bench.ports, port).error() == CmdStatus::kBadResource);
        CHECK(query_gids(bench.ports, port).error() == CmdStatus::kBadResource);
        CHECK(modify_port(bench.ports, port, {}, 0) == CmdStatus::kBadResource);
        CHECK(mad_ifc(bench.ports, port, {}, 0).error() == CmdStatus::kBadResource);
    }
}

TEST_CASE("MODIFY_PORT changes only the attributes that software owns") {
    PortBench bench;
    const auto mask = [&] { return query_port(bench.ports, 1)->capability_mask; };
    const uint32_t before = mask();
    const uint32_t cm = ib::port_cap::kIsCommunicationManagementSupported;
    CHECK(modify(bench, cm, 0) == CmdStatus::kOk);
    CHECK(mask() == (before | cm));
    CHECK(modify(bench, 0, cm) == CmdStatus::kOk);
    CHECK(mask() == before);
    CHECK(modify(bench, 0, ib::port_cap::kIsTrapSupported) == CmdStatus::kBadParam);
    CHECK(modify(bench, cm, cm) == CmdStatus::kBadParam);
    CHECK(modify(bench, 0, 0, 2) == CmdStatus::kBadReserved);
    CHECK(modify(bench, 0, 0, 0, 1) == CmdStatus::kBadReserved);
    CHECK(mask() == before);

    bench.attrs().set(ib::port_info::kQKeyViolations, 7);
    CHECK(query_port(bench.ports, 1)->qkey_violation_count == 7);
    CHECK(modify(bench, 0, 0, PIB_HCA_MODIFY_PORT_RESET_QKEY_COUNT) == CmdStatus::kOk);
    CHECK(query_port(bench.ports, 1)->qkey_violation_count == 0);
}

TEST_CASE("MODIFY_DEVICE sets description and system image GUID until a reset") {
    PortBench bench;
    bench.connect();
    pib_hca_modify_device in{};
    in.mask = PIB_HCA_MODIFY_DEVICE_NODE_DESC | PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID;
    std::strcpy(reinterpret_cast<char*>(in.node_description), "vm0 pib0");
    CHECK(modify_device(bench.ports, in, 0) == CmdStatus::kBadParam);  // GUID 0
    CHECK(bench.ports.sma().node().description[0] == 'b');
    in.sys_image_guid[7] = 9;
    CHECK(modify_device(bench.ports, in, 0) == CmdStatus::kOk);
    const auto info = bench.ask(make_dr_smp(Method::kGet, ib::attr::kNodeInfo));
    CHECK(ib::get(info.smp_data(), ib::node_info::kSystemImageGuid) == 9);
    const auto description = bench.ask(make_dr_smp(Method::kGet, ib::attr::kNodeDescription));
    CHECK(description.smp_data()[4] == 'p');
    in.mask = 4;
    CHECK(modify_device(bench.ports, in, 0) == CmdStatus::kBadReserved);
    bench.ports.reset(false);
    CHECK(bench.ports.sma().node().description[0] == 'b');
    CHECK(bench.ports.sma().node().system_image_guid == bench.ports.sma().node().node_guid);
}

TEST_CASE("MAD_IFC answers only SMPs and PMA queries") {
    PortBench bench;
    ib::Mad out;
    ib::Mad dr = make_dr_smp(Method::kGet, ib::attr::kNodeInfo);
    dr.set(ib::smp::kHopCount, 0);  // to the node itself
    CHECK(hand_in(bench, mad_ifc_input(dr), &out) == kReply);
    CHECK(out.method() == Method::kGetResp);
    CHECK(is_returning(out));
    CHECK(ib::get(out.smp_data(), ib::node_info::kNodeGuid) == 0x5254000000000001);

    ib::Mad counters = make_mad(ib::MgmtClass::kPerf, Method::kGet, ib::attr::kPortCounters);
    ib::set(counters.gmp_data(), ib::pma::kPortSelect, 1);
    CHECK(hand_in(bench, mad_ifc_input(counters), &out) == kReply);
    CHECK(out.status() == 0);

    const auto lid_routed = ib::MgmtClass::kSubnLidRouted;
    CHECK(hand_in(bench, mad_ifc_input(make_mad(lid_routed, Method::kGet, ib::attr::kSmInfo))) ==
          kSuccess);
    CHECK(hand_in(bench, mad_ifc_input(make_mad(lid_routed, Method::kTrap, ib::attr::kNotice))) ==
          kSuccess);
    CHECK(hand_in(bench, mad_ifc_input(make_mad(lid_routed, Method::kGetResp,
                                                ib::attr::kNodeInfo))) == kSuccess);
    CHECK(hand_in(bench, mad_ifc_input(make_mad(lid_routed, Method::kTrapRepress,
                                                ib::attr::kNotice))) == kConsumed);
    CHECK(hand_in(bench, mad_ifc_input(make_mad(ib::MgmtClass::kComMgt, Method::kSend, 0x10))) ==
          kSuccess);
    CHECK(hand_in(bench, mad_ifc_input(make_mad(ib::MgmtClass::kPerf, Method::kGetResp,
                                                ib::attr::kPortCounters))) == kSuccess);
    ib::Mad old = make_mad(lid_routed, Method::kGet, ib::attr::kNodeInfo);
    old.set(ib::mad_header::kBaseVersion, 0);
    CHECK(hand_in(bench, mad_ifc_input(old)) == kConsumed);
}

TEST_CASE("MAD_IFC checks the M_Key unless its flag forbids that") {
    PortBench bench;
    bench.bring_up();
    bench.attrs().set(ib::port_info::kMKey, 0x5ec7e7);
    bench.attrs().set(ib::port_info::kMKeyProtectBits, 2);
    auto in = mad_ifc_input(
        make_mad(ib::MgmtClass::kSubnLidRouted, Method::kGet, ib::attr::kPortInfo, 1));
    CHECK(hand_in(bench, in) == kConsumed);
    CHECK(bench.attrs().get(ib::port_info::kMKeyViolations) == 1);
    in.flags = PIB_HCA_MAD_IFC_IGNORE_MKEY;
    ib::Mad out;
    CHECK(hand_in(bench, in, &out) == kReply);
    CHECK(out.status() == 0);
    CHECK(bench.attrs().get(ib::port_info::kMKeyViolations) == 1);
    in.flags = 4;
    CHECK(mad_ifc(bench.ports, 1, in, 0).error() == CmdStatus::kBadReserved);
    in.flags = 0;
    in.reserved[5] = 1;
    CHECK(mad_ifc(bench.ports, 1, in, 0).error() == CmdStatus::kBadReserved);
}

TEST_CASE("an SM in the guest brings its own port up by MAD_IFC") {
    PortBench bench;
    bench.connect();
    ib::Mad set = make_dr_smp(Method::kSet, ib::attr::kPortInfo, 1);
    std::ranges::copy(bench.attrs().info, set.smp_data().begin());
    ib::set(set.smp_data(), ib::port_info::kPortPhysicalState, 0);
    ib::set(set.smp_data(), ib::port_info::kLid, 1);
    ib::set(set.smp_data(), ib::port_info::kMasterSmLid, 1);
    for (const unsigned state : {3u, 4u}) {
        ib::set(set.smp_data(), ib::port_info::kPortState, state);
        CHECK(hand_in(bench, mad_ifc_input(set)) == kReply);
    }
    CHECK(bench.port().is_active());
    CHECK(bench.port().owns_lid(1));
    CHECK(bench.take_events() == (PIB_HCA_PORT_EVENT_ACTIVE | PIB_HCA_PORT_EVENT_LID_CHANGE |
                                  PIB_HCA_PORT_EVENT_SM_CHANGE));
}

TEST_CASE("the ports of one HCA are one node and manage themselves only") {
    Config config = PortBench::default_config();
    config.port_count = 2;
    PortBench bench(config);
    const auto by_port_2 = [&](const ib::Mad& mad) {
        const auto reply = mad_ifc(bench.ports, 2, mad_ifc_input(mad), bench.host.clock_ns);
        REQUIRE(reply);
        REQUIRE(reply->has_mad());
        return reply->mad;
    };
    const auto lid_routed = ib::MgmtClass::kSubnLidRouted;
    ib::Mad info = by_port_2(make_mad(lid_routed, Method::kGet, ib::attr::kNodeInfo));
    CHECK(ib::get(info.smp_data(), ib::node_info::kNumPorts) == 2);
    CHECK(ib::get(info.smp_data(), ib::node_info::kLocalPortNum) == 2);
    CHECK(ib::get(info.smp_data(), ib::node_info::kPortGuid) == 0x5254000000000012);
    CHECK(ib::get(info.smp_data(), ib::node_info::kNodeGuid) == 0x5254000000000001);

    bench.connect();  // port 1
    CHECK(query_port(bench.ports, 1)->state == 2);
    CHECK(query_port(bench.ports, 2)->state == 1);
    CHECK(by_port_2(make_mad(lid_routed, Method::kGet, ib::attr::kPortInfo, 1)).status() == 0);
    ib::Mad set = make_mad(lid_routed, Method::kSet, ib::attr::kPortInfo, 1);
    CHECK(by_port_2(set).status() == ib::mad_status::kBadField);
    CHECK(query_port(bench.ports, 1)->state == 2);
    CHECK(bench.ports.find(3) == nullptr);
}

TEST_CASE("QUERY_COUNTERS returns counters of each port and of the device") {
    ReadyBench bench(bench_config(2));
    MiniDriver& d = bench.driver;
    MiniQp qp = d.create_qp(bench.shape(PIB_HCA_QP_UD));
    d.connect_ud(qp, 2, 0x1234);
    pib_hca_modify_qp error{};
    error.attr_mask = PIB_HCA_QP_ATTR_STATE;
    error.state = PIB_HCA_QPS_ERR;
    REQUIRE(d.modify(qp, error).ok());
    d.post_recv(qp, {});
    d.wait(bench.cq);
    const auto of = [&](uint32_t port) {
        Counters::Row row{};
        REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_COUNTERS, port, row).ok());
        return row;
    };
    CHECK(of(1)[PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR] == 0);
    CHECK(of(2)[PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR] == 1);
    CHECK(of(0)[PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR] == 1);
    d.ring(0, PIB_HCA_UAR_SEND, 0xffffff);
    CHECK(of(0)[PIB_HCA_COUNTER_FOREIGN_DOORBELL] == 1);
    CHECK(of(1)[PIB_HCA_COUNTER_FOREIGN_DOORBELL] == 0);
    Counters::Row row{};
    CHECK(d.command_out(PIB_HCA_CMD_QUERY_COUNTERS, 3, row).status ==
          PIB_HCA_CMD_STATUS_BAD_RESOURCE);
}
