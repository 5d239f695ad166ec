// SPDX-License-Identifier: GPL-2.0-or-later
// The traces of two connected HCAs: the members by which a work request, its packets and its
// completion refer to each other.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "rc_end.h"

using namespace pib;
using namespace pib::test;
using nlohmann::json;

namespace {

hca::Config traced(const hca::TraceKinds& kinds, hca::Strictness strict = hca::Strictness::kOff) {
    hca::Config config;
    config.knobs.strict = strict;
    config.trace_entries = 4096;
    config.trace_kinds = kinds;
    return config;
}

constexpr uint32_t kFirstPsn = 100;
constexpr uint32_t kBytes = 8192;

// Two guests whose HCAs record, and a connection between them.
struct Connection {
    Subnet subnet;
    MiniSm sm{subnet, subnet.guest(0)};
    RcEnds ends{subnet.guest(0), subnet.guest(1), kBytes};
    RcEnd& a = ends.a;
    RcEnd& b = ends.b;

    explicit Connection(const hca::TraceKinds& kinds = {},
                        hca::Strictness strict = hca::Strictness::kOff)
        : subnet(2, default_link_mode(), Subnet::kSmallRing, traced(kinds, strict)) {
        sm.sweep();
        hca::test::RcPath path;
        path.sq_psn = path.rq_psn = kFirstPsn;
        path.path_mtu = 3;  // 1024 bytes
        path.timeout = 0;
        ends.connect(sm, path);
    }
    // Posts an RDMA request at a; its remote memory is b's.
    void rdma(pib_hca_wqe_opcode opcode, uint32_t bytes, bool signalled = true) {
        hca::test::SendWr request = remote_request(opcode, a.mr, b.mr, bytes);
        request.flags = signalled ? request.flags : 0;
        a.guest.driver.post_send(a.qp, request);
    }
    void send(uint32_t bytes) {
        hca::test::SendWr request;
        request.sges = {hca::test::MiniDriver::sge(a.mr, 0, bytes)};
        a.guest.driver.post_send(a.qp, request);
    }
    // Posts a receive request at b.
    void receive(uint32_t bytes) {
        const pib_hca_sge sge = hca::test::MiniDriver::sge(b.mr, 0, bytes);
        b.guest.driver.post_recv(b.qp, {&sge, 1});
    }
};

// The trace's entries of this kind about one end: of its QP, or packets to the QP.
std::vector<json> entries(const RcEnd& end, std::string_view kind) {
    std::vector<json> found;
    for (const json& entry : json::parse(end.guest.device->trace())) {
        const char* const key = kind == "packet-in" ? "dest_qpn" : "qpn";
        if (entry.at("kind") == kind && entry.value(key, 0u) == end.qp.qpn) {
            found.push_back(entry);
        }
    }
    return found;
}

// The values of one member.
std::vector<uint64_t> values(const std::vector<json>& entries, const char* member) {
    std::vector<uint64_t> found;
    for (const json& entry : entries) {
        found.push_back(entry.value(member, UINT64_MAX));
    }
    return found;
}

}  // namespace

TEST_CASE("trace: a WRITE has its PSNs, its packets name the sender, and its completion the ACK") {
    Connection c;
    c.rdma(PIB_HCA_WQE_RDMA_WRITE, 3000);
    c.subnet.settle();
    const auto wqes = entries(c.a, "send-wqe");
    REQUIRE(wqes.size() == 1);
    CHECK(wqes[0].at("psn") == kFirstPsn);
    CHECK(wqes[0].at("packets") == 3);
    CHECK(values(entries(c.a, "packet-out"), "psn") == std::vector<uint64_t>{100, 101, 102});
    const auto acks = entries(c.a, "packet-in");
    REQUIRE(acks.size() == 1);
    const auto ends = entries(c.a, "send-done");
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].at("counter") == 0);
    CHECK(ends[0].at("cqn") == c.a.cq.cqn);
    CHECK(ends[0].at("status") == 0);
    CHECK(ends[0].at("packet") == acks[0].at("sequence"));
    // At the other end, a response has its sender, too, and a WRITE raises no completion.
    CHECK(values(entries(c.b, "packet-out"), "opcode") ==
          std::vector<uint64_t>{ib::opcode::kAcknowledge});
    CHECK(entries(c.b, "recv-done").empty());
}

TEST_CASE("trace: a receive WQE and its completion name the packets that caused them") {
    Connection c;
    c.receive(kBytes);
    c.send(2000);
    c.subnet.settle();
    const auto packets = values(entries(c.b, "packet-in"), "sequence");
    REQUIRE(packets.size() == 2);
    CHECK(values(entries(c.b, "recv-wqe"), "packet") == std::vector{packets[0]});
    const auto ends = entries(c.b, "recv-done");
    CHECK(values(ends, "packet") == std::vector{packets[1]});
    CHECK(values(ends, "cqn") == std::vector<uint64_t>{c.b.cq.cqn});
    // The sender's WQE was posted by the driver: no packet is its cause.
    CHECK(values(entries(c.a, "send-wqe"), "packet") == std::vector{UINT64_MAX});
}

TEST_CASE("trace: a READ has the PSNs of its responses; an unsignalled success has no CQ") {
    Connection c;
    c.rdma(PIB_HCA_WQE_RDMA_READ, 2048, false);
    c.subnet.settle();
    CHECK(values(entries(c.a, "send-wqe"), "packets") == std::vector<uint64_t>{2});
    CHECK(values(entries(c.a, "packet-in"), "psn") == std::vector<uint64_t>{100, 101});
    const auto ends = entries(c.a, "send-done");
    REQUIRE(ends.size() == 1);
    CHECK_FALSE(ends[0].contains("cqn"));
}

TEST_CASE("trace: a failed and a flushed request have their status") {
    Connection c;
    c.receive(8);
    c.send(2000);
    c.send(8);
    c.subnet.settle();
    CHECK(values(entries(c.a, "send-done"), "status") ==
          std::vector<uint64_t>{PIB_HCA_WC_REM_INV_REQ_ERR, PIB_HCA_WC_WR_FLUSH_ERR});
    CHECK(values(entries(c.b, "recv-done"), "status") ==
          std::vector<uint64_t>{PIB_HCA_WC_LOC_LEN_ERR});
}

TEST_CASE("trace: a command begins before it ends") {
    Connection c;
    const json trace = json::parse(c.a.guest.device->trace());
    const auto commands = std::ranges::count_if(
        trace, [](const json& entry) { return entry.at("kind") == "command"; });
    CHECK(commands > 5);
    for (const json& entry : trace) {
        if (entry.at("kind") == "command") {
            CHECK(entry.at("fetched_ns") <= entry.at("time_ns"));
            CHECK(entry.at("fetched_ns") != 0);
        }
    }
}

namespace {

std::vector<json> of_kind(const RcEnd& end, std::string_view kind) {
    std::vector<json> found;
    for (const json& entry : json::parse(end.guest.device->trace())) {
        if (entry.at("kind") == kind) {
            found.push_back(entry);
        }
    }
    return found;
}

bool has(const std::vector<json>& entries, const json& members) {
    return std::ranges::any_of(entries, [&](const json& entry) {
        return std::ranges::all_of(members.items(), [&](const auto& member) {
            return entry.value(member.key(), json()) == member.value();
        });
    });
}

}  // namespace

TEST_CASE("trace: registers, DMA and interrupts are left out unless they are chosen") {
    Connection c;
    c.rdma(PIB_HCA_WQE_RDMA_WRITE, 64);
    c.subnet.settle();
    for (const char* kind : {"load", "store", "dma-read", "dma-write", "eqe", "interrupt"}) {
        CHECK(of_kind(c.a, kind).empty());
    }
}

TEST_CASE("trace: accesses to registers and doorbells have their values") {
    Connection c({.registers = true});
    (void)c.a.guest.driver.read32(PIB_HCA_REG_STATUS);
    c.rdma(PIB_HCA_WQE_RDMA_WRITE, 64);
    const json doorbell = {{"bar", PIB_HCA_BAR_UAR}, {"offset", PIB_HCA_UAR_SEND}, {"size", 4}};
    CHECK(has(of_kind(c.a, "store"), doorbell));
    CHECK(std::stoul(of_kind(c.a, "store").back().at("value").get<std::string>(), nullptr, 16) ==
          c.a.qp.qpn);
    CHECK(has(of_kind(c.a, "load"),
              {{"bar", PIB_HCA_BAR_REGS}, {"offset", PIB_HCA_REG_STATUS}, {"value", "0x1"}}));
    CHECK(of_kind(c.a, "dma-read").empty());
}

TEST_CASE("trace: interrupts have the event that caused them") {
    Connection c({.interrupts = true});
    c.a.guest.driver.arm(c.a.eq);
    c.a.guest.driver.arm(c.a.cq);
    c.rdma(PIB_HCA_WQE_RDMA_WRITE, 64);
    c.subnet.settle();
    CHECK(has(of_kind(c.a, "interrupt"), {{"vector", 3},
                                          {"eqn", c.a.eq.eqn},
                                          {"event", PIB_HCA_EVENT_COMPLETION},
                                          {"number", c.a.cq.cqn}}));
    CHECK(has(of_kind(c.a, "eqe"), {{"eqn", c.a.eq.eqn},
                                    {"counter", 0},
                                    {"event", PIB_HCA_EVENT_COMPLETION},
                                    {"number", c.a.cq.cqn}}));
    c.a.guest.driver.write32(PIB_HCA_REG_TEST_IRQ, 2);
    const auto interrupts = of_kind(c.a, "interrupt");
    CHECK(interrupts.back().at("vector") == 2);
    CHECK_FALSE(interrupts.back().contains("eqn"));
}

TEST_CASE("trace: accesses to memory have their purposes, and move the same bytes") {
    Connection c({.dma = true});
    const std::vector<uint8_t> data(3000, 0x5a);
    c.a.mr.memory.write(0, data);
    c.rdma(PIB_HCA_WQE_RDMA_WRITE, 3000);
    c.subnet.settle();
    std::vector<uint8_t> arrived(data.size());
    c.b.mr.memory.read(0, arrived);
    CHECK(arrived == data);
    const auto reads = of_kind(c.a, "dma-read");
    CHECK(has(reads, {{"purpose", "payload"}}));
    CHECK(has(reads, {{"purpose", "QP"}}));
    CHECK(has(reads, {{"purpose", "command"}, {"length", sizeof(pib_hca_cmd)}}));
    const auto writes = of_kind(c.a, "dma-write");
    CHECK(has(writes, {{"purpose", "CQ"}}));
    CHECK(has(writes, {{"purpose", "EQ"}}));
    CHECK(has(of_kind(c.b, "dma-write"), {{"purpose", "payload"}}));
    CHECK_FALSE(has(writes, {{"failed", true}}));
    c.a.guest.host.bus_master = false;
    c.rdma(PIB_HCA_WQE_RDMA_WRITE, 64);
    CHECK(has(of_kind(c.a, "dma-read"), {{"purpose", "QP"}, {"failed", true}}));
}

// The checks must not make buffers look up host pointers, which the buffers would keep.
TEST_CASE("trace: the checks of a strict device access memory as the device does") {
    const json owner = {{"purpose", "CQ"}, {"length", 1}};
    const Connection strict({.dma = true}, hca::Strictness::kOn);
    CHECK(has(of_kind(strict.a, "dma-read"), owner));
    const Connection careless({.dma = true});
    CHECK_FALSE(has(of_kind(careless.a, "dma-read"), owner));
}

TEST_CASE("trace: a kind is refused if the trace has no room for entries") {
    hca::Config config = traced({.dma = true});
    config.trace_entries = 0;
    hca::test::FakeHost host;
    CHECK_FALSE(hca::Device::create(config, host).has_value());
}
