// SPDX-License-Identifier: GPL-2.0-or-later
// Automatic path migration (IBA vol. 1, 17.2.8): loading, arming, migrating by command, by the
// peer's request and because the path has failed. The primary path has a GRH, the alternate one has
// none, so that packets show which they took.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kLoad = PIB_HCA_QP_ATTR_ALT_PATH | PIB_HCA_QP_ATTR_PATH_MIG_STATE;

struct Migrating : Pair {
    explicit Migrating(pib_hca_qp_type type = PIB_HCA_QP_RC)
        : qa(a.create({.type = type})), qb(b.create({.type = type})) {
        attr.retry_cnt = 2;
        to_init(a, qa, attr);
        to_init(b, qb, attr);
        to_rtr(a, qa, primary(a, b), qb.qpn, attr);
        to_rtr(b, qb, primary(b, a), qa.qpn, attr);
        to_rts(a, qa, attr);
        to_rts(b, qb, attr);
        (void)a.events();
        (void)b.events();
    }
    static pib_hca_av primary(const Hca& from, const Hca& to) {
        pib_hca_av av = from.av_to(to);
        av.flags = PIB_HCA_AV_GRH;
        std::ranges::copy(to.port.gids[0], av.dgid);
        return av;
    }
    static pib_hca_modify_qp request(uint32_t mask, uint8_t state) {
        pib_hca_modify_qp in{};
        in.attr_mask = mask;
        in.path_mig_state = state;
        return in;
    }
    static pib_hca_modify_qp loading(const Hca& from, const Hca& to) {
        pib_hca_modify_qp in = request(kLoad, PIB_HCA_MIG_REARM);
        in.alt_av = from.av_to(to);
        in.alt_port = 1;
        in.alt_timeout = 12;
        in.alt_pkey_index = 0;
        return in;
    }
    Verdict load(Hca& hca, const Qp& qp) {
        return modify_qp(hca, qp.qpn, loading(hca, &hca == &a ? b : a));
    }
    Verdict ask(Hca& hca, const Qp& qp, uint8_t state) {
        return modify_qp(hca, qp.qpn, request(PIB_HCA_QP_ATTR_PATH_MIG_STATE, state));
    }
    uint8_t migration(Hca& hca, const Qp& qp) { return query_qp(hca, qp.qpn)->path_mig_state; }
    // Sends one message from a to b; returns its completion status, or 0xff without a completion.
    uint8_t send() {
        b.post_recv(qb, {});
        a.post(qa, {});
        std::optional<pib_hca_cqe> cqe;
        run_until([&] { return cqe || (cqe = a.poll(qa)); });
        return cqe ? cqe->status : 0xff;
    }
    // Brings both QPs to Armed: the SEND arrives at a QP in Rearm, and so does its ACK.
    void arm() {
        REQUIRE(load(a, qa) == CmdStatus::kOk);
        REQUIRE(load(b, qb) == CmdStatus::kOk);
        REQUIRE(send() == PIB_HCA_WC_SUCCESS);
        REQUIRE(migration(a, qa) == PIB_HCA_MIG_ARMED);
        REQUIRE(migration(b, qb) == PIB_HCA_MIG_ARMED);
    }

    RcAttributes attr;
    Qp qa;
    Qp qb;
};

bool by_primary(const ib::PacketView& packet) {
    return packet.grh().has_value();
}

}  // namespace

TEST_CASE("path migration is armed when both sides have rearmed") {
    Migrating pair;
    std::vector<bool> requests;
    pair.tap = [&](const ib::PacketView& packet) { requests.push_back(packet.bth().mig_req); };
    REQUIRE(pair.load(pair.a, pair.qa) == CmdStatus::kOk);
    CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_REARM);
    // The peer has not rearmed: its packets have MigReq set, as have those of each QP in Migrated.
    REQUIRE(pair.send() == PIB_HCA_WC_SUCCESS);
    CHECK(requests == std::vector<bool>{false, true});
    CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_REARM);
    CHECK(pair.migration(pair.b, pair.qb) == PIB_HCA_MIG_MIGRATED);
    REQUIRE(pair.load(pair.b, pair.qb) == CmdStatus::kOk);
    REQUIRE(pair.send() == PIB_HCA_WC_SUCCESS);
    CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_ARMED);
    CHECK(pair.migration(pair.b, pair.qb) == PIB_HCA_MIG_ARMED);
    const auto query = *query_qp(pair.a, pair.qa.qpn);
    CHECK(query.alt_av.dlid == 2);
    CHECK(query.alt_timeout == 12);
    CHECK(query.alt_port == 1);
    CHECK(pair.a.events().empty());
}

TEST_CASE("MODIFY_QP migrates a path, and the peer follows") {
    Migrating pair;
    pair.arm();
    REQUIRE(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_MIGRATED) == CmdStatus::kOk);
    CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_MIGRATED);
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_PATH_MIGRATED, pair.qa.qpn));
    const auto query = *query_qp(pair.a, pair.qa.qpn);
    CHECK(query.av.flags == 0);
    CHECK(query.timeout == 12);
    unsigned primary = 0;
    pair.tap = [&](const ib::PacketView& packet) { primary += by_primary(packet) ? 1 : 0; };
    CHECK(pair.send() == PIB_HCA_WC_SUCCESS);
    CHECK(primary == 0);
    CHECK(pair.migration(pair.b, pair.qb) == PIB_HCA_MIG_MIGRATED);
    CHECK(pair.b.saw_event(PIB_HCA_EVENT_PATH_MIGRATED, pair.qb.qpn));
    // To migrate back, the QP must first load the old primary path as its alternate path.
    REQUIRE(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_REARM) == CmdStatus::kBadState);
    pair.arm();
}

TEST_CASE("a QP migrates from a path that fails and loses no request") {
    Migrating pair;
    pair.arm();
    unsigned lost = 0;
    pair.filter = [&](const ib::PacketView& packet) {
        lost += by_primary(packet) ? 1 : 0;
        return !by_primary(packet);
    };
    CHECK(pair.send() == PIB_HCA_WC_SUCCESS);
    CHECK(lost == 3);  // once, and retry_cnt times again
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_PATH_MIGRATED, pair.qa.qpn));
    CHECK(pair.b.saw_event(PIB_HCA_EVENT_PATH_MIGRATED, pair.qb.qpn));
    CHECK(pair.b.poll(pair.qb)->status == PIB_HCA_WC_SUCCESS);
    CHECK(pair.send() == PIB_HCA_WC_SUCCESS);
    // The second failure finds no other path.
    pair.filter = [](const ib::PacketView&) { return false; };
    CHECK(pair.send() == PIB_HCA_WC_RETRY_EXC_ERR);
}

TEST_CASE("the path that a QP migrates to has all retries") {
    Migrating pair;
    pair.arm();
    unsigned tried = 0;
    pair.filter = [&](const ib::PacketView& packet) {
        return !by_primary(packet) &&
               (packet.opcode().is_response() || ++tried > pair.attr.retry_cnt);
    };
    CHECK(pair.send() == PIB_HCA_WC_SUCCESS);
    CHECK(tried == pair.attr.retry_cnt + 1u);
}

TEST_CASE("a stream continues when its path fails at any packet") {
    const auto at = static_cast<unsigned>(GENERATE(3, 10, 37));
    Migrating pair;
    pair.arm();
    const Buffer from = pair.a.make_buffer(65536);
    const Buffer to = pair.b.make_buffer(65536);
    std::vector<uint8_t> bytes(65536);
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
    }
    pair.a.host.dma_write(from.addr, bytes);
    unsigned seen = 0;
    pair.filter = [&](const ib::PacketView& packet) { return !by_primary(packet) || ++seen < at; };
    pair.a.post(pair.qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                          .sges = {from.all()},
                          .remote_addr = to.addr,
                          .rkey = to.key});
    std::optional<pib_hca_cqe> cqe;
    REQUIRE(pair.run_until([&] { return cqe || (cqe = pair.a.poll(pair.qa)); }));
    CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
    std::vector<uint8_t> arrived(65536);
    pair.b.host.dma_read(to.addr, arrived);
    CHECK(arrived == bytes);
}

TEST_CASE("a migration request on a path that is not loaded is refused and reported once") {
    Migrating pair;
    pair.arm();
    ib::PacketHeaders headers;
    headers.lrh.slid = ib::Lid(9);
    headers.lrh.dlid = ib::Lid(2);
    headers.bth.opcode = ib::opcode::kSendOnly;
    headers.bth.mig_req = true;
    headers.bth.pkey = ib::PKey(0xffff);
    headers.bth.dest_qp = ib::Qpn(pair.qb.qpn);
    headers.bth.psn = ib::Psn(1);
    for (int i = 0; i < 3; ++i) {
        pair.inject(pair.b, headers);
        pair.settle();
    }
    const auto events = pair.b.events();
    REQUIRE(events.size() == 1);
    CHECK(events[0].type == PIB_HCA_EVENT_PATH_MIG_FAILED);
    CHECK(events[0].number == pair.qb.qpn);
    CHECK(pair.migration(pair.b, pair.qb) == PIB_HCA_MIG_ARMED);
    CHECK(pair.send() == PIB_HCA_WC_SUCCESS);
    // After the next MODIFY_QP, here one that loads another path, a refusal is reported again.
    REQUIRE(pair.load(pair.b, pair.qb) == CmdStatus::kOk);
    pair.inject(pair.b, headers);
    CHECK(pair.b.saw_event(PIB_HCA_EVENT_PATH_MIG_FAILED, pair.qb.qpn));
}

TEST_CASE("MODIFY_QP refuses invalid migration requests") {
    Migrating pair;
    const auto modify = [&](const pib_hca_modify_qp& in) {
        return modify_qp(pair.a, pair.qa.qpn, in);
    };
    CHECK(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_REARM) == CmdStatus::kBadState);
    CHECK(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_ARMED) == CmdStatus::kBadParam);
    CHECK(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_MIGRATED) == CmdStatus::kOk);
    struct Spoil {
        void (*change)(pib_hca_modify_qp&);
        CmdStatus status = CmdStatus::kBadParam;
    };
    const Spoil spoils[] = {
        {[](pib_hca_modify_qp& in) { in.alt_port = 0; }},
        {[](pib_hca_modify_qp& in) { in.alt_port = 2; }},
        {[](pib_hca_modify_qp& in) { in.alt_timeout = 32; }},
        {[](pib_hca_modify_qp& in) { in.alt_pkey_index = 99; }},
        {[](pib_hca_modify_qp& in) { in.alt_av.dlid = 0; }},
        {[](pib_hca_modify_qp& in) { in.alt_av.port = 1; }},
        {[](pib_hca_modify_qp& in) { in.alt_av.reserved[0] = 1; }, CmdStatus::kBadReserved},
    };
    for (const Spoil& spoil : spoils) {
        INFO("case " << &spoil - spoils);
        pib_hca_modify_qp in = Migrating::loading(pair.a, pair.b);
        spoil.change(in);
        CHECK(modify(in) == spoil.status);
        CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_MIGRATED);
    }
    REQUIRE(pair.load(pair.a, pair.qa) == CmdStatus::kOk);
    CHECK(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_MIGRATED) == CmdStatus::kBadState);
    REQUIRE(pair.load(pair.b, pair.qb) == CmdStatus::kOk);
    REQUIRE(pair.send() == PIB_HCA_WC_SUCCESS);
    pib_hca_modify_qp in = Migrating::loading(pair.a, pair.b);
    in.attr_mask = PIB_HCA_QP_ATTR_ALT_PATH;  // the armed path is in use
    CHECK(modify(in) == CmdStatus::kBadState);
    // Reset forgets the alternate path and the migration state.
    to_state(pair.a, pair.qa, PIB_HCA_QPS_RESET);
    CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_MIGRATED);
}

TEST_CASE("a QP that is connected again after Reset has no alternate path until one is loaded") {
    Migrating pair;
    pair.arm();
    to_state(pair.a, pair.qa, PIB_HCA_QPS_RESET);
    pair.a.set_sq_producer(pair.qa, 0);
    to_init(pair.a, pair.qa, pair.attr);
    to_rtr(pair.a, pair.qa, Migrating::primary(pair.a, pair.b), pair.qb.qpn, pair.attr);
    to_rts(pair.a, pair.qa, pair.attr);
    CHECK(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_REARM) == CmdStatus::kBadState);
    CHECK(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_MIGRATED);
    CHECK(pair.load(pair.a, pair.qa) == CmdStatus::kOk);
}

TEST_CASE("a UC QP migrates by MODIFY_QP, and its peer follows") {
    Migrating pair(PIB_HCA_QP_UC);
    REQUIRE(pair.load(pair.a, pair.qa) == CmdStatus::kOk);
    REQUIRE(pair.load(pair.b, pair.qb) == CmdStatus::kOk);
    REQUIRE(pair.send() == PIB_HCA_WC_SUCCESS);
    pair.settle();
    // UC has no responses, so only a message of b brings a to Armed.
    pair.a.post_recv(pair.qa, {});
    pair.b.post(pair.qb, {});
    pair.settle();
    REQUIRE(pair.migration(pair.a, pair.qa) == PIB_HCA_MIG_ARMED);
    REQUIRE(pair.migration(pair.b, pair.qb) == PIB_HCA_MIG_ARMED);
    REQUIRE(pair.ask(pair.a, pair.qa, PIB_HCA_MIG_MIGRATED) == CmdStatus::kOk);
    REQUIRE(pair.send() == PIB_HCA_WC_SUCCESS);
    pair.settle();
    CHECK(pair.migration(pair.b, pair.qb) == PIB_HCA_MIG_MIGRATED);
    CHECK(pair.b.saw_event(PIB_HCA_EVENT_PATH_MIGRATED, pair.qb.qpn));
}

TEST_CASE("the alternate path has a P_Key, an SL and a timeout of its own") {
    Migrating t;
    const auto load = [&](Hca& from, Hca& to, const Qp& qp) {
        pib_hca_modify_qp in = Migrating::loading(from, to);
        in.alt_pkey_index = 1;
        in.alt_av.sl = 5;
        return modify_qp(from, qp.qpn, in);
    };
    REQUIRE(load(t.a, t.b, t.qa) == CmdStatus::kOk);
    REQUIRE(load(t.b, t.a, t.qb) == CmdStatus::kOk);
    REQUIRE(t.send() == PIB_HCA_WC_SUCCESS);
    REQUIRE(t.ask(t.a, t.qa, PIB_HCA_MIG_MIGRATED) == CmdStatus::kOk);
    ib::PKey pkey;
    unsigned sl = 0;
    t.tap = [&](const ib::PacketView& packet) {
        if (packet.opcode().is_request()) {
            pkey = packet.bth().pkey;
            sl = packet.lrh().sl.value();
        }
    };
    CHECK(t.send() == PIB_HCA_WC_SUCCESS);
    CHECK(pkey == ib::PKey(0x8001));
    CHECK(sl == 5);
    const auto after = *t.a.transport.verbs().query(t.qa.qpn);
    CHECK(after.pkey_index == 1);
    CHECK(after.timeout == 12);
}
