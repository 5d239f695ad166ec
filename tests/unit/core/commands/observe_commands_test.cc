// SPDX-License-Identifier: GPL-2.0-or-later
// The objects and the trace of a device as JSON, QUERY commands, INJECT_EVENT, and test knobs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "base/json.h"
#include "base/trace.h"
#include "bench.h"
#include "commands/object_dump.h"
#include "queues/cqe_poison.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

size_t times(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++n;
    }
    return n;
}

Config traced(uint32_t entries) {
    Config config = bench_config();
    config.trace_entries = entries;
    return config;
}

}  // namespace

TEST_CASE("the JSON writer sets commas, nests and escapes") {
    JsonWriter out;
    out.begin_object();
    out.member("a", 1u);
    out.begin_array("b");
    out.begin_object();
    out.member("c", "quote \" backslash \\ bell \a");
    out.end_object();
    out.begin_object();
    out.end_object();
    out.end_array();
    out.hex("d", uint64_t{0xffffffffffffffff});
    out.member("e", false);
    out.end_object();
    CHECK(out.text() == R"({"a":1,"b":[{"c":"quote \" backslash \\ bell \u0007"},{}],)"
                        R"("d":"0xffffffffffffffff","e":false})");
}

TEST_CASE("the dump has every object with its state") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const MiniQp rc = d.create_qp(bench.shape());
    const MiniQp ud = d.create_qp(bench.shape(PIB_HCA_QP_UD));
    const MiniMr mr = d.create_mr(bench.pd, 8192, PIB_HCA_ACCESS_LOCAL_WRITE);
    d.connect_ud(ud, 1, 0x1234);
    const std::string text = bench.device->objects();
    CHECK(has(text, "\"qpn\":" + std::to_string(rc.qpn) + ",\"type\":\"RC\",\"state\":\"RESET\""));
    CHECK(has(text, "\"qpn\":" + std::to_string(ud.qpn) + ",\"type\":\"UD\",\"state\":\"RTS\""));
    CHECK(has(text, "\"cqn\":" + std::to_string(bench.cq.cqn)));
    CHECK(has(text, R"("eqs":{"count":2)"));
    CHECK(has(text, R"("mrs":{"count":1)"));
    char key[16];
    std::snprintf(key, sizeof key, "\"0x%x\"", mr.key);
    CHECK(has(text, key));
    CHECK(has(text, R"("ports":{"count":1)"));
    CHECK(times(text, "{") == times(text, "}"));

    bench.device->reset(false);
    CHECK(has(bench.device->objects(), R"("qps":{"count":0,"entries":[]})"));
}

TEST_CASE("the dump names both types of XRC QPs") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    QpShape shape = bench.shape(PIB_HCA_QP_XRC_INI);
    shape.recv_cq = 0;
    shape.flags = PIB_HCA_QP_NO_RQ;
    const MiniQp initiator = d.create_qp(shape);
    pib_hca_create_qp target{};
    target.type = PIB_HCA_QP_XRC_TGT;
    target.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
    target.xrcd = MiniDriver::must(d.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
    const uint32_t target_qpn =
        MiniDriver::must(d.command_in(PIB_HCA_CMD_CREATE_QP, 0, target), "CREATE_QP");
    const std::string text = bench.device->objects();
    CHECK(has(text, "\"qpn\":" + std::to_string(initiator.qpn) + R"(,"type":"XRC_INI")"));
    CHECK(has(text, "\"qpn\":" + std::to_string(target_qpn) + R"(,"type":"XRC_TGT")"));
}

TEST_CASE("the dump has the receive WQEs that wait, and the device does not see it") {
    const bool direct = GENERATE(true, false);
    CAPTURE(direct);
    Config config = traced(64);
    config.trace_kinds.dma = !direct;
    ReadyBench bench(config);
    MiniDriver& d = bench.driver;
    MiniQp qp = d.create_qp(bench.shape());
    const MiniMr mr = d.create_mr(bench.pd, 8192, PIB_HCA_ACCESS_LOCAL_WRITE);
    const std::string empty = R"("rq":{"depth":16,"consumer":0,"producer":0,"posted":0,"wqes":[]})";
    CHECK(has(bench.device->objects(), empty));
    for (uint32_t i = 1; i <= 6; ++i) {
        d.post_recv(qp, std::vector{MiniDriver::sge(mr, 0, i), MiniDriver::sge(mr, 64, 100)});
    }
    const std::string traced_before = bench.device->trace();
    const std::string text = bench.device->objects();
    CHECK(has(text, R"("posted":6,"wqes":[)"
                    R"({"counter":0,"bytes":101,"sges":2,"valid":true},)"
                    R"({"counter":1,"bytes":102,"sges":2,"valid":true},)"
                    R"({"counter":2,"bytes":103,"sges":2,"valid":true},)"
                    R"({"counter":3,"bytes":104,"sges":2,"valid":true}]})"));
    CHECK(bench.device->trace() == traced_before);

    // A producer counter beyond the ring, and memory that is gone, are shown as an empty queue.
    qp.memory.poke(offsetof(pib_hca_qp_header, rq_producer), uint32_t{17});
    CHECK(has(bench.device->objects(), R"("rq":{"depth":16,"consumer":0,"producer":0})"));
    bench.host.make_hole(qp.memory.page(0), 1);
    CHECK(has(bench.device->objects(), R"("rq":{"depth":16,"consumer":0,"producer":0})"));
    CHECK(d.command(PIB_HCA_CMD_ALLOC_PD).ok());
}

TEST_CASE("the dump is bounded, and its counts are complete") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    pib_hca_alloc_mw in{};
    in.pd = bench.pd;
    in.type = PIB_HCA_MW_TYPE_1;
    for (uint32_t i = 0; i < kDumpedObjects + 2; ++i) {
        REQUIRE(d.command_in(PIB_HCA_CMD_ALLOC_MW, 0, in).ok());
        while (d.poll(bench.async_eq)) {
        }
    }
    const std::string text = bench.device->objects();
    CHECK(has(text, "\"mrs\":{\"count\":" + std::to_string(kDumpedObjects + 2)));
    CHECK(times(text, "\"window-1\"") == kDumpedObjects);
}

TEST_CASE("the trace has the last commands with their results") {
    Bench bench(traced(3));
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    CHECK(bench.device->trace() == "[]");
    CHECK(d.command(PIB_HCA_CMD_ALLOC_PD).ok());
    CHECK_FALSE(d.command(PIB_HCA_CMD_FREE_PD, 77).ok());
    const std::string text = bench.device->trace();
    CHECK(has(text, R"("opcode":18,"id":)"));
    CHECK(has(text, R"("object":0,"status":0,"result":1})"));
    CHECK(has(text, R"("opcode":19,"id":)"));
    CHECK(has(text, R"("object":77,"status":5,"result":327950,"rule":"5.1.14","reason":)"
                    R"("object 0x4d at byte 4 of the entry must be the number of a PD"})"));
    for (int i = 0; i < 5; ++i) {
        REQUIRE(d.command(PIB_HCA_CMD_NOP).ok());
    }
    const std::string later = bench.device->trace();
    CHECK(times(later, "\"command\"") == 3);
    CHECK(has(later, "\"sequence\":6"));
    CHECK_FALSE(has(later, "\"sequence\":3,"));
}

TEST_CASE("the trace has the input of a command that was not refused") {
    Bench bench(traced(3));
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    pib_hca_alloc_mw in{};
    in.pd = d.alloc_pd();
    in.type = 1;
    CHECK(d.command_in(PIB_HCA_CMD_ALLOC_MW, 0, in).ok());
    CHECK(has(bench.device->trace(), R"("input":"01000000)"));
    in.pd = 77;
    CHECK_FALSE(d.command_in(PIB_HCA_CMD_ALLOC_MW, 0, in).ok());
    CHECK(times(bench.device->trace(), "\"input\"") == 1);
}

TEST_CASE("a trace of no entries records nothing") {
    Bench bench;
    REQUIRE(bench.driver.enable());
    REQUIRE(bench.driver.command(PIB_HCA_CMD_NOP).ok());
    CHECK(bench.device->trace() == "[]");
    CHECK_FALSE(Device::create(traced(Trace::kMaxEntries + 1), bench.host));
}

TEST_CASE("a trace begins anew with another size, and its numbers go on") {
    Bench bench;
    REQUIRE(bench.driver.enable());
    bench.device->choose_trace(2, {});
    for (int i = 0; i < 3; ++i) {
        REQUIRE(bench.driver.command(PIB_HCA_CMD_NOP).ok());
    }
    CHECK(times(bench.device->trace(), "\"command\"") == 2);
    bench.device->choose_trace(4, {.registers = true});
    CHECK(bench.device->trace() == "[]");
    REQUIRE(bench.driver.command(PIB_HCA_CMD_NOP).ok());
    const std::string text = bench.device->trace();
    CHECK(has(text, R"("sequence":3,)"));
    CHECK(has(text, R"("kind":"store")"));
    bench.device->reset(false);
    CHECK(has(bench.device->trace(), "\"command\""));
    bench.device->choose_trace(0, {});
    REQUIRE(bench.driver.enable());
    CHECK(bench.device->trace() == "[]");
}

// ---- QUERY commands and INJECT_EVENT

TEST_CASE("QUERY commands return EQs, CQs, keys and the progress of QPs") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    pib_hca_query_eq eq{};
    REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_EQ, bench.async_eq.eqn, eq).ok());
    CHECK(eq.flags == PIB_HCA_EQ_ASYNC);
    CHECK(eq.log_depth == 6);
    CHECK(eq.producer != 0);
    pib_hca_query_cq cq{};
    d.arm(bench.cq);
    REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_CQ, bench.cq.cqn, cq).ok());
    CHECK(cq.eqn == bench.eq.eqn);
    CHECK(cq.armed == PIB_HCA_CQ_ARMED_NEXT);
    CHECK(cq.error == 0);
    const MiniMr mr = d.create_mr(bench.pd, 8192, PIB_HCA_ACCESS_LOCAL_WRITE);
    pib_hca_query_key key{};
    REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_KEY, mr.key & ~0xffu, key).ok());
    CHECK(key.key == mr.key);
    CHECK(key.length == 8192);
    CHECK(key.kind == PIB_HCA_KEY_REGION);
    CHECK(key.valid == 1);
    const MiniQp qp = d.create_qp(bench.shape());
    RcPath path;
    path.av.dlid = 2;
    path.sq_psn = 0x123;
    path.rq_psn = 0x456;
    path.path_mtu = 1;
    d.connect_rc(qp, path);
    pib_hca_query_qp_progress progress{};
    REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_QP_PROGRESS, qp.qpn, progress).ok());
    CHECK(progress.una == 0x123);
    CHECK(progress.expected_psn == 0x456);
    CHECK(progress.retries_left == 7);
    CHECK(d.command_out(PIB_HCA_CMD_QUERY_CQ, 999, cq).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(d.command_out(PIB_HCA_CMD_QUERY_EQ, 999, eq).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(d.command_out(PIB_HCA_CMD_QUERY_KEY, 0xffffff00, key).status ==
          PIB_HCA_CMD_STATUS_BAD_RESOURCE);
}

namespace {

Config injecting() {
    Config config = bench_config();
    config.knobs.inject = true;
    return config;
}

CommandOutcome inject(MiniDriver& d, pib_hca_event type, uint32_t number, uint8_t port = 0,
                      uint32_t data = 0) {
    pib_hca_inject_event in{};
    in.type = static_cast<uint8_t>(type);
    in.port = port;
    in.data = data;
    return d.command_in(PIB_HCA_CMD_INJECT_EVENT, number, in);
}

// Takes all events from the async EQ; returns whether such an event was among them.
bool saw(ReadyBench& bench, pib_hca_event type, uint32_t number) {
    bool found = false;
    while (const auto eqe = bench.driver.poll(bench.async_eq)) {
        found = found || (eqe->type == type && eqe->number == number);
    }
    return found;
}

}  // namespace

TEST_CASE("INJECT_EVENT: errors stop their objects, and other events are only reported") {
    ReadyBench bench(injecting());
    MiniDriver& d = bench.driver;
    pib_hca_query_device caps{};
    REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_DEVICE, 0, caps).ok());
    CHECK((caps.feature_flags & PIB_HCA_FEATURE_INJECT) != 0);
    const pib_hca_event told[] = {PIB_HCA_EVENT_PATH_MIGRATED, PIB_HCA_EVENT_PATH_MIG_FAILED,
                                  PIB_HCA_EVENT_COMM_ESTABLISHED, PIB_HCA_EVENT_SQ_DRAINED,
                                  PIB_HCA_EVENT_LAST_WQE_REACHED};
    const pib_hca_event errors[] = {PIB_HCA_EVENT_QP_FATAL, PIB_HCA_EVENT_QP_REQUEST_ERROR,
                                    PIB_HCA_EVENT_QP_ACCESS_ERROR};
    const MiniQp qp = d.create_qp(bench.shape(PIB_HCA_QP_UD));
    CHECK(inject(d, PIB_HCA_EVENT_QP_FATAL, qp.qpn).status == PIB_HCA_CMD_STATUS_BAD_STATE);
    for (const pib_hca_event type : told) {
        CHECK(inject(d, type, qp.qpn).ok());
        CHECK(saw(bench, type, qp.qpn));
        CHECK(d.query(qp).state == PIB_HCA_QPS_RESET);
    }
    for (const pib_hca_event type : errors) {
        const MiniQp victim = d.create_qp(bench.shape(PIB_HCA_QP_UD));
        d.connect_ud(victim, 1, 0x1234);
        CHECK(inject(d, type, victim.qpn).ok());
        CHECK(saw(bench, type, victim.qpn));
        CHECK(d.query(victim).state == PIB_HCA_QPS_ERR);
        CHECK(inject(d, type, victim.qpn).status == PIB_HCA_CMD_STATUS_BAD_STATE);
    }
    d.connect_ud(qp, 1, 0x1234);
    CHECK(inject(d, PIB_HCA_EVENT_CQ_ERROR, bench.cq.cqn).ok());
    CHECK(saw(bench, PIB_HCA_EVENT_CQ_ERROR, bench.cq.cqn));
    CHECK(d.query(qp).state == PIB_HCA_QPS_ERR);
    CHECK(inject(d, PIB_HCA_EVENT_CQ_ERROR, bench.cq.cqn).status == PIB_HCA_CMD_STATUS_BAD_STATE);
}

TEST_CASE("INJECT_EVENT: events of ports and of the device are raised, others are refused") {
    ReadyBench bench(injecting());
    MiniDriver& d = bench.driver;
    for (uint32_t flag = 1; flag <= PIB_HCA_PORT_EVENT_GID_CHANGE; flag <<= 1) {
        CHECK(inject(d, PIB_HCA_EVENT_PORT, 0, 1, flag).ok());
        CHECK(saw(bench, PIB_HCA_EVENT_PORT, 0));
    }
    CHECK(inject(d, PIB_HCA_EVENT_PORT, 0, 2, 1).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(inject(d, PIB_HCA_EVENT_PORT, 0, 1, 0x80).status == PIB_HCA_CMD_STATUS_BAD_PARAM);
    CHECK(inject(d, PIB_HCA_EVENT_COMPLETION, 1).status != PIB_HCA_CMD_STATUS_OK);
    CHECK(inject(d, PIB_HCA_EVENT_SRQ_ERROR, 1).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(inject(d, PIB_HCA_EVENT_CQ_ERROR, 77).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(inject(d, PIB_HCA_EVENT_DEVICE_FATAL, 1).status == PIB_HCA_CMD_STATUS_BAD_PARAM);
    CHECK(inject(d, PIB_HCA_EVENT_DEVICE_FATAL, 0).ok());
    CHECK((d.read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_FATAL) != 0);
    CHECK(d.read32(PIB_HCA_REG_FATAL_CAUSE) == PIB_HCA_FATAL_INTERNAL);
    ReadyBench plain;
    CHECK(inject(plain.driver, PIB_HCA_EVENT_PORT, 0, 1, 1).status ==
          PIB_HCA_CMD_STATUS_NOT_SUPPORTED);
}

// ---- knobs

TEST_CASE("qpn-reuse selects QP numbers in rotation, from the lowest or at random") {
    const auto numbers = [](NumberChoice choice) {
        Config config = bench_config();
        config.knobs.qpn_choice = choice;
        ReadyBench bench(config);
        std::vector<uint32_t> seen;
        for (int i = 0; i < 3; ++i) {
            const MiniQp qp = bench.driver.create_qp(bench.shape());
            seen.push_back(qp.qpn);
            bench.driver.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
        }
        return seen;
    };
    constexpr uint32_t kFirst = PIB_HCA_FIRST_QPN;
    CHECK(numbers(NumberChoice::kRound) == std::vector{kFirst, kFirst + 1, kFirst + 2});
    CHECK(numbers(NumberChoice::kLowest) == std::vector{kFirst, kFirst, kFirst});
    const auto random = numbers(NumberChoice::kRandom);
    CHECK(random[0] != random[1]);
    CHECK(random[1] != random[2]);
}

TEST_CASE("poison-wc changes undefined fields only") {
    pib_hca_cqe received{};
    received.opcode = PIB_HCA_CQE_RECV;
    received.byte_count = 12;
    received.qpn = 0x40;
    received.wqe_counter = 3;
    poison_unspecified(received);
    CHECK(received.byte_count == 12);
    CHECK(received.wqe_counter == 3);
    CHECK(received.qpn == 0x40);
    CHECK(received.imm_data == 0xa5a5a5a5);
    CHECK(received.src_qp == 0xa5a5a5);  // not a datagram
    pib_hca_cqe datagram{};
    datagram.opcode = PIB_HCA_CQE_RECV;
    datagram.port = 1;
    datagram.src_qp = 7;
    datagram.flags = PIB_HCA_CQE_FLAG_IMM;
    poison_unspecified(datagram);
    CHECK(datagram.src_qp == 7);
    CHECK(datagram.imm_data == 0);
    pib_hca_cqe atomic{};
    atomic.opcode =
        GENERATE(PIB_HCA_CQE_FETCH_ADD, PIB_HCA_CQE_MASKED_CMP_SWAP, PIB_HCA_CQE_MASKED_FETCH_ADD);
    atomic.byte_count = 8;
    poison_unspecified(atomic);
    CHECK(atomic.byte_count == 8);
    pib_hca_cqe failed{};
    failed.opcode = PIB_HCA_CQE_RDMA_READ;
    failed.status = PIB_HCA_WC_RETRY_EXC_ERR;
    failed.vendor_error = 5;
    poison_unspecified(failed);
    CHECK(failed.byte_count == 0xa5a5a5a5);
    CHECK(failed.vendor_error == 5);
    CHECK(failed.opcode == PIB_HCA_CQE_RDMA_READ);
    CHECK((failed.flags & PIB_HCA_CQE_FLAG_SRQ) == 0);
    pib_hca_cqe flushed{};
    flushed.opcode = PIB_HCA_CQE_RECV;
    flushed.status = PIB_HCA_WC_WR_FLUSH_ERR;
    flushed.flags = PIB_HCA_CQE_FLAG_SRQ;
    flushed.srqn = 2;
    poison_unspecified(flushed);
    CHECK((flushed.flags & PIB_HCA_CQE_FLAG_SRQ) != 0);  // specified: the queue of the WQE
    CHECK(flushed.srqn == 2);
}

TEST_CASE("warnings=on logs suspicious use") {
    const bool wanted = GENERATE(false, true);
    Config config = bench_config();
    config.knobs.warnings = wanted;
    ReadyBench bench(config);
    QpShape shape = bench.shape();
    shape.log_sq_depth = 10;  // more WQEs than the CQ's 2^6 CQEs
    bench.driver.create_qp(shape);
    const auto& lines = bench.host.warnings;
    const bool told = std::ranges::any_of(
        lines, [](const std::string& line) { return line.find("suspicious") != line.npos; });
    CHECK(told == wanted);
}
