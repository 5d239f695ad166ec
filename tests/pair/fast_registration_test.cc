// SPDX-License-Identifier: GPL-2.0-or-later
// Fast registration by work request, local and remote invalidation, and their place among other
// work requests (IBA 10.6.4, 10.8.3, 11.4.1.1).
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "key_requests.h"
#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr QpConfig kPrivileged{.flags = PIB_HCA_QP_PRIVILEGED};
constexpr uint64_t kIova = 0x7'0000'0123;

struct Fast : Pair {
    explicit Fast(const RcAttributes& attr = {}) {
        auto connection = rc_pair(attr, kPrivileged);
        qa = connection.a;
        qb = connection.b;
        from = a.make_buffer(4096);
        key = alloc(b, 8);
        memory = b.host.alloc(8 * 4096);
        table = b.host.alloc(4096);
        for (uint64_t i = 0; i < 8; ++i) {
            b.host.poke<uint64_t>(table + 8 * i, memory + 4096 * (7 - i));
        }
    }
    static uint32_t alloc(Hca& hca, uint32_t pages, uint32_t pd = 1) {
        Registration in{};
        in.pd = pd;
        in.flags = PIB_HCA_MR_FAST;
        in.pages.page_count = pages;
        const auto key = hca.mpt.create(in);
        REQUIRE(key);
        return *key;
    }
    // Three pages from the table, which lists them in descending order.
    pib_hca_wqe_reg registration() const {
        return {.key = next_key(key),
                .access = Hca::kAllAccess,
                .iova = kIova,
                .length = 2 * 4096,
                .pages = {.root = table,
                          .page_count = 3,
                          .levels = 1,
                          .log_page_size = 12,
                          .reserved = 0},
                .page_offset = 0x123,
                .reserved = 0};
    }
    uint8_t result(Hca& hca, Qp& qp, const SendWr& wr) {
        hca.post(qp, wr);
        settle();
        const auto cqe = hca.poll(qp);
        REQUIRE(cqe);
        return cqe->status;
    }
    uint8_t write(uint32_t rkey, uint64_t addr) {
        return result(a, qa,
                      {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                       .sges = {from.sge(0, 8)},
                       .remote_addr = addr,
                       .rkey = rkey});
    }

    Qp qa, qb;
    Buffer from;
    uint32_t key = 0;
    uint64_t memory = 0;
    uint64_t table = 0;
};

}  // namespace

TEST_CASE("a fast region is registered and invalidated again and again under new keys") {
    const bool remote = GENERATE(false, true);
    Fast f;
    for (uint64_t round = 0; round < 300; ++round) {
        const auto reg = f.registration();
        f.b.post(f.qb, reg_mr(reg));
        const auto cqe = f.b.poll(f.qb);
        REQUIRE(cqe);
        CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
        CHECK(cqe->opcode == PIB_HCA_CQE_REG_MR);

        f.a.host.poke<uint64_t>(f.from.addr, round);
        REQUIRE(f.write(reg.key, kIova + 4096) == PIB_HCA_WC_SUCCESS);
        CHECK(f.b.host.peek<uint64_t>(f.memory + 6 * 4096 + 0x123) == round);
        if (remote) {
            f.b.post_recv(f.qb, {});
            CHECK(f.result(f.a, f.qa, send_with_inv(reg.key)) == PIB_HCA_WC_SUCCESS);
            const auto received = f.b.poll(f.qb);
            REQUIRE(received);
            CHECK(received->flags == PIB_HCA_CQE_FLAG_INVALIDATED);
            CHECK(received->imm_data == reg.key);
        } else {
            f.b.post(f.qb, local_inv(reg.key));
            const auto invalidated = f.b.poll(f.qb);
            REQUIRE(invalidated);
            CHECK(invalidated->status == PIB_HCA_WC_SUCCESS);
            CHECK(invalidated->opcode == PIB_HCA_CQE_LOCAL_INV);
        }
        f.key = reg.key;
    }
    CHECK(f.write(f.key, kIova) == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(f.b.mpt.destroy(f.key ^ 0xff) == CmdStatus::kOk);
}

TEST_CASE("a fast region takes large pages, and pages without a table") {
    Fast f;
    auto reg = f.registration();
    const uint64_t huge = f.b.host.alloc(1 << 22, 1 << 21);
    reg.pages = {.root = huge, .page_count = 2, .levels = 0, .log_page_size = 21, .reserved = 0};
    reg.page_offset = 0x100000;
    reg.length = 0x300000;
    REQUIRE(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_SUCCESS);
    f.a.host.poke<uint64_t>(f.from.addr, 77);
    REQUIRE(f.write(reg.key, kIova + 0x2ffff8) == PIB_HCA_WC_SUCCESS);
    CHECK(f.b.host.peek<uint64_t>(huge + 0x3ffff8) == 77);
}

TEST_CASE("a registration that is not allowed ends the connection and changes no region") {
    struct Case {
        const char* what;
        void (*spoil)(Fast& f, pib_hca_wqe_reg& reg);
    };
    const Case c = GENERATE(
        Case{"no such region", [](Fast&, auto& r) { r.key += 0x100; }},
        Case{"not a fast region",
             [](Fast& f, auto& r) { r.key = next_key(f.b.make_buffer(4096).key); }},
        Case{"another PD's", [](Fast& f, auto& r) { r.key = Fast::alloc(f.b, 8, 2); }},
        Case{"more pages than it has", [](Fast&, auto& r) { r.pages.page_count = 9; }},
        Case{"too few pages", [](Fast&, auto& r) { r.pages.page_count = 2; }},
        Case{"no length", [](Fast&, auto& r) { r.length = 0; }},
        Case{"wrapping", [](Fast&, auto& r) { r.iova = UINT64_MAX - 100; }},
        Case{"offset beyond the page", [](Fast&, auto& r) { r.page_offset = 4096; }},
        Case{"page size", [](Fast&, auto& r) { r.pages.log_page_size = 11; }},
        Case{"huge page size", [](Fast&, auto& r) { r.pages.log_page_size = 200; }},
        Case{"table is not RAM", [](Fast& f, auto& r) { f.b.host.make_hole(r.pages.root, 4096); }},
        Case{"unaligned page", [](Fast& f, auto&) { f.b.host.poke<uint64_t>(f.table, 8); }},
        Case{"remote write alone", [](Fast&, auto& r) { r.access = PIB_HCA_ACCESS_REMOTE_WRITE; }},
        Case{"unknown right", [](Fast&, auto& r) { r.access |= 1u << 30; }});
    INFO(c.what);
    Fast f;
    auto reg = f.registration();
    c.spoil(f, reg);
    CHECK(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_MW_BIND_ERR);
    CHECK(f.b.state(f.qb) == PIB_HCA_QPS_ERR);
}

TEST_CASE("registration of a valid region, or by a user's QP, is refused") {
    Fast f;
    auto reg = f.registration();
    SECTION("the region is valid") {
        REQUIRE(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_SUCCESS);
        reg.key = next_key(reg.key);
        CHECK(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_MW_BIND_ERR);
    }
    SECTION("the QP is not privileged") {
        auto plain = f.rc_pair();
        CHECK(f.result(f.b, plain.b, reg_mr(reg)) == PIB_HCA_WC_MW_BIND_ERR);
    }
}

TEST_CASE("an invalidation of another key is refused") {
    Fast f;
    const auto reg = f.registration();
    REQUIRE(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_SUCCESS);
    auto other = f.rc_pair({}, {.pd = 2});
    const uint32_t plain = f.b.make_buffer(4096).key;
    CHECK(f.result(f.b, other.b, local_inv(reg.key)) == PIB_HCA_WC_MW_BIND_ERR);
    const uint32_t key = GENERATE_REF(plain, kPrivilegedLkey, next_key(reg.key));
    SECTION("locally") {
        CHECK(f.result(f.b, f.qb, local_inv(key)) == PIB_HCA_WC_MW_BIND_ERR);
    }
    SECTION("remotely") {
        f.b.post_recv(f.qb, {});
        f.a.post(f.qa, send_with_inv(key));
        f.settle();
        const auto received = f.b.poll(f.qb);
        REQUIRE(received);
        CHECK(received->status == PIB_HCA_WC_REM_INV_REQ_ERR);
        CHECK(f.b.state(f.qb) == PIB_HCA_QPS_ERR);
    }
    CHECK(f.b.mpt.check({.pd = 1, .privileged = false}, {reg.key, kIova, 8, 0}));
}

TEST_CASE("a fast region with a bound window is not invalidated") {
    const bool remote = GENERATE(false, true);
    Fast f;
    auto reg = f.registration();
    reg.access = Hca::kAllAccess | PIB_HCA_ACCESS_MW_BIND;
    REQUIRE(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_SUCCESS);
    const uint32_t window = *f.b.mpt.alloc_window({.pd = 1, .type = PIB_HCA_MW_TYPE_1, .key = 1});
    REQUIRE(f.result(f.b, f.qb,
                     bind_mw({.rkey = next_key(window),
                              .lkey = reg.key,
                              .access = PIB_HCA_ACCESS_REMOTE_WRITE,
                              .reserved = 0,
                              .addr = kIova,
                              .length = 4096})) == PIB_HCA_WC_SUCCESS);
    if (remote) {
        f.b.post_recv(f.qb, {});
        f.a.post(f.qa, send_with_inv(reg.key));
        f.settle();
        CHECK(f.b.poll(f.qb)->status == PIB_HCA_WC_REM_INV_REQ_ERR);
    } else {
        CHECK(f.result(f.b, f.qb, local_inv(reg.key)) == PIB_HCA_WC_MW_BIND_ERR);
    }
    const KeyUser owner{.pd = 1, .privileged = true};
    CHECK(f.b.mpt.check(owner, {reg.key, kIova, 8, 0}));
    REQUIRE(f.b.mpt.dealloc_window(window) == CmdStatus::kOk);
    CHECK(f.b.mpt.invalidate_local(owner, reg.key));
}

// A region in the Free state has no memory (IBA 10.6.4.1).
TEST_CASE("a window is not bound to a fast region that is Free") {
    const uint8_t type = GENERATE(PIB_HCA_MW_TYPE_1, PIB_HCA_MW_TYPE_2);
    Fast f;
    auto reg = f.registration();
    reg.access = Hca::kAllAccess | PIB_HCA_ACCESS_MW_BIND;
    REQUIRE(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_SUCCESS);
    REQUIRE(f.result(f.b, f.qb, local_inv(reg.key)) == PIB_HCA_WC_SUCCESS);
    const uint32_t window = *f.b.mpt.alloc_window({.pd = 1, .type = type, .key = 1});
    CHECK(f.result(f.b, f.qb,
                   bind_mw({.rkey = next_key(window),
                            .lkey = reg.key,
                            .access = PIB_HCA_ACCESS_REMOTE_WRITE,
                            .reserved = 0,
                            .addr = kIova,
                            .length = 4096})) == PIB_HCA_WC_MW_BIND_ERR);
    CHECK(f.b.mpt.destroy(reg.key) == CmdStatus::kOk);
}

TEST_CASE("a peer invalidates an R_Key once, and no L_Key") {
    Fast f;
    auto reg = f.registration();
    const bool twice = GENERATE(false, true);
    reg.access = twice ? Hca::kAllAccess : uint32_t{PIB_HCA_ACCESS_LOCAL_WRITE};
    REQUIRE(f.result(f.b, f.qb, reg_mr(reg)) == PIB_HCA_WC_SUCCESS);
    if (twice) {
        f.b.post_recv(f.qb, {});
        REQUIRE(f.result(f.a, f.qa, send_with_inv(reg.key)) == PIB_HCA_WC_SUCCESS);
        REQUIRE(f.b.poll(f.qb));
    }
    f.b.post_recv(f.qb, {});
    f.a.post(f.qa, send_with_inv(reg.key));
    f.settle();
    CHECK(f.b.poll(f.qb)->status == PIB_HCA_WC_REM_INV_REQ_ERR);
    // The owner may invalidate the region again.
    CHECK(f.b.mpt.invalidate_local({.pd = 1, .privileged = true}, reg.key));
}

TEST_CASE("memory requests complete in order although each packet is lost once") {
    Fast f;
    // The WRITEs go to this buffer of A. Their source is the fast region of B.
    const Buffer to = f.a.make_buffer(16 * 4096);
    std::vector<char> seen(1 << 16);
    f.filter = [&](const pib::ib::PacketView& packet) {
        return std::exchange(seen[packet.bth().psn.value()], 1) != 0 ||
               packet.opcode().is_response();
    };
    f.b.host.poke<uint64_t>(f.memory + 7 * 4096 + 0x123, 4711);
    uint32_t key = f.key;
    for (uint32_t i = 0; i < 8; ++i) {
        auto reg = f.registration();
        reg.key = key = next_key(key);
        f.b.write_send(f.qb, reg_mr(reg));
        f.b.write_send(f.qb, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                              .sges = {{.addr = kIova, .length = 4096, .lkey = reg.key}},
                              .remote_addr = to.addr + uint64_t{i} * 4096,
                              .rkey = to.key});
        f.b.write_send(f.qb, local_inv(reg.key));
    }
    f.b.ring(f.qb);
    std::vector<pib_hca_cqe> done;
    REQUIRE(f.run_until([&] {
        const auto more = f.b.poll_all(f.qb);
        done.insert(done.end(), more.begin(), more.end());
        return done.size() >= 24;
    }));
    for (uint32_t i = 0; i < 24; ++i) {
        CHECK(done[i].wqe_counter == i);
        CHECK(done[i].status == PIB_HCA_WC_SUCCESS);
    }
    for (uint32_t i = 0; i < 8; ++i) {
        CHECK(f.a.host.peek<uint64_t>(to.addr + uint64_t{i} * 4096) == 4711);
    }
}

TEST_CASE("the allocation of a fast region refuses fields that it does not use") {
    Fast f;
    Registration in{};
    in.pd = 1;
    in.flags = PIB_HCA_MR_FAST;
    in.pages.page_count = 8;
    const auto status = [&](auto&& change) {
        Registration changed = in;
        change(changed);
        const auto made = f.b.mpt.create(changed);
        return made ? CmdStatus::kOk : made.error();
    };
    CHECK(status([](auto&) {}) == CmdStatus::kOk);
    CHECK(status([](auto& r) { r.access = 1; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& r) { r.length = 1; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& r) { r.pages.page_count = 0; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& r) { r.pages.page_count = Limits::kFastRegPages + 1; }) ==
          CmdStatus::kBadParam);
    CHECK(status([](auto& r) { r.pages.root = 4096; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& r) { r.flags |= PIB_HCA_MR_PHYSICAL; }) == CmdStatus::kBadParam);
    CHECK(status([](auto& r) { r.flags |= 0x80; }) == CmdStatus::kBadReserved);
}
