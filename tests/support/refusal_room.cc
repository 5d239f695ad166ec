// SPDX-License-Identifier: GPL-2.0-or-later
#include "refusal_room.h"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <string>

#include "base/rule_number.h"

namespace pib::hca::test {

namespace {

pib_hca_av vector_to(uint16_t dlid) {
    pib_hca_av av{};
    av.dlid = dlid;
    return av;
}

// Turns "pib-hca: CREATE_CQ id 7 refused: ..." into "CREATE_CQ refused: ...".
std::string without_id(const std::string& line) {
    const std::string who = "pib-hca: ", id = " id ";
    const size_t at = line.find(id);
    const size_t after = at == std::string::npos ? at : line.find(' ', at + id.size());
    if (!line.starts_with(who) || after == std::string::npos) {
        return line;
    }
    return line.substr(who.size(), at - who.size()) + line.substr(after);
}

}  // namespace

std::string last_rule(Device& device) {
    const std::string objects = device.objects();
    const std::string rule = "\"rule\":\"", text = "\",\"text\":\"";
    const size_t number = objects.rfind(rule), words = objects.rfind(text);
    if (number == std::string::npos || words == std::string::npos) {
        return "";
    }
    const size_t begin = number + rule.size(), after = words + text.size();
    return objects.substr(begin, words - begin) + " " +
           objects.substr(after, objects.find('"', after) - after);
}

void arrive(RefusalRoom& room, const MiniQp& qp, uint8_t opcode, size_t payload) {
    std::vector<uint8_t> bytes(512);
    ib::PacketHeaders headers{};
    headers.lrh = {.lnh = ib::Lnh::kIbaLocal, .slid = ib::Lid(2)};
    headers.bth.opcode = opcode;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(qp.qpn);
    auto builder = ib::PacketBuilder::begin(bytes, headers, payload, ib::Crcs::kElided);
    const auto packet = ib::PacketView::parse(builder->finish(), ib::Crcs::kElided);
    room.device->engine().enter([&] {
        ib::Placement here;
        room.device->engine().objects().transport.burst_in(1, ib::Burst(*packet), here);
    });
}

PostedRegistration post_registration(RefusalRoom& room, std::optional<uint8_t> before) {
    QpShape shape = room.shape();
    shape.flags = PIB_HCA_QP_PRIVILEGED;
    room.qp = room.d.create_qp(shape);
    RcPath path;
    path.av = vector_to(2);
    path.path_mtu = 1;
    path.dest_qpn = room.qp.qpn;
    room.d.connect_rc(room.qp, path);

    room.object = 0;
    const PostedRegistration posted{.table = room.host.alloc(4096),
                                    .key = room.pass(room.fast_in())};
    for (uint64_t i = 0; i < 2; ++i) {
        room.host.poke(posted.table + 8 * i, room.host.alloc(4096));
    }
    pib_hca_wqe_reg reg{};
    reg.key = posted.key;
    reg.access = PIB_HCA_ACCESS_LOCAL_WRITE;
    reg.length = 8192;
    reg.pages = {
        .root = posted.table, .page_count = 2, .levels = 1, .log_page_size = 12, .reserved = 0};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&reg);
    SendWr wr{.opcode = PIB_HCA_WQE_REG_MR, .segment = {bytes, bytes + sizeof reg}};
    if (before) {
        room.d.post_send(room.qp, {.opcode = *before});
        wr.flags |= *before == PIB_HCA_WQE_RDMA_READ ? PIB_HCA_WQE_FENCE : 0;
    }
    room.d.post_send(room.qp, wr);
    room.d.pump();
    return posted;
}

void let_steps_pass(RefusalRoom& room, unsigned steps) {
    for (unsigned step = 0; step < steps; ++step) {
        room.host.clock_ns += Strict::kStepNs;
        room.device->timer();
    }
}

Config refusal_config() {
    Config config = bench_config(2);
    config.knobs.inject = true;
    config.shadow_doorbells = true;
    return config;
}

Config plain_config() {
    return bench_config(2);
}

Config strict_config(Strictness strictness) {
    Config config = refusal_config();
    config.knobs.strict = strictness;
    return config;
}

std::set<std::string> check_refusals(std::span<const RefusalCase> cases) {
    std::set<std::string> named;
    for (const RefusalCase& one : cases) {
        CAPTURE(dotted_number(one.rule), one.text);
        RefusalRoom room(one.config());
        const CommandOutcome outcome = one.provoke(room);
        CHECK(outcome.status == static_cast<uint8_t>(status_of(one.rule)));
        const std::string& line = room.host.last_guest_error;
        CHECK(without_id(line) == one.text + citation(one.rule));
        const std::string rule = last_rule(*room.device);
        CHECK(rule == dotted_number(one.rule) + line.substr(line.find(' ')));
        named.insert(rule.substr(0, rule.find(' ')));
    }
    return named;
}

std::set<std::string> check_accesses(std::span<const AccessCase> cases) {
    std::set<std::string> named;
    for (const AccessCase& one : cases) {
        CAPTURE(dotted_number(one.rule), one.text);
        RefusalRoom room(refusal_config());
        const unsigned before = room.host.guest_errors;
        one.provoke(room);
        CHECK(room.host.guest_errors > before);
        const std::string rule = last_rule(*room.device);
        CHECK(rule == dotted_number(one.rule) + " " + one.text + citation(one.rule));
        named.insert(rule.substr(0, rule.find(' ')));
    }
    return named;
}

std::set<std::string> check_misuses(std::span<const MisuseCase> cases) {
    std::set<std::string> named;
    for (const MisuseCase& one : cases) {
        CAPTURE(dotted_number(one.rule), one.text);
        RefusalRoom room(strict_config());
        CHECK(last_rule(*room.device).empty());
        one.provoke(room);
        const std::string rule = last_rule(*room.device);
        CHECK(rule.starts_with(dotted_number(one.rule) + " "));
        CHECK(rule.ends_with(one.text + citation(one.rule)));
        REQUIRE(room.host.warnings.size() >= 2);
        const std::string& line = room.host.warnings[room.host.warnings.size() - 2];
        CHECK("pib-hca:" + rule.substr(rule.find(' ')) == line);
        CHECK(room.host.warnings.back().starts_with("pib-hca: before that: BAR"));
        named.insert(rule.substr(0, rule.find(' ')));

        RefusalRoom stopping(strict_config(Strictness::kFatal));
        CHECK_FALSE(stopping.device->engine().health().is_fatal());
        one.provoke(stopping);
        CHECK(stopping.device->engine().health().is_fatal());
    }
    return named;
}

pib_hca_set_shadow_page RefusalRoom::shadow_in() {
    return {.addr = host.alloc(4096)};
}

pib_hca_create_mr RefusalRoom::mr_in() {
    pib_hca_create_mr in{};
    const GuestMemory memory(host, 8192);
    in.pd = pd;
    in.access = PIB_HCA_ACCESS_LOCAL_WRITE;
    in.iova = memory.page(0);
    in.length = 8192;
    in.pages = memory.list();
    return in;
}

pib_hca_create_mr RefusalRoom::fast_in() {
    pib_hca_create_mr in{};
    in.pd = pd;
    in.flags = PIB_HCA_MR_FAST;
    in.pages.page_count = 4096;
    return in;
}

pib_hca_create_mr RefusalRoom::on_demand_in() {
    pib_hca_create_mr in{};
    in.pd = pd;
    in.flags = PIB_HCA_MR_ON_DEMAND;
    in.length = 4096;
    in.pages.root = host.alloc(4096);
    in.pages.levels = 1;
    in.pages.log_page_size = 12;
    return in;
}

pib_hca_rereg_mr RefusalRoom::rereg_in() {
    const uint32_t key = pass(mr_in());
    pib_hca_rereg_mr in{};
    in.mr = mr_in();
    in.mask = PIB_HCA_REREG_MR_TRANSLATION;
    object = key;
    return in;
}

pib_hca_resume_page_fault RefusalRoom::resume_in() {
    qp = d.create_qp(shape());
    return of<pib_hca_resume_page_fault>(qp.qpn);
}

pib_hca_alloc_mw RefusalRoom::window_in() {
    pib_hca_alloc_mw in{};
    in.pd = pd;
    in.type = PIB_HCA_MW_TYPE_1;
    return in;
}

pib_hca_create_eq QueueInputs::eq_in() {
    pib_hca_create_eq in{};
    in.pages = GuestMemory(host, sizeof(pib_hca_eqe) << 4).list();
    in.vector = 1;
    in.log_depth = 4;
    return in;
}

pib_hca_create_cq QueueInputs::cq_in() {
    pib_hca_create_cq in{};
    in.pages = GuestMemory(host, PIB_HCA_QUEUE_HEADER_SIZE + (sizeof(pib_hca_cqe) << 4)).list();
    in.eqn = eq.eqn;
    in.log_depth = 4;
    return in;
}

pib_hca_resize_cq QueueInputs::resize_in() {
    pib_hca_resize_cq in{};
    in.pages = cq_in().pages;
    in.log_depth = 4;
    object = cq.cqn;
    return in;
}

pib_hca_create_srq QueueInputs::srq_in() {
    pib_hca_create_srq in{};
    srq_ring = GuestMemory(host, 64 + (1u << 13));
    in.pages = srq_ring.list();
    in.pd = pd;
    in.offset = 64;
    in.log_depth = 4;
    in.log_stride = 9;
    return in;
}

pib_hca_create_srq QueueInputs::xrc_srq_in() {
    pib_hca_create_srq in = srq_in();
    in.flags = PIB_HCA_SRQ_XRC;
    in.xrcd = MiniDriver::must(d.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
    in.cq = cq.cqn;
    return in;
}

pib_hca_modify_srq QueueInputs::modify_srq_in() {
    const uint32_t srqn = pass(srq_in());
    pib_hca_modify_srq in{};
    in.attr_mask = PIB_HCA_SRQ_ATTR_MAX_WR;
    in.pages = GuestMemory(host, 64 + (1u << 13)).list();
    in.log_depth = 4;
    object = srqn;
    return in;
}

pib_hca_create_qp RefusalRoom::qp_in() {
    pib_hca_create_qp in{};
    in.pages = GuestMemory(host, 8192).list();
    in.pd = pd;
    in.send_cq = in.recv_cq = cq.cqn;
    in.sq_offset = 64;
    in.rq_offset = 4096;
    in.type = PIB_HCA_QP_RC;
    in.log_sq_depth = in.log_rq_depth = 2;
    in.log_sq_stride = 7;
    in.log_rq_stride = 6;
    return in;
}

pib_hca_create_qp RefusalRoom::target_in() {
    pib_hca_create_qp in{};
    in.type = PIB_HCA_QP_XRC_TGT;
    in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
    in.xrcd = MiniDriver::must(d.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
    return in;
}

pib_hca_modify_qp RefusalRoom::init_in() {
    qp = d.create_qp(shape());
    object = qp.qpn;
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                   PIB_HCA_QP_ATTR_ACCESS_FLAGS;
    in.state = PIB_HCA_QPS_INIT;
    in.port = 1;
    return in;
}

pib_hca_modify_qp RefusalRoom::rtr_in() {
    pass(init_in());
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU |
                   PIB_HCA_QP_ATTR_DEST_QPN | PIB_HCA_QP_ATTR_RQ_PSN |
                   PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
    in.state = PIB_HCA_QPS_RTR;
    in.path_mtu = 1;
    in.dest_qpn = qp.qpn;
    in.av = vector_to(2);
    return in;
}

pib_hca_modify_qp RefusalRoom::alternate_in() {
    pib_hca_modify_qp in = rtr_in();
    in.attr_mask |= PIB_HCA_QP_ATTR_ALT_PATH;
    in.alt_av = vector_to(3);
    in.alt_port = 2;
    return in;
}

pib_hca_modify_qp RefusalRoom::rts_in() {
    pass(rtr_in());
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN | PIB_HCA_QP_ATTR_TIMEOUT |
                   PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
                   PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;
    in.state = PIB_HCA_QPS_RTS;
    return in;
}

pib_hca_mcast RefusalRoom::mcast_in() {
    qp = d.create_qp(shape(PIB_HCA_QP_UD));
    object = qp.qpn;
    pib_hca_mcast in{};
    in.mgid[0] = 0xff;
    in.mlid = 0xc000;
    return in;
}

pib_hca_inject_event RefusalRoom::inject_in(uint8_t type, uint32_t number) {
    object = number;
    pib_hca_inject_event in{};
    in.type = type;
    return in;
}

pib_hca_inject_event RefusalRoom::port_event_in() {
    pib_hca_inject_event in = inject_in(PIB_HCA_EVENT_PORT, 0);
    in.port = 1;
    in.data = 1;
    return in;
}

}  // namespace pib::hca::test
