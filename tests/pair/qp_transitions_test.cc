// SPDX-License-Identifier: GPL-2.0-or-later
// MODIFY_QP: every pair of states, every missing attribute, every value that is out of range; a
// refused command changes nothing.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr pib_hca_qp_state kStates[] = {PIB_HCA_QPS_RESET, PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR,
                                        PIB_HCA_QPS_RTS,   PIB_HCA_QPS_SQD,  PIB_HCA_QPS_SQE,
                                        PIB_HCA_QPS_ERR};

// All attributes that a transition requires, so that only the transition itself can be wrong.
uint32_t mask_for(pib_hca_qp_type type, pib_hca_qp_state from, pib_hca_qp_state to) {
    const bool rc = type == PIB_HCA_QP_RC;
    const bool connected = rc || type == PIB_HCA_QP_UC;
    if (from == PIB_HCA_QPS_RESET && to == PIB_HCA_QPS_INIT) {
        return PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
               (connected ? PIB_HCA_QP_ATTR_ACCESS_FLAGS : PIB_HCA_QP_ATTR_QKEY);
    }
    if (from == PIB_HCA_QPS_INIT && to == PIB_HCA_QPS_RTR && connected) {
        return PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU | PIB_HCA_QP_ATTR_DEST_QPN |
               PIB_HCA_QP_ATTR_RQ_PSN |
               (rc ? PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER : 0);
    }
    if (from == PIB_HCA_QPS_RTR && to == PIB_HCA_QPS_RTS) {
        return PIB_HCA_QP_ATTR_SQ_PSN |
               (rc ? PIB_HCA_QP_ATTR_TIMEOUT | PIB_HCA_QP_ATTR_RETRY_CNT |
                         PIB_HCA_QP_ATTR_RNR_RETRY | PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC
                   : 0);
    }
    return 0;
}

pib_hca_modify_qp attributes(uint32_t mask, pib_hca_qp_state to) {
    pib_hca_modify_qp in{};
    in.attr_mask = mask | PIB_HCA_QP_ATTR_STATE;
    in.state = to;
    in.port = 1;
    in.path_mtu = 3;
    in.av.dlid = 2;
    in.max_rd_atomic = in.max_dest_rd_atomic = 1;
    return in;
}

// Brings a fresh QP into a state by legal steps. SQE is reached by a WQE that fails.
Qp qp_in(Hca& hca, pib_hca_qp_type type, pib_hca_qp_state state) {
    Qp qp = hca.create({.type = type});
    if (state == PIB_HCA_QPS_RESET) {
        return qp;
    }
    if (state == PIB_HCA_QPS_ERR) {
        to_state(hca, qp, PIB_HCA_QPS_ERR);
        return qp;
    }
    if (type == PIB_HCA_QP_RC) {
        to_init(hca, qp);
        if (state == PIB_HCA_QPS_INIT) {
            return qp;
        }
        to_rtr(hca, qp, hca.av_to(hca), qp.qpn);
        if (state == PIB_HCA_QPS_RTR) {
            return qp;
        }
        to_rts(hca, qp);
    } else {
        for (const pib_hca_qp_state step : {PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR, PIB_HCA_QPS_RTS}) {
            const pib_hca_qp_state from = hca.state(qp);
            const auto in = attributes(mask_for(type, from, step), step);
            REQUIRE(modify_qp(hca, qp.qpn, in) == CmdStatus::kOk);
            if (step == state) {
                return qp;
            }
        }
    }
    if (state == PIB_HCA_QPS_SQD) {
        to_state(hca, qp, PIB_HCA_QPS_SQD);
    } else if (state == PIB_HCA_QPS_SQE) {
        hca.post(qp, {.opcode = 0x7f});
    }
    return qp;
}

bool is_legal(pib_hca_qp_type type, pib_hca_qp_state from, pib_hca_qp_state to) {
    if (to == PIB_HCA_QPS_RESET || to == PIB_HCA_QPS_ERR) {
        return true;
    }
    switch (from) {
        case PIB_HCA_QPS_RESET:
            return to == PIB_HCA_QPS_INIT;
        case PIB_HCA_QPS_INIT:
            return to == PIB_HCA_QPS_INIT || to == PIB_HCA_QPS_RTR;
        case PIB_HCA_QPS_RTR:
            return to == PIB_HCA_QPS_RTS;
        case PIB_HCA_QPS_RTS:
        case PIB_HCA_QPS_SQD:
            return to == PIB_HCA_QPS_RTS || to == PIB_HCA_QPS_SQD;
        case PIB_HCA_QPS_SQE:
            return to == PIB_HCA_QPS_RTS && type != PIB_HCA_QP_RC;
        default:
            return false;
    }
}

}  // namespace

TEST_CASE("only the specification's transitions are allowed") {
    const pib_hca_qp_type type = GENERATE(PIB_HCA_QP_RC, PIB_HCA_QP_UC, PIB_HCA_QP_UD);
    for (const pib_hca_qp_state from : kStates) {
        if (from == PIB_HCA_QPS_SQE && type == PIB_HCA_QP_RC) {
            continue;  // no such state
        }
        for (const pib_hca_qp_state to : kStates) {
            Hca hca(1);
            const Qp qp = qp_in(hca, type, from);
            REQUIRE(hca.state(qp) == from);
            INFO("type " << type << " from " << from << " to " << to);
            const auto in = attributes(mask_for(type, from, to), to);
            const Verdict status = modify_qp(hca, qp.qpn, in);
            const bool legal = is_legal(type, from, to);
            CHECK(status == (legal ? CmdStatus::kOk : CmdStatus::kBadState));
            CHECK(hca.state(qp) == (legal ? to : from));
        }
    }
}

TEST_CASE("MODIFY_QP requires the attributes of the table and refuses all others") {
    const pib_hca_qp_type type = GENERATE(PIB_HCA_QP_RC, PIB_HCA_QP_UC, PIB_HCA_QP_UD);
    const pib_hca_qp_state steps[] = {PIB_HCA_QPS_RESET, PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR,
                                      PIB_HCA_QPS_RTS};
    for (unsigned i = 0; i < 3; ++i) {
        const pib_hca_qp_state from = steps[i];
        const pib_hca_qp_state to = steps[i + 1];
        const uint32_t mask = mask_for(type, from, to);
        for (unsigned bit = 1; bit < 21; ++bit) {
            Hca hca(1);
            const Qp qp = qp_in(hca, type, from);
            if ((mask & (1u << bit)) != 0) {
                const auto in = attributes(mask & ~(1u << bit), to);
                CHECK(modify_qp(hca, qp.qpn, in) == CmdStatus::kBadParam);
                CHECK(hca.state(qp) == from);
            }
        }
    }
    Hca hca(1);
    const Qp qp = qp_in(hca, type, PIB_HCA_QPS_RESET);
    const auto in =
        attributes(mask_for(type, PIB_HCA_QPS_RESET, PIB_HCA_QPS_INIT) | PIB_HCA_QP_ATTR_TIMEOUT,
                   PIB_HCA_QPS_INIT);
    CHECK(modify_qp(hca, qp.qpn, in) == CmdStatus::kBadParam);
}

TEST_CASE("MODIFY_QP refuses attributes outside of their range") {
    struct Case {
        pib_hca_qp_state from;
        pib_hca_qp_state to;
        void (*spoil)(pib_hca_modify_qp&);
        CmdStatus status = CmdStatus::kBadParam;
    };
    using In = pib_hca_modify_qp&;
    constexpr pib_hca_qp_state kReset = PIB_HCA_QPS_RESET;
    constexpr pib_hca_qp_state kInit = PIB_HCA_QPS_INIT;
    constexpr pib_hca_qp_state kRtr = PIB_HCA_QPS_RTR;
    constexpr pib_hca_qp_state kRts = PIB_HCA_QPS_RTS;
    const Case cases[] = {
        {kReset, kInit, [](In in) { in.port = 0; }},
        {kReset, kInit, [](In in) { in.port = 2; }},
        {kReset, kInit, [](In in) { in.pkey_index = 4; }},
        {kReset, kInit, [](In in) { in.access_flags = 0x10; }},
        {kInit, kRtr, [](In in) { in.path_mtu = 0; }},
        {kInit, kRtr, [](In in) { in.path_mtu = 6; }},
        {kInit, kRtr, [](In in) { in.rq_psn = 1u << 24; }},
        {kInit, kRtr, [](In in) { in.dest_qpn = 1u << 24; }},
        {kInit, kRtr, [](In in) { in.max_dest_rd_atomic = 17; }},
        {kInit, kRtr, [](In in) { in.min_rnr_timer = 32; }},
        {kInit, kRtr, [](In in) { in.av.dlid = 0; }},
        {kInit, kRtr, [](In in) { in.av.dlid = 0xc000; }},
        {kInit, kRtr, [](In in) { in.av.dlid = 0xffff; }},
        {kInit, kRtr, [](In in) { in.av.sl = 16; }},
        {kInit, kRtr, [](In in) { in.av.src_path_bits = 128; }},
        {kInit, kRtr, [](In in) { in.av.static_rate = 1; }},
        {kInit, kRtr, [](In in) { in.av.port = 1; }},
        {kInit, kRtr, [](In in) { in.av.flags = 1, in.av.sgid_index = 1; }},
        {kInit, kRtr, [](In in) { in.av.flags = 1, in.av.flow_label = 1u << 20; }},
        {kInit, kRtr, [](In in) { in.av.flags = 2; }, CmdStatus::kBadReserved},
        {kInit, kRtr, [](In in) { in.av.reserved[1] = 1; }, CmdStatus::kBadReserved},
        {kInit, kRtr, [](In in) { in.attr_mask |= PIB_HCA_QP_ATTR_ALT_PATH; }},
        {kInit, kRtr,
         [](In in) { in.attr_mask |= PIB_HCA_QP_ATTR_PATH_MIG_STATE, in.path_mig_state = 1; },
         CmdStatus::kBadState},
        {kRtr, kRts, [](In in) { in.timeout = 32; }},
        {kRtr, kRts, [](In in) { in.retry_cnt = 8; }},
        {kRtr, kRts, [](In in) { in.rnr_retry = 8; }},
        {kRtr, kRts, [](In in) { in.sq_psn = 1u << 24; }},
        {kRtr, kRts, [](In in) { in.max_rd_atomic = 17; }},
        {kRtr, kRts, [](In in) { in.attr_mask |= PIB_HCA_QP_ATTR_CUR_STATE, in.cur_state = 1; },
         CmdStatus::kBadState},
        {kReset, kInit, [](In in) { in.state = 7; }},
    };
    for (const Case& c : cases) {
        Hca hca(1);
        const Qp qp = qp_in(hca, PIB_HCA_QP_RC, c.from);
        pib_hca_modify_qp in = attributes(mask_for(PIB_HCA_QP_RC, c.from, c.to), c.to);
        REQUIRE(in.attr_mask != PIB_HCA_QP_ATTR_STATE);
        const auto before = *query_qp(hca, qp.qpn);
        c.spoil(in);
        INFO("case " << &c - cases);
        CHECK(modify_qp(hca, qp.qpn, in) == c.status);
        const auto after = *query_qp(hca, qp.qpn);
        CHECK(std::memcmp(&before, &after, sizeof before) == 0);
    }
}

TEST_CASE("MODIFY_QP refuses an MTU above the port's") {
    Hca hca(1);
    hca.port.mtu = 2048;
    const Qp qp = qp_in(hca, PIB_HCA_QP_RC, PIB_HCA_QPS_INIT);
    auto in =
        attributes(mask_for(PIB_HCA_QP_RC, PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR), PIB_HCA_QPS_RTR);
    in.path_mtu = 5;
    CHECK(modify_qp(hca, qp.qpn, in) == CmdStatus::kBadParam);
    in.path_mtu = 4;
    CHECK(modify_qp(hca, qp.qpn, in) == CmdStatus::kOk);
}

TEST_CASE("QUERY_QP returns the attributes that MODIFY_QP set") {
    Hca hca(1);
    const Qp qp = qp_in(hca, PIB_HCA_QP_RC, PIB_HCA_QPS_RTS);
    const auto out = query_qp(hca, qp.qpn);
    REQUIRE(out);
    CHECK(out->attr_mask == 0);
    CHECK(out->path_mtu == 3);
    CHECK(out->timeout == 10);
    CHECK(out->retry_cnt == 7);
    CHECK(out->port == 1);
    CHECK(out->dest_qpn == qp.qpn);
    CHECK(out->av.dlid == 1);
    CHECK_FALSE(query_qp(hca, qp.qpn + 1));
    to_state(hca, qp, PIB_HCA_QPS_RESET);
    CHECK(query_qp(hca, qp.qpn)->dest_qpn == 0);
}

TEST_CASE("CREATE_QP refuses invalid parameters") {
    struct Case {
        void (*spoil)(pib_hca_create_qp&);
        CmdStatus status = CmdStatus::kBadParam;
    };
    using In = pib_hca_create_qp&;
    const Case cases[] = {
        {[](In in) { in.type = 5; }},
        {[](In in) { in.type = 7; }},
        {[](In in) { in.flags = 1u << 7; }, CmdStatus::kBadReserved},
        {[](In in) { in.reserved[1] = 1; }, CmdStatus::kBadReserved},
        {[](In in) { in.send_cq = 999; }, CmdStatus::kBadResource},
        {[](In in) { in.recv_cq = 0; }, CmdStatus::kBadResource},
        {[](In in) { in.log_sq_depth = 15; }},
        {[](In in) { in.log_rq_depth = 0xff; }},
        {[](In in) { in.log_sq_stride = 5; }},
        {[](In in) { in.log_sq_stride = 11; }},
        {[](In in) { in.log_rq_stride = 4; }},
        {[](In in) { in.sq_offset = 0; }},
        {[](In in) { in.sq_offset = 96; }},
        {[](In in) { in.rq_offset = in.sq_offset + 64; }},
        {[](In in) { in.rq_offset = 0xffffffc0; }},
        {[](In in) { in.max_inline = 129; }},
        {[](In in) { in.port = 1; }},
        {[](In in) { in.type = PIB_HCA_QP_GSI; }},
        {[](In in) { in.type = PIB_HCA_QP_GSI, in.port = 2; }},
        {[](In in) { in.flags = PIB_HCA_QP_NO_RQ; }},
        {[](In in) { in.pages.page_count = 1; }},
        {[](In in) { in.pages.root += 1; }},
        {[](In in) { in.pages.root = 1ull << 45; }, CmdStatus::kBadMemory},
    };
    Hca hca(1);
    const uint32_t cqn = hca.make_cq(4).cqn;
    pib_hca_create_qp good{};
    good.pages = {.root = hca.host.alloc(8192),
                  .page_count = 2,
                  .levels = 0,
                  .log_page_size = 12,
                  .reserved = 0};
    good.send_cq = good.recv_cq = cqn;
    good.sq_offset = 64;
    good.rq_offset = 64 + 4096;
    good.type = PIB_HCA_QP_RC;
    good.log_sq_depth = good.log_rq_depth = 4;
    good.log_sq_stride = 7;
    good.log_rq_stride = 6;
    good.max_inline = 64;
    for (const Case& c : cases) {
        pib_hca_create_qp in = good;
        c.spoil(in);
        INFO("case " << &c - cases);
        const auto refused = create_qp(hca, in);
        REQUIRE_FALSE(refused);
        CHECK(refused.error() == c.status);
        CHECK(hca.cqs.find(cqn)->users == 0);
    }
    const auto created = create_qp(hca, good);
    REQUIRE(created);
    CHECK(*created >= PIB_HCA_FIRST_QPN);
    CHECK(hca.cqs.find(cqn)->users == 2);
    CHECK(hca.transport.verbs().count_if([](const QueuePair& qp) { return qp.pd == 0; }) == 1);
    CHECK(hca.transport.verbs().destroy(*created) == CmdStatus::kOk);
    CHECK(hca.transport.verbs().destroy(*created) == CmdStatus::kBadResource);
    CHECK(hca.cqs.find(cqn)->users == 0);
}

namespace {

// The table of docs/device-spec.md (IBA table 91), with the attributes of XRC's halves. CUR_STATE
// is always allowed.
struct Attributes {
    uint32_t required;
    uint32_t optional;
};
constexpr uint32_t kPkey = PIB_HCA_QP_ATTR_PKEY_INDEX;
constexpr uint32_t kPort = PIB_HCA_QP_ATTR_PORT;
constexpr uint32_t kAccess = PIB_HCA_QP_ATTR_ACCESS_FLAGS;
constexpr uint32_t kQkey = PIB_HCA_QP_ATTR_QKEY;
constexpr uint32_t kCur = PIB_HCA_QP_ATTR_CUR_STATE;
constexpr uint32_t kAlt = PIB_HCA_QP_ATTR_ALT_PATH | PIB_HCA_QP_ATTR_PATH_MIG_STATE;
constexpr uint32_t kRnrTimer = PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
constexpr uint32_t kResponder = PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | kRnrTimer;
constexpr uint32_t kRequester =
    PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY | PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;

Attributes connected(pib_hca_qp_type type, pib_hca_qp_state from, pib_hca_qp_state to) {
    const bool reliable = type != PIB_HCA_QP_UC;
    const uint32_t asks = reliable && type != PIB_HCA_QP_XRC_TGT ? kRequester : 0;
    const uint32_t answers = reliable && type != PIB_HCA_QP_XRC_INI ? kResponder : 0;
    const uint32_t timeout = reliable ? PIB_HCA_QP_ATTR_TIMEOUT : 0;
    const uint32_t live = kAccess | kAlt | (answers & kRnrTimer);
    if (from == PIB_HCA_QPS_RESET) {
        return {kPkey | kPort | kAccess, 0};
    }
    if (from == PIB_HCA_QPS_INIT && to == PIB_HCA_QPS_INIT) {
        return {0, kPkey | kPort | kAccess};
    }
    if (from == PIB_HCA_QPS_INIT) {
        return {PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU | PIB_HCA_QP_ATTR_DEST_QPN |
                    PIB_HCA_QP_ATTR_RQ_PSN | answers,
                kAccess | kPkey | kAlt};
    }
    if (from == PIB_HCA_QPS_RTR) {
        return {PIB_HCA_QP_ATTR_SQ_PSN | timeout | asks, live};
    }
    if (from == PIB_HCA_QPS_SQE) {
        return {0, kAccess};
    }
    if (from == PIB_HCA_QPS_RTS && to == PIB_HCA_QPS_SQD) {
        return {0, PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY};
    }
    if (to == PIB_HCA_QPS_SQD) {
        const uint32_t port = reliable ? kPort : 0;
        return {0, live | PIB_HCA_QP_ATTR_AV | kPkey | port | timeout | asks | answers};
    }
    return {0, live};
}

Attributes datagram(pib_hca_qp_type type, pib_hca_qp_state from, pib_hca_qp_state to) {
    const bool special = type != PIB_HCA_QP_UD;
    if (from == PIB_HCA_QPS_RESET) {
        return special ? Attributes{kPkey | kQkey, kPort} : Attributes{kPkey | kPort | kQkey, 0};
    }
    if (from == PIB_HCA_QPS_INIT) {
        return {0, kPkey | kQkey | (to == PIB_HCA_QPS_INIT ? kPort : 0)};
    }
    if (from == PIB_HCA_QPS_RTR) {
        return {PIB_HCA_QP_ATTR_SQ_PSN, kQkey};
    }
    if (from == PIB_HCA_QPS_RTS && to == PIB_HCA_QPS_SQD) {
        return {0, PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY};
    }
    return {0, kQkey | (to == PIB_HCA_QPS_SQD ? kPkey : 0)};
}

bool is_connected(pib_hca_qp_type type) {
    return type != PIB_HCA_QP_UD && type != PIB_HCA_QP_SMI && type != PIB_HCA_QP_GSI;
}

Attributes attributes_of(pib_hca_qp_type type, pib_hca_qp_state from, pib_hca_qp_state to) {
    return is_connected(type) ? connected(type, from, to) : datagram(type, from, to);
}

pib_hca_modify_qp request(uint32_t mask, pib_hca_qp_state from, pib_hca_qp_state to) {
    pib_hca_modify_qp in = attributes(mask, to);
    in.cur_state = from;
    in.alt_port = 1;
    in.alt_av.dlid = 2;
    return in;
}

// A QP in `state`, by the required attributes of each step.
Qp any_qp_in(Hca& hca, pib_hca_qp_type type, pib_hca_qp_state state) {
    const bool special = type == PIB_HCA_QP_SMI || type == PIB_HCA_QP_GSI;
    const auto port = static_cast<uint8_t>(special ? 1 : 0);
    const uint32_t domain = type == PIB_HCA_QP_XRC_TGT ? 5 : 0;
    Qp qp = hca.create({.type = type, .port = port, .xrcd = domain});
    pib_hca_qp_state from = PIB_HCA_QPS_RESET;
    for (const pib_hca_qp_state to :
         {PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR, PIB_HCA_QPS_RTS, PIB_HCA_QPS_SQD}) {
        const pib_hca_qp_state last = state == PIB_HCA_QPS_SQE ? PIB_HCA_QPS_RTS : state;
        if (from == last) {
            break;
        }
        const auto in = request(attributes_of(type, from, to).required, from, to);
        REQUIRE(modify_qp(hca, qp.qpn, in) == CmdStatus::kOk);
        from = to;
    }
    if (state == PIB_HCA_QPS_SQE) {
        hca.post(qp, {.opcode = 0x7f});
    }
    REQUIRE(hca.state(qp) == state);
    return qp;
}

}  // namespace

TEST_CASE("each transition of each QP type takes only the attributes of the table") {
    const pib_hca_qp_type type =
        GENERATE(PIB_HCA_QP_RC, PIB_HCA_QP_UC, PIB_HCA_QP_UD, PIB_HCA_QP_SMI, PIB_HCA_QP_GSI,
                 PIB_HCA_QP_XRC_INI, PIB_HCA_QP_XRC_TGT);
    const bool reliable = is_connected(type) && type != PIB_HCA_QP_UC;
    const std::pair<pib_hca_qp_state, pib_hca_qp_state> steps[] = {
        {PIB_HCA_QPS_RESET, PIB_HCA_QPS_INIT}, {PIB_HCA_QPS_INIT, PIB_HCA_QPS_INIT},
        {PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR},   {PIB_HCA_QPS_RTR, PIB_HCA_QPS_RTS},
        {PIB_HCA_QPS_RTS, PIB_HCA_QPS_RTS},    {PIB_HCA_QPS_RTS, PIB_HCA_QPS_SQD},
        {PIB_HCA_QPS_SQD, PIB_HCA_QPS_RTS},    {PIB_HCA_QPS_SQD, PIB_HCA_QPS_SQD},
        {PIB_HCA_QPS_SQE, PIB_HCA_QPS_RTS}};
    for (const auto& [from, to] : steps) {
        if (from == PIB_HCA_QPS_SQE && reliable) {
            continue;
        }
        const Attributes table = attributes_of(type, from, to);
        for (unsigned bit = 1; bit < 21; ++bit) {
            const uint32_t attribute = 1u << bit;
            const bool optional = ((table.optional | kCur) & attribute) != 0;
            // The table permits this, but without an alternate path the state cannot change.
            if (optional && attribute == PIB_HCA_QP_ATTR_PATH_MIG_STATE) {
                continue;
            }
            Hca hca(1);
            const Qp qp = any_qp_in(hca, type, from);
            const auto in = request(table.required ^ attribute, from, to);
            INFO("type " << type << " from " << from << " to " << to << " bit " << bit);
            CHECK(modify_qp(hca, qp.qpn, in) == (optional ? CmdStatus::kOk
                                                 : attribute == PIB_HCA_QP_ATTR_CAP
                                                     ? CmdStatus::kNotSupported
                                                     : CmdStatus::kBadParam));
        }
    }
}
