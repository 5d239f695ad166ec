// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows of both types: rules of binding, access through a window, and its invalidation
// (IBA 10.6.7; docs/fault-cases.md, T29).
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "key_requests.h"
#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kBindable = Hca::kAllAccess | PIB_HCA_ACCESS_MW_BIND;
constexpr uint32_t kWindowRights = PIB_HCA_ACCESS_REMOTE_WRITE | PIB_HCA_ACCESS_REMOTE_READ;

struct Windows : Pair {
    explicit Windows(uint8_t type) : type_(type) {
        auto connection = rc_pair();
        qa = connection.a;
        qb = connection.b;
        from = a.make_buffer(4096);
        region = b.make_buffer(16384, kBindable);
        window = alloc();
    }

    uint32_t alloc(uint32_t pd = 1) {
        const auto key = b.mpt.alloc_window({.pd = pd, .type = type_, .key = 0x10});
        REQUIRE(key);
        return *key;
    }
    pib_hca_wqe_bind binding(uint64_t offset = 4096, uint64_t length = 4096) const {
        return {.rkey = next_key(window),
                .lkey = region.key,
                .access = kWindowRights,
                .reserved = 0,
                .addr = region.addr + offset,
                .length = length};
    }
    uint8_t result(Hca& hca, Qp& qp, const SendWr& wr) {
        hca.post(qp, wr);
        settle();
        const auto cqe = hca.poll(qp);
        REQUIRE(cqe);
        return cqe->status;
    }
    // A WRITE by the peer; the connection is made anew if it fails.
    uint8_t write(uint32_t rkey, uint64_t addr, uint32_t length = 8,
                  uint8_t opcode = PIB_HCA_WQE_RDMA_WRITE) {
        const uint8_t status = result(
            a, qa,
            {.opcode = opcode, .sges = {from.sge(0, length)}, .remote_addr = addr, .rkey = rkey});
        if (status != PIB_HCA_WC_SUCCESS) {
            reconnect();
        }
        return status;
    }
    // Creates new QPs. The old QPs go to Error, so that windows that are bound to them stay bound.
    void reconnect() {
        auto connection = rc_pair();
        qa = connection.a;
        qb = connection.b;
    }

    Qp qa, qb;
    Buffer from, region;
    uint32_t window = 0;

  private:
    uint8_t type_;
};

// A bind without length: it unbinds.
pib_hca_wqe_bind nothing(uint32_t rkey) {
    pib_hca_wqe_bind bind{};
    bind.rkey = rkey;
    return bind;
}

}  // namespace

TEST_CASE("a bound window grants only its range and its rights") {
    const uint8_t type = GENERATE(PIB_HCA_MW_TYPE_1, PIB_HCA_MW_TYPE_2);
    Windows w(type);
    const uint32_t key = next_key(w.window);
    const uint64_t first = w.region.addr + 4096;
    const auto bound = w.binding();

    SECTION("rights and bounds") {
        w.b.post(w.qb, bind_mw(bound));
        const auto cqe = w.b.poll(w.qb);
        REQUIRE(cqe);
        CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
        CHECK(cqe->opcode == PIB_HCA_CQE_BIND_MW);
        CHECK(w.write(key, first) == PIB_HCA_WC_SUCCESS);
        CHECK(w.write(key, first + 4096 - 8) == PIB_HCA_WC_SUCCESS);
        CHECK(w.write(key, first, 8, PIB_HCA_WQE_RDMA_READ) == PIB_HCA_WC_SUCCESS);
    }
    SECTION("before its first byte") {
        REQUIRE(w.result(w.b, w.qb, bind_mw(bound)) == PIB_HCA_WC_SUCCESS);
        CHECK(w.write(key, first - 1) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("beyond its last byte") {
        REQUIRE(w.result(w.b, w.qb, bind_mw(bound)) == PIB_HCA_WC_SUCCESS);
        CHECK(w.write(key, first + 4096 - 7) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("another right") {
        REQUIRE(w.result(w.b, w.qb, bind_mw(bound)) == PIB_HCA_WC_SUCCESS);
        CHECK(w.write(key, first, 8, PIB_HCA_WQE_FETCH_ADD) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("the former key") {
        REQUIRE(w.result(w.b, w.qb, bind_mw(bound)) == PIB_HCA_WC_SUCCESS);
        CHECK(w.write(w.window, first) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("zero based") {
        auto zero = bound;
        zero.access |= PIB_HCA_ACCESS_ZERO_BASED;
        REQUIRE(w.result(w.b, w.qb, bind_mw(zero)) == PIB_HCA_WC_SUCCESS);
        w.a.host.poke<uint64_t>(w.from.addr, 0x1234);
        CHECK(w.write(key, 4096 - 8) == PIB_HCA_WC_SUCCESS);
        CHECK(w.b.host.peek<uint64_t>(first + 4096 - 8) == 0x1234);
        CHECK(w.write(key, first) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("as L_Key") {
        REQUIRE(w.result(w.b, w.qb, bind_mw(bound)) == PIB_HCA_WC_SUCCESS);
        CHECK(w.result(w.b, w.qb, {.sges = {{.addr = first, .length = 8, .lkey = key}}}) ==
              PIB_HCA_WC_LOC_PROT_ERR);
    }
    SECTION("unbound") {
        CHECK(w.write(w.window, first) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("deallocated") {
        REQUIRE(w.result(w.b, w.qb, bind_mw(bound)) == PIB_HCA_WC_SUCCESS);
        REQUIRE(w.b.mpt.dealloc_window(w.window) == CmdStatus::kOk);
        CHECK(w.b.mpt.dealloc_window(w.window) == CmdStatus::kBadResource);
        CHECK(w.write(key, first) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
}

TEST_CASE("a bind that is not allowed ends the connection and binds nothing") {
    const uint8_t type = GENERATE(PIB_HCA_MW_TYPE_1, PIB_HCA_MW_TYPE_2);
    struct Case {
        const char* what;
        void (*spoil)(Windows& w, pib_hca_wqe_bind& bind);
    };
    const Case c = GENERATE(
        Case{"no such window", [](Windows& w, auto& in) { in.rkey = w.region.key; }},
        Case{"key of before", [](Windows& w, auto& in) { in.rkey = w.window; }},
        Case{"no such region", [](Windows&, auto& in) { in.lkey ^= 1; }},
        Case{"a window for a region", [](Windows& w, auto& in) { in.lkey = w.window; }},
        Case{"local DMA L_Key", [](Windows&, auto& in) { in.lkey = kPrivilegedLkey; }},
        Case{"region of another PD",
             [](Windows& w, auto& in) { in.lkey = w.b.make_buffer(4096, kBindable, 2).key; }},
        Case{"window of another PD", [](Windows& w, auto& in) { in.rkey = next_key(w.alloc(2)); }},
        Case{"region without bind",
             [](Windows& w, auto& in) {
                 const Buffer plain = w.b.make_buffer(4096);
                 in.lkey = plain.key;
                 in.addr = plain.addr;
             }},
        Case{"write to what may not be written",
             [](Windows& w, auto& in) {
                 const Buffer ro = w.b.make_buffer(4096, PIB_HCA_ACCESS_MW_BIND);
                 in.lkey = ro.key;
                 in.addr = ro.addr;
             }},
        Case{"one byte before", [](Windows& w, auto& in) { in.addr = w.region.addr - 1; }},
        Case{"one byte beyond",
             [](Windows& w, auto& in) { in.addr = w.region.addr + 16384 - 4095; }},
        Case{"wrapping", [](Windows&, auto& in) { in.length = UINT64_MAX; }},
        Case{"unknown right", [](Windows&, auto& in) { in.access |= 1u << 31; }});
    Windows w(type);
    auto bind = w.binding();
    c.spoil(w, bind);
    INFO(c.what);
    w.b.post(w.qb, bind_mw(bind, 0));
    w.b.post(w.qb, {.sges = {}});
    w.settle();
    const auto done = w.b.poll_all(w.qb);
    REQUIRE(done.size() == 2);
    CHECK(done[0].status == PIB_HCA_WC_MW_BIND_ERR);
    CHECK(done[0].opcode == PIB_HCA_CQE_BIND_MW);
    CHECK(done[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(w.b.state(w.qb) == PIB_HCA_QPS_ERR);
    CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kOk);
}

TEST_CASE("a region with bound windows is BUSY") {
    const uint8_t type = GENERATE(PIB_HCA_MW_TYPE_1, PIB_HCA_MW_TYPE_2);
    Windows w(type);
    REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
    CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kBusy);
    Reregistration rereg{};
    rereg.mask = PIB_HCA_REREG_MR_ACCESS;
    CHECK(w.b.mpt.reregister(w.region.key, rereg).error() == CmdStatus::kBusy);
    REQUIRE(w.b.mpt.dealloc_window(w.window) == CmdStatus::kOk);
    CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kOk);
}

TEST_CASE("a type 1 window is bound again by any QP of the PD, or unbound") {
    Windows w(PIB_HCA_MW_TYPE_1);
    REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
    const uint32_t first = next_key(w.window);
    // The peer's other connection may use the window: type 1 belongs to the PD.
    auto other = w.rc_pair();
    w.qa = other.a;
    w.qb = other.b;
    CHECK(w.write(first, w.region.addr + 4096) == PIB_HCA_WC_SUCCESS);

    w.window = first;
    auto again = w.binding(0, 16384);
    REQUIRE(w.result(w.b, w.qb, bind_mw(again)) == PIB_HCA_WC_SUCCESS);
    CHECK(w.write(first, w.region.addr + 4096) == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(w.write(next_key(first), w.region.addr) == PIB_HCA_WC_SUCCESS);

    w.window = next_key(first);
    REQUIRE(w.result(w.b, w.qb, bind_mw(nothing(next_key(w.window)))) == PIB_HCA_WC_SUCCESS);
    CHECK(w.write(w.window, w.region.addr) == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(w.write(next_key(w.window), w.region.addr) == PIB_HCA_WC_REM_ACCESS_ERR);
    // The window has the key of that bind, so another bind needs another key.
    CHECK(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_MW_BIND_ERR);
    CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kOk);
}

TEST_CASE("a type 1 window serves no QP of another PD") {
    Windows w(PIB_HCA_MW_TYPE_1);
    REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
    const uint32_t key = next_key(w.window);
    const Qp user = w.qa;
    w.qa = w.a.create();
    const Qp stranger = w.b.create({.pd = 2});
    w.connect(w.qa, stranger);
    w.a.host.poke<uint64_t>(w.from.addr, 0x1234);
    CHECK(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(w.b.host.peek<uint64_t>(w.region.addr + 4096) == 0);
    w.qa = user;
    CHECK(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("a type 1 window cannot be invalidated") {
    Windows w(PIB_HCA_MW_TYPE_1);
    REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
    CHECK(w.result(w.b, w.qb, local_inv(next_key(w.window))) == PIB_HCA_WC_MW_BIND_ERR);
}

TEST_CASE("a type 2 window belongs to the QP that bound it") {
    Windows w(PIB_HCA_MW_TYPE_2);
    const uint32_t key = next_key(w.window);
    REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
    const Qp binder = w.qb;
    const Qp user = w.qa;
    auto other = w.rc_pair();

    SECTION("another QP of the PD has no access") {
        w.qa = other.a;
        w.qb = other.b;
        CHECK(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_REM_ACCESS_ERR);
        w.qa = user;
        w.qb = binder;
        CHECK(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_SUCCESS);
    }
    SECTION("another QP cannot invalidate it") {
        CHECK(w.result(w.b, other.b, local_inv(key)) == PIB_HCA_WC_MW_BIND_ERR);
        CHECK(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_SUCCESS);
    }
    SECTION("the peer of another QP cannot invalidate it") {
        w.b.post_recv(other.b, {});
        w.a.post(other.a, send_with_inv(key));
        w.settle();
        const auto received = w.b.poll(other.b);
        REQUIRE(received);
        CHECK(received->status == PIB_HCA_WC_REM_INV_REQ_ERR);
        CHECK(w.b.state(other.b) == PIB_HCA_QPS_ERR);
        CHECK(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_SUCCESS);
    }
    SECTION("a second bind is refused") {
        auto again = w.binding();
        again.rkey = next_key(key);
        CHECK(w.result(w.b, w.qb, bind_mw(again)) == PIB_HCA_WC_MW_BIND_ERR);
    }
    SECTION("a bind of zero bytes is refused") {
        CHECK(w.result(w.b, w.qb, bind_mw(nothing(next_key(key)))) == PIB_HCA_WC_MW_BIND_ERR);
    }
    SECTION("a new QP of the same number has no access") {
        to_state(w.b, binder, PIB_HCA_QPS_RESET);
        CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kOk);
    }
    SECTION("the window ends with its QP") {
        REQUIRE(w.b.transport.verbs().destroy(binder.qpn) == CmdStatus::kOk);
        CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kOk);
    }
}

TEST_CASE("owner or peer invalidate a type 2 window, and a new bind has another key") {
    const bool remote = GENERATE(false, true);
    Windows w(PIB_HCA_MW_TYPE_2);
    for (int round = 0; round < 300; ++round) {
        const uint32_t key = next_key(w.window);
        REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
        REQUIRE(w.write(key, w.region.addr + 4096) == PIB_HCA_WC_SUCCESS);
        if (remote) {
            w.b.post_recv(w.qb, {w.region.sge(0, 64)});
            CHECK(w.result(w.a, w.qa, send_with_inv(key, {w.from.sge(0, 64)})) ==
                  PIB_HCA_WC_SUCCESS);
            const auto received = w.b.poll(w.qb);
            REQUIRE(received);
            CHECK(received->status == PIB_HCA_WC_SUCCESS);
            CHECK(received->opcode == PIB_HCA_CQE_RECV);
            CHECK(received->flags == PIB_HCA_CQE_FLAG_INVALIDATED);
            CHECK(received->imm_data == key);
            CHECK(received->byte_count == 64);
        } else {
            CHECK(w.result(w.b, w.qb, local_inv(key)) == PIB_HCA_WC_SUCCESS);
        }
        w.window = key;
    }
    CHECK(w.write(w.window, w.region.addr + 4096) == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(w.b.mpt.destroy(w.region.key) == CmdStatus::kOk);
}

TEST_CASE("a peer invalidates a bound window once, and its owner may invalidate it again") {
    Windows w(PIB_HCA_MW_TYPE_2);
    const uint32_t key = next_key(w.window);
    REQUIRE(w.result(w.b, w.qb, bind_mw(w.binding())) == PIB_HCA_WC_SUCCESS);
    w.b.post_recv(w.qb, {});
    REQUIRE(w.result(w.a, w.qa, send_with_inv(key)) == PIB_HCA_WC_SUCCESS);
    REQUIRE(w.b.poll(w.qb));
    w.b.post_recv(w.qb, {});
    w.a.post(w.qa, send_with_inv(key));
    w.settle();
    CHECK(w.b.poll(w.qb)->status == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK(w.b.mpt.invalidate_local({.pd = 1, .privileged = false}, key));
}

TEST_CASE("a PD with keys is BUSY") {
    Windows w(PIB_HCA_MW_TYPE_2);
    CHECK(w.b.mpt.keys().keys_of_pd(1) == 2);
    CHECK(w.b.mpt.dealloc_window(w.region.key) == CmdStatus::kBadResource);
    CHECK(w.b.mpt.destroy(w.window) == CmdStatus::kBadResource);
    CHECK(w.b.mpt.dealloc_window(w.window) == CmdStatus::kOk);
    CHECK(w.b.mpt.keys().keys_of_pd(1) == 1);
    const WindowRequest bad{.pd = 1, .type = 3, .key = 0};
    CHECK(w.b.mpt.alloc_window(bad).error() == CmdStatus::kBadParam);
}
