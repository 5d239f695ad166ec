// SPDX-License-Identifier: GPL-2.0-or-later
// What a device says about itself: its objects and its trace, as JSON.
#include <catch2/catch_test_macros.hpp>

#include "bench.h"
#include "json.h"
#include "object_dump.h"
#include "trace.h"

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

TEST_CASE("JSON: commas, nesting, escapes") {
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

TEST_CASE("every object is in the dump, with its state") {
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

TEST_CASE("the dump is bounded, the counts are not") {
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

TEST_CASE("commands are traced, the last ones, with what became of them") {
    Bench bench(traced(3));
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    CHECK(bench.device->trace() == "[]");
    CHECK(d.command(PIB_HCA_CMD_ALLOC_PD).ok());
    CHECK_FALSE(d.command(PIB_HCA_CMD_FREE_PD, 77).ok());
    const std::string text = bench.device->trace();
    CHECK(has(text, R"("kind":"command","opcode":18,"object":0,"status":0,"result":1)"));
    CHECK(has(text, R"("kind":"command","opcode":19,"object":77,"status":5)"));
    for (int i = 0; i < 5; ++i) {
        REQUIRE(d.command(PIB_HCA_CMD_NOP).ok());
    }
    const std::string later = bench.device->trace();
    CHECK(times(later, "\"command\"") == 3);
    CHECK(has(later, "\"sequence\":6"));
    CHECK_FALSE(has(later, "\"sequence\":3,"));
}

TEST_CASE("without trace entries nothing is traced") {
    Bench bench;
    REQUIRE(bench.driver.enable());
    REQUIRE(bench.driver.command(PIB_HCA_CMD_NOP).ok());
    CHECK(bench.device->trace() == "[]");
    CHECK_FALSE(Device::create(traced(Trace::kMaxEntries + 1), bench.host));
}

TEST_CASE("packets and work queue elements in a trace") {
    Trace trace(8);
    // A UD SEND of 4 KiB: only the headers are kept, the line is as of the whole packet.
    std::vector<uint8_t> packet(8 + 12 + 8 + 256, 0);
    const uint8_t headers[] = {0x00, 0x02, 0x00, 0x02, 0x00, 0x48, 0x00, 0x01, 0x64, 0x00,
                               0xff, 0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x07};
    std::copy(std::begin(headers), std::end(headers), packet.begin());
    trace.packet_out(5, 2, packet);
    trace.packet_in(6, 2, std::span<const uint8_t>(packet).first(3));  // not even an LRH
    const std::array<uint8_t, 16> wqe = {0x02, 0x01};
    trace.send_wqe(7, 0x40, 9, wqe);
    trace.recv_wqe(8, 0x41, 10, wqe);
    const std::string text = trace.json();
    CHECK(has(text, R"("time_ns":5,"kind":"packet-out","port":2,"length":284)"));
    CHECK(has(text, R"("kind":"packet-in","port":2,"length":3)"));
    CHECK(has(text, R"("kind":"send-wqe","qpn":64,"counter":9,"bytes":"0201)"));
    CHECK(has(text, R"("kind":"recv-wqe","qpn":65,"counter":10)"));
}
