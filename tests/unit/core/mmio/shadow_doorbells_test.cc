// SPDX-License-Identifier: GPL-2.0-or-later
// Kicks: the device serves the bits of the shadow doorbell page, whatever a process writes there
// meanwhile (T02, T24 in docs/fault-cases.md).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>
#include <vector>

#include "bench.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

Config with_shadow_doorbells() {
    Config config = bench_config();
    config.shadow_doorbells = true;
    return config;
}

struct ShadowBench : ReadyBench {
    ShadowBench() : ReadyBench(with_shadow_doorbells()), page(host.alloc(FakeHost::kPage)) {
        uar = driver.alloc_uar();
    }

    CommandOutcome set(uint32_t number, uint64_t addr) {
        return driver.command_in(PIB_HCA_CMD_SET_SHADOW_PAGE, number,
                                 pib_hca_set_shadow_page{.addr = addr});
    }
    void set_up() { REQUIRE(set(uar, page).ok()); }

    // A QP in Error: it flushes the WQEs that a doorbell announces.
    MiniQp qp(uint32_t of_uar) {
        QpShape s = shape(PIB_HCA_QP_UD);
        s.uar = of_uar;
        MiniQp made = driver.create_qp(s);
        driver.connect_ud(made, 1, 0x1234);
        pib_hca_modify_qp error{};
        error.attr_mask = PIB_HCA_QP_ATTR_STATE;
        error.state = PIB_HCA_QPS_ERR;
        REQUIRE(driver.modify(made, error).ok());
        drain();
        return made;
    }
    // Takes the events that commands have caused from the async EQ.
    void drain() {
        while (driver.poll(async_eq)) {
        }
    }
    void post(MiniQp& made) { driver.post_send(made, {}, true); }

    // Sets a QP's bit as software does; true if software must kick.
    bool note(uint32_t qpn) {
        const uint32_t slot = qpn % 4096;
        const uint64_t word = page + offsetof(pib_hca_shadow_page, rung) + slot / 64 * 8;
        const auto bits = host.peek<uint64_t>(word);
        if ((bits >> slot % 64 & 1) != 0) {
            return false;
        }
        host.poke(word, bits | uint64_t{1} << slot % 64);
        host.poke(page, host.peek<uint64_t>(page) | uint64_t{1} << slot / 64);
        return !awake();
    }
    bool awake() const { return (host.peek<uint64_t>(page + 8) & PIB_HCA_SHADOW_AWAKE) != 0; }
    bool nothing_noted() const {
        const auto shadow = host.peek<pib_hca_shadow_page>(page);
        return shadow.summary == 0 &&
               std::ranges::all_of(shadow.rung, [](uint64_t word) { return word == 0; });
    }
    void kick() { driver.ring(uar, PIB_HCA_UAR_KICK, 0); }
    uint32_t completions() {
        uint32_t n = 0;
        while (driver.poll(cq)) {
            ++n;
        }
        return n;
    }

    uint64_t page;
    uint32_t uar;
};

}  // namespace

TEST_CASE("the device offers shadow doorbell pages when kicks are eventfds") {
    ReadyBench plain;
    pib_hca_query_device caps{};
    REQUIRE(plain.driver.command_out(PIB_HCA_CMD_QUERY_DEVICE, 0, caps).ok());
    CHECK((caps.feature_flags & PIB_HCA_FEATURE_SHADOW_DOORBELLS) == 0);
    const uint64_t page = plain.host.alloc(FakeHost::kPage);
    CHECK(plain.driver
              .command_in(PIB_HCA_CMD_SET_SHADOW_PAGE, 0, pib_hca_set_shadow_page{.addr = page})
              .status == PIB_HCA_CMD_STATUS_NOT_SUPPORTED);

    ShadowBench bench;
    REQUIRE(bench.driver.command_out(PIB_HCA_CMD_QUERY_DEVICE, 0, caps).ok());
    CHECK((caps.feature_flags & PIB_HCA_FEATURE_SHADOW_DOORBELLS) != 0);
}

TEST_CASE("a UAR has one shadow doorbell page, in RAM") {
    ShadowBench bench;
    const auto status = [&](uint32_t uar, uint64_t addr) { return bench.set(uar, addr).status; };
    CHECK(status(500, bench.page) == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(status(bench.uar, bench.page + 8) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    CHECK(status(bench.uar, 4096) == PIB_HCA_CMD_STATUS_BAD_MEMORY);
    CHECK(status(bench.uar, 0) == PIB_HCA_CMD_STATUS_BAD_STATE);
    CHECK(bench.host.kicked_uars.empty());

    CHECK(status(bench.uar, bench.page) == PIB_HCA_CMD_STATUS_OK);
    CHECK(status(0, bench.host.alloc(FakeHost::kPage)) == PIB_HCA_CMD_STATUS_OK);
    CHECK(bench.host.kicked_uars == std::set<uint32_t>{0, bench.uar});
    CHECK(status(bench.uar, bench.page) == PIB_HCA_CMD_STATUS_BAD_STATE);
    CHECK(status(bench.uar, 0) == PIB_HCA_CMD_STATUS_OK);
    CHECK(bench.host.kicked_uars == std::set<uint32_t>{0});

    bench.set_up();
    bench.driver.destroy(PIB_HCA_CMD_FREE_UAR, bench.uar);
    CHECK(bench.host.kicked_uars == std::set<uint32_t>{0});
    bench.device->reset(false);
    CHECK(bench.host.kicked_uars.empty());
}

TEST_CASE("each kind of kick serves the QPs of the bitmap") {
    ShadowBench bench;
    bench.set_up();
    MiniQp noted = bench.qp(bench.uar);
    MiniQp other = bench.qp(bench.uar);
    MiniQp foreign = bench.qp(0);
    for (MiniQp* qp : {&noted, &other, &foreign}) {
        bench.post(*qp);
    }
    const bool by_eventfd = GENERATE(false, true);
    CHECK(bench.note(noted.qpn));
    CHECK(bench.note(foreign.qpn));
    if (by_eventfd) {
        bench.device->kick(bench.uar);
    } else {
        bench.kick();
    }
    REQUIRE(bench.driver.pump());
    CHECK(bench.nothing_noted());
    CHECK_FALSE(bench.awake());
    CHECK(bench.completions() == 1);
    CHECK(bench.counter(PIB_HCA_COUNTER_SEND_DOORBELLS) == 1);
    // A kick without a bit in the shadow doorbell page has no effect.
    bench.kick();
    REQUIRE(bench.driver.pump());
    CHECK(bench.completions() == 0);
    CHECK(bench.counter(PIB_HCA_COUNTER_FOREIGN_DOORBELL) == 0);
    bench.driver.ring(0, PIB_HCA_UAR_KICK, 0);
    CHECK(bench.counter(PIB_HCA_COUNTER_FOREIGN_DOORBELL) == 1);
}

TEST_CASE("a bit serves all QPs that share it") {
    ShadowBench bench;
    bench.set_up();
    MiniQp first = bench.qp(bench.uar);
    const uint32_t pd = bench.pd;
    QpShape s = bench.shape(PIB_HCA_QP_UD);
    s.pd = pd;
    for (uint32_t next = first.qpn + 1; next != first.qpn + 4096; ++next) {
        const MiniQp passed = bench.driver.create_qp(s);
        bench.driver.destroy(PIB_HCA_CMD_DESTROY_QP, passed.qpn);
        bench.drain();
    }
    MiniQp second = bench.qp(bench.uar);
    REQUIRE(second.qpn == first.qpn + 4096);
    bench.post(first);
    bench.post(second);
    CHECK(bench.note(second.qpn));
    bench.kick();
    REQUIRE(bench.driver.pump());
    CHECK(bench.completions() == 2);
}

TEST_CASE("a kick does bounded work and sets the awake flag meanwhile") {
    ShadowBench bench;
    bench.set_up();
    std::vector<MiniQp> qps;
    for (unsigned i = 0; i < 200; ++i) {
        qps.push_back(bench.qp(bench.uar));
    }
    bench.host.woken = false;
    for (unsigned i = 0; i < 150; ++i) {
        bench.note(qps[i].qpn);
    }
    bench.kick();
    CHECK(bench.awake());
    CHECK(bench.host.woken);
    // QPs marked while the device is awake need no kick.
    for (unsigned i = 150; i < 200; ++i) {
        CHECK_FALSE(bench.note(qps[i].qpn));
    }
    REQUIRE(bench.driver.pump());
    CHECK(bench.nothing_noted());
    CHECK_FALSE(bench.awake());
}

// 16 QPs may share a bit, and a bus write may kick many UARs. The port is not Active and discards
// all packets, so no QP waits for room.
TEST_CASE("kicks of many QPs copy at most the payload of a turn at once") {
    constexpr uint32_t kBytes = 4096;
    constexpr uint32_t kSends = 16;
    constexpr uint64_t kTurnBytes = 4u << 20;
    constexpr size_t kUars = 4;
    ShadowBench bench;
    const MiniMr mr = bench.driver.create_mr(bench.pd, kBytes, PIB_HCA_ACCESS_LOCAL_WRITE);
    bench.cq = bench.driver.create_cq(bench.eq.eqn, 14);
    SendWr wr{.sges = {MiniDriver::sge(mr, 0, kBytes)}, .dest_qpn = 77, .qkey = 0x1234};
    wr.av.dlid = 9;
    wr.av.port = 1;
    std::vector<uint32_t> uars;
    for (size_t i = 0; i < kUars; ++i) {
        bench.uar = bench.driver.alloc_uar();
        bench.page = bench.host.alloc(FakeHost::kPage);
        bench.set_up();
        uars.push_back(bench.uar);
        for (unsigned n = 0; n < 40; ++n) {
            QpShape s = bench.shape(PIB_HCA_QP_UD);
            s.uar = bench.uar;
            MiniQp qp = bench.driver.create_qp(s);
            bench.driver.connect_ud(qp, 1, 0x1234);
            bench.drain();
            for (uint32_t m = 0; m < kSends; ++m) {
                bench.driver.post_send(qp, wr, true);
            }
            bench.note(qp.qpn);
        }
    }
    for (const uint32_t uar : uars) {
        bench.device->kick(uar);
    }
    uint64_t sent = bench.completions();
    CHECK(sent > 0);
    CHECK(sent * kBytes <= kTurnBytes + kSends * kBytes);
    for (unsigned runs = 0; bench.host.woken && runs < 10; ++runs) {
        bench.host.woken = false;
        bench.device->run();
        const uint64_t more = bench.completions();
        CHECK(more * kBytes <= 2 * kTurnBytes);
        sent += more;
    }
    CHECK(sent == kUars * 40 * kSends);
}

TEST_CASE("a turn reads a bounded number of pages again") {
    ShadowBench bench;
    constexpr size_t kUars = 30;
    struct User {
        uint32_t uar;
        uint64_t page;
        MiniQp qp;
    };
    std::vector<User> users;
    for (size_t i = 0; i < kUars; ++i) {
        bench.uar = bench.driver.alloc_uar();
        bench.page = bench.host.alloc(FakeHost::kPage);
        bench.set_up();
        users.push_back({bench.uar, bench.page, bench.qp(bench.uar)});
    }
    const auto for_each_user = [&](auto&& act) {
        for (User& user : users) {
            bench.uar = user.uar;
            bench.page = user.page;
            act(user);
        }
    };
    const auto mark = [&](User& user) {
        bench.post(user.qp);
        return bench.note(user.qp.qpn);
    };
    for_each_user([&](User& user) {
        REQUIRE(mark(user));
        bench.kick();
    });
    // The QPs wait for their turns, so the device will read all pages again.
    for_each_user([&](User& user) { REQUIRE_FALSE(mark(user)); });
    bench.host.woken = false;
    bench.device->run();
    size_t taken = 0;
    for_each_user([&](User&) { taken += bench.nothing_noted() ? 1 : 0; });
    CHECK(taken > 0);
    CHECK(taken <= 16);
    CHECK(bench.host.woken);
    REQUIRE(bench.driver.pump());
    for_each_user([&](User&) {
        CHECK(bench.nothing_noted());
        CHECK_FALSE(bench.awake());
    });
    CHECK(bench.completions() == 2 * kUars);
}

// The device clears its awake flag and then reads the bitmap again, so that it finds a bit that
// software has set in between.
TEST_CASE("the device serves a QP whose bit is set while it goes to sleep") {
    ShadowBench bench;
    bench.set_up();
    MiniQp qp = bench.qp(bench.uar);
    bench.post(qp);
    bool noted = false;
    bench.host.before_dma = [&](uint64_t addr, size_t, bool is_write) {
        if (is_write && addr == bench.page + 8 && bench.awake() && !noted) {
            noted = true;
            CHECK_FALSE(bench.note(qp.qpn));
        }
    };
    bench.kick();
    REQUIRE(noted);
    REQUIRE(bench.driver.pump());
    CHECK(bench.completions() == 1);
    CHECK_FALSE(bench.awake());
}

TEST_CASE("a guest that sets bits without end takes bounded turns") {
    ShadowBench bench;
    bench.set_up();
    const uint64_t step = GENERATE(0, 1);  // the same bits, or changing ones
    uint64_t salt = 1;
    bench.host.before_dma = [&](uint64_t, size_t, bool) {
        pib_hca_shadow_page shadow{};
        shadow.summary = UINT64_MAX - salt;
        std::ranges::fill(shadow.rung, UINT64_MAX - salt);
        salt += step;
        bench.host.poke(bench.page, shadow);
    };
    const uint64_t before = bench.host.dma_reads + bench.host.dma_writes;
    bench.kick();
    CHECK(bench.host.dma_reads + bench.host.dma_writes - before < 10'000);
    CHECK(bench.host.woken);
    bench.host.before_dma = nullptr;
    bench.host.poke(bench.page, UINT64_MAX);
    bench.kick();
    REQUIRE(bench.driver.pump());
    CHECK(bench.nothing_noted());
}

TEST_CASE("a shadow doorbell page that vanishes does not stop the device") {
    ShadowBench bench;
    bench.set_up();
    MiniQp qp = bench.qp(bench.uar);
    bench.post(qp);
    bench.note(qp.qpn);
    bench.host.make_hole(bench.page, FakeHost::kPage);
    bench.kick();
    REQUIRE(bench.driver.pump());
    CHECK(bench.completions() == 0);
    bench.driver.ring_send(qp);
    REQUIRE(bench.driver.pump());
    CHECK(bench.completions() == 1);
    CHECK(bench.set(bench.uar, 0).ok());
}
