// SPDX-License-Identifier: GPL-2.0-or-later
// The command queue: order, statuses of malformed entries (T03 and T04 in
// docs/fault-cases.md), rings that vanish, events.
#include "commands/command_queue.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <set>

#include "bench.h"
#include "memory/mpt.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

uint32_t fatal_cause(MiniDriver& d) {
    return (d.read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_FATAL) != 0
               ? d.read32(PIB_HCA_REG_FATAL_CAUSE)
               : PIB_HCA_FATAL_NONE;
}

}  // namespace

TEST_CASE("QUERY_DEVICE reports identity and limits") {
    Bench bench;
    REQUIRE(bench.driver.enable());
    pib_hca_query_device out;
    const auto outcome = bench.driver.command_out(PIB_HCA_CMD_QUERY_DEVICE, 0, out);
    REQUIRE(outcome.ok());
    CHECK(outcome.out_length == sizeof out);
    CHECK(out.node_guid[0] == 0x52);
    CHECK(out.node_guid[6] == 0x01);
    CHECK(std::string(reinterpret_cast<const char*>(out.node_description)) == "bench");
    CHECK(out.page_size_cap == 0x7ffff000);
    CHECK(out.max_cq == Limits::kCqs);
    CHECK(out.max_inline_data == 960);
    CHECK(out.port_count == 1);
    CHECK(out.privileged_lkey == kPrivilegedLkey);
}

TEST_CASE("a doorbell before ENABLE does nothing") {
    Bench bench;
    const uint64_t reads = bench.host.dma_reads;
    bench.driver.write32(PIB_HCA_REG_CMDQ_DOORBELL, 1);
    CHECK(bench.host.dma_reads == reads);
    CHECK(bench.driver.read32(PIB_HCA_REG_STATUS) == 0);
}

TEST_CASE("malformed entries are refused with their status") {
    Bench bench;
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    const auto status = [&](auto&& change, uint16_t opcode = PIB_HCA_CMD_ALLOC_PD, size_t in = 0,
                            size_t out = 0) {
        pib_hca_cmd entry = d.make_entry(opcode, 0, in, out);
        change(entry);
        return d.submit(entry).status;
    };
    const auto as_is = [](pib_hca_cmd&) {};
    std::set<unsigned> known = {0x50, 0x51, 0x52, 0x53, 0x58, 0x59};
    for (unsigned opcode = 0; opcode < 0x60; ++opcode) {
        if (status(as_is, static_cast<uint16_t>(opcode)) != PIB_HCA_CMD_STATUS_BAD_OPCODE) {
            known.insert(opcode);
        }
    }
    CHECK(known.size() == 38);
    CHECK(status(as_is, 0xffff) == PIB_HCA_CMD_STATUS_BAD_OPCODE);
    CHECK(status([](auto& e) { e.reserved[0] = 1; }) == PIB_HCA_CMD_STATUS_BAD_RESERVED);
    CHECK(status([](auto& e) { e.reserved[6] = 1u << 31; }) == PIB_HCA_CMD_STATUS_BAD_RESERVED);
    CHECK(status([](auto& e) { e.modifier = 1; }) == PIB_HCA_CMD_STATUS_BAD_RESERVED);
    CHECK(status([](auto& e) { e.object = 1; }) == PIB_HCA_CMD_STATUS_BAD_RESERVED);
    CHECK(status([](auto& e) { e.in_length = 4097; }) == PIB_HCA_CMD_STATUS_BAD_LENGTH);
    CHECK(status([](auto& e) { e.out_length = 4097; }) == PIB_HCA_CMD_STATUS_BAD_LENGTH);
    CHECK(status([](auto& e) { e.out_length = 4096; }) == PIB_HCA_CMD_STATUS_OK);
    CHECK(status(as_is, PIB_HCA_CMD_CREATE_MR, sizeof(pib_hca_create_mr) - 1) ==
          PIB_HCA_CMD_STATUS_BAD_LENGTH);
    CHECK(status([](auto& e) { e.in_addr = 8; }, PIB_HCA_CMD_CREATE_EQ,
                 sizeof(pib_hca_create_eq)) == PIB_HCA_CMD_STATUS_BAD_MEMORY);
    CHECK(status([](auto& e) { e.out_addr = UINT64_MAX - 16; }, PIB_HCA_CMD_QUERY_DEVICE, 0, 240) ==
          PIB_HCA_CMD_STATUS_BAD_MEMORY);
    // The refused commands had no effect: after the two that passed, the next PD has the next
    // number.
    CHECK(d.alloc_pd() == 3);
}

TEST_CASE("a driver with a shorter output structure receives its first bytes") {
    Bench bench;
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    pib_hca_query_device whole;
    REQUIRE(d.command_out(PIB_HCA_CMD_QUERY_DEVICE, 0, whole).ok());
    const size_t room = GENERATE(0, 1, 80, 239);
    std::array<uint8_t, sizeof whole> mark;
    mark.fill(0xa5);
    bench.host.poke(d.out_buffer(), mark);
    const CommandOutcome outcome = d.submit(d.make_entry(PIB_HCA_CMD_QUERY_DEVICE, 0, 0, room));
    CHECK(outcome.ok());
    CHECK(outcome.out_length == sizeof whole);
    const auto got = bench.host.peek<std::array<uint8_t, sizeof whole>>(d.out_buffer());
    const auto* wanted = reinterpret_cast<const uint8_t*>(&whole);
    CHECK(std::equal(wanted, wanted + room, got.begin()));
    CHECK(std::all_of(got.begin() + static_cast<ptrdiff_t>(room), got.end(),
                      [](uint8_t byte) { return byte == 0xa5; }));
}

TEST_CASE("a driver may pass a longer input structure whose end is zero") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const size_t length = GENERATE(sizeof(pib_hca_alloc_mw) + 1, 600, PIB_HCA_CMD_MAX_LENGTH);
    std::array<uint8_t, PIB_HCA_CMD_MAX_LENGTH> bytes{};
    pib_hca_alloc_mw in{};
    in.pd = bench.pd;
    in.type = PIB_HCA_MW_TYPE_1;
    std::memcpy(bytes.data(), &in, sizeof in);
    bench.host.poke(d.in_buffer(), bytes);
    const pib_hca_cmd entry = d.make_entry(PIB_HCA_CMD_ALLOC_MW, 0, length, 0);
    CHECK(d.submit(entry).ok());
    bytes[length - 1] = 1;
    bench.host.poke(d.in_buffer(), bytes);
    CHECK(d.submit(entry).status == PIB_HCA_CMD_STATUS_BAD_RESERVED);
    pib_hca_cmd unreadable = entry;
    unreadable.in_addr = UINT64_MAX - sizeof in;
    CHECK(d.submit(unreadable).status == PIB_HCA_CMD_STATUS_BAD_MEMORY);
}

TEST_CASE("reserved fields of input structures must be zero") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 1 << 16);
    const auto refused = [&](pib_hca_cmd_opcode opcode, const auto& in) {
        return d.command_in(opcode, 0, in).status == PIB_HCA_CMD_STATUS_BAD_RESERVED;
    };
    pib_hca_create_eq eq{};
    eq.pages = memory.list();
    eq.log_depth = 4;
    eq.reserved[9] = 1;
    CHECK(refused(PIB_HCA_CMD_CREATE_EQ, eq));
    eq.reserved[9] = 0;
    eq.flags = 2;
    CHECK(refused(PIB_HCA_CMD_CREATE_EQ, eq));
    eq.flags = 0;
    eq.pages.reserved = 1;
    CHECK(refused(PIB_HCA_CMD_CREATE_EQ, eq));
    pib_hca_create_cq cq{};
    cq.pages = memory.list();
    cq.eqn = bench.eq.eqn;
    cq.reserved[0] = 1;
    CHECK(refused(PIB_HCA_CMD_CREATE_CQ, cq));
    pib_hca_create_mr mr{};
    mr.pd = bench.pd;
    mr.length = 1;
    mr.pages = memory.list();
    mr.reserved[1] = 1;
    CHECK(refused(PIB_HCA_CMD_CREATE_MR, mr));
    mr.reserved[1] = 0;
    mr.flags = 0x80;
    CHECK(refused(PIB_HCA_CMD_CREATE_MR, mr));
    mr.flags = 0;
    mr.access = 1u << 5;
    CHECK(refused(PIB_HCA_CMD_CREATE_MR, mr));
    mr.access = 0;
    pib_hca_rereg_mr rereg{};
    rereg.mr = mr;
    rereg.mask = PIB_HCA_REREG_MR_TRANSLATION;
    CHECK_FALSE(refused(PIB_HCA_CMD_REREG_MR, rereg));  // the input is valid, the region is missing
    rereg.mr.reserved[1] = 1;
    CHECK(refused(PIB_HCA_CMD_REREG_MR, rereg));
    pib_hca_create_qp qp{};
    qp.reserved[1] = 1;
    CHECK(refused(PIB_HCA_CMD_CREATE_QP, qp));
    qp.reserved[1] = 0;
    qp.flags = 1u << 31;
    CHECK(refused(PIB_HCA_CMD_CREATE_QP, qp));
    pib_hca_create_srq srq{};
    srq.pd = bench.pd;
    srq.pages = memory.list();
    srq.offset = 64;
    srq.log_stride = 5;
    srq.reserved2[7] = 1;
    CHECK(refused(PIB_HCA_CMD_CREATE_SRQ, srq));
    srq.reserved2[7] = 0;
    srq.flags = 1u << 31;
    CHECK(refused(PIB_HCA_CMD_CREATE_SRQ, srq));
    pib_hca_modify_qp modify{};
    modify.attr_mask = 1u << 21;
    CHECK(refused(PIB_HCA_CMD_MODIFY_QP, modify));
    modify.attr_mask = 0;
    modify.alt_av.reserved[1] = 1;
    CHECK(refused(PIB_HCA_CMD_MODIFY_QP, modify));
    pib_hca_mcast mcast{};
    mcast.reserved[0] = 1;
    CHECK(refused(PIB_HCA_CMD_ATTACH_MCAST, mcast));
    CHECK(refused(PIB_HCA_CMD_DETACH_MCAST, mcast));
}

TEST_CASE("several commands of one doorbell complete in order, around the ring") {
    Bench bench;
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable(5));
    for (uint32_t round = 0; round < 10; ++round) {
        for (uint32_t i = 0; i < 32; ++i) {
            d.enqueue(d.make_entry(PIB_HCA_CMD_ALLOC_PD, 0, 0, 0));
        }
        d.ring_commands();
        CHECK(d.read32(PIB_HCA_REG_CMDQ_CONSUMED) < 32 * (round + 1));  // some commands wait
        REQUIRE(d.pump());
        for (uint32_t i = 0; i < 32; ++i) {
            const CommandOutcome outcome = d.reap();
            REQUIRE(outcome.ok());
            REQUIRE(outcome.result == 1 + round * 32 + i);
        }
        REQUIRE(d.reap().status == 0xff);
    }
    CHECK(d.read32(PIB_HCA_REG_CMDQ_CONSUMED) == 320);
}

TEST_CASE("a command with a long page list has a turn of its own") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    // All table entries name one leaf and one page: many pages to read in little memory.
    constexpr uint32_t kPages = CommandQueue::kPagesPerTurn;
    const uint64_t leaf = bench.host.alloc(4096);
    const uint64_t middle = bench.host.alloc(4096);
    const uint64_t page = bench.host.alloc(4096);
    for (uint64_t i = 0; i < PIB_HCA_TABLE_ENTRIES; ++i) {
        bench.host.poke(leaf + 8 * i, page);
        bench.host.poke(middle + 8 * i, leaf);
    }
    pib_hca_create_mr in{};
    in.pd = bench.pd;
    in.length = 1;
    in.pages = {
        .root = middle, .page_count = kPages, .levels = 2, .log_page_size = 12, .reserved = 0};
    bench.host.poke(d.in_buffer(), in);
    const uint32_t before = d.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    for (int i = 0; i < 4; ++i) {
        d.enqueue(d.make_entry(PIB_HCA_CMD_CREATE_MR, 0, sizeof in, 0));
    }
    d.ring_commands();
    CHECK(d.read32(PIB_HCA_REG_CMDQ_CONSUMED) == before + 1);
    REQUIRE(d.pump());
    for (int i = 0; i < 4; ++i) {
        CHECK(d.reap().ok());
    }
}

TEST_CASE("a resize that moves many WQEs of an SRQ has a turn of its own") {
    constexpr uint8_t kLogDepth = 14;
    constexpr uint8_t kLogStride = 10;
    constexpr uint64_t kBytes = 64 + (uint64_t{1} << (kLogDepth + kLogStride));
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    GuestMemory rings[] = {{bench.host, kBytes}, {bench.host, kBytes}};
    pib_hca_create_srq in{};
    in.pages = rings[0].list();
    in.pd = bench.pd;
    in.offset = 64;
    in.log_depth = kLogDepth;
    in.log_stride = kLogStride;
    const uint32_t srqn = MiniDriver::must(d.command_in(PIB_HCA_CMD_CREATE_SRQ, 0, in), "SRQ");
    const uint32_t posted = GENERATE(0u, 1u << kLogDepth);
    rings[0].poke(0, posted);
    const uint32_t before = d.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    for (unsigned i = 0; i < 4; ++i) {
        pib_hca_modify_srq modify{};
        modify.attr_mask = PIB_HCA_SRQ_ATTR_MAX_WR;
        modify.pages = rings[(i + 1) % 2].list();
        modify.log_depth = kLogDepth;
        pib_hca_cmd entry = d.make_entry(PIB_HCA_CMD_MODIFY_SRQ, srqn, sizeof modify, 0);
        entry.in_addr += i * sizeof modify;
        bench.host.poke(entry.in_addr, modify);
        d.enqueue(entry);
    }
    d.ring_commands();
    CHECK(d.read32(PIB_HCA_REG_CMDQ_CONSUMED) == before + (posted == 0 ? 4 : 1));
    REQUIRE(d.pump());
    for (int i = 0; i < 4; ++i) {
        CHECK(d.reap().ok());
    }
}

TEST_CASE("commands that look at many QPs share turns") {
    constexpr uint32_t kQps = 8192;
    constexpr uint32_t kCommands = 15;
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    pib_hca_create_qp in{};
    in.xrcd = MiniDriver::must(d.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
    in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
    in.type = PIB_HCA_QP_XRC_TGT;
    for (uint32_t i = 0; i < kQps; ++i) {
        REQUIRE(d.command_in(PIB_HCA_CMD_CREATE_QP, 0, in).ok());
        while (d.poll(bench.async_eq)) {
        }
    }
    std::vector<uint32_t> pds;
    for (uint32_t i = 0; i < kCommands; ++i) {
        pds.push_back(d.alloc_pd());
    }
    const uint32_t before = d.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    for (const uint32_t pd : pds) {
        d.enqueue(d.make_entry(PIB_HCA_CMD_FREE_PD, pd, 0, 0));
    }
    d.ring_commands();
    const uint32_t done = d.read32(PIB_HCA_REG_CMDQ_CONSUMED) - before;
    CHECK(done == 8);
    REQUIRE(d.pump());
    for (uint32_t i = 0; i < kCommands; ++i) {
        CHECK(d.reap().ok());
    }
}

TEST_CASE("commands that look at many SRQs share turns") {
    constexpr uint32_t kSrqs = 8192;
    constexpr uint32_t kCommands = 15;
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    for (uint32_t i = 0; i < kSrqs; ++i) {
        (void)d.create_srq({.pd = bench.pd, .log_depth = 0});
    }
    std::vector<uint32_t> pds;
    for (uint32_t i = 0; i < kCommands; ++i) {
        pds.push_back(d.alloc_pd());
    }
    const uint32_t before = d.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    for (const uint32_t pd : pds) {
        d.enqueue(d.make_entry(PIB_HCA_CMD_FREE_PD, pd, 0, 0));
    }
    d.ring_commands();
    CHECK(d.read32(PIB_HCA_REG_CMDQ_CONSUMED) == before + 8);
    REQUIRE(d.pump());
    for (uint32_t i = 0; i < kCommands; ++i) {
        CHECK(d.reap().ok());
    }
}

TEST_CASE("a doorbell with an impossible producer stops the device") {
    const uint32_t producer = GENERATE(uint32_t{1 + 17}, uint32_t{0}, uint32_t{0x80000000});
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const uint32_t consumed = d.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    d.write32(PIB_HCA_REG_CMDQ_DOORBELL, producer == 18 ? consumed + 17 : producer);
    CHECK(fatal_cause(d) == PIB_HCA_FATAL_CMDQ_OVERRUN);
    CHECK((d.read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_ENABLED) == 0);
    const uint64_t writes = bench.host.dma_writes;
    d.write32(PIB_HCA_REG_CMDQ_DOORBELL, consumed + 1);
    CHECK(bench.host.dma_writes == writes);
    // A reset brings the device back to work.
    d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    CHECK(fatal_cause(d) == PIB_HCA_FATAL_NONE);
    REQUIRE(d.enable());
    CHECK(d.command(PIB_HCA_CMD_NOP).ok());
}

TEST_CASE("a doorbell with an earlier producer stops the device while commands wait") {
    Bench bench;
    MiniDriver& d = bench.driver;
    constexpr uint32_t kCommands = 200;
    REQUIRE(d.enable(8));
    for (uint32_t i = 0; i < kCommands; ++i) {
        d.enqueue(d.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
    }
    d.ring_commands();
    const uint32_t consumed = d.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    REQUIRE(consumed < kCommands - 1);
    d.ring_commands();  // the same producer changes nothing
    CHECK(fatal_cause(d) == PIB_HCA_FATAL_NONE);
    d.write32(PIB_HCA_REG_CMDQ_DOORBELL, kCommands - 1);
    CHECK(fatal_cause(d) == PIB_HCA_FATAL_CMDQ_OVERRUN);
}

TEST_CASE("a command is refused, or stops the device, when one of its accesses fails") {
    const bool has_output = GENERATE(false, true);
    unsigned refused = 0, stopped = 0;
    for (unsigned failing = 1;; ++failing) {
        Bench bench;
        MiniDriver& d = bench.driver;
        REQUIRE(d.enable());
        pib_hca_cmd entry = d.make_entry(has_output ? PIB_HCA_CMD_QUERY_DEVICE : PIB_HCA_CMD_NOP, 0,
                                         0, has_output ? sizeof(pib_hca_query_device) : 0);
        unsigned accesses = 0;
        bench.host.before_dma = [&](uint64_t, size_t, bool) {
            bench.host.bus_master = ++accesses != failing;
        };
        const CommandOutcome outcome = d.submit(entry);
        if (accesses < failing) {
            CHECK(outcome.ok());
            break;
        }
        CAPTURE(failing, outcome.status);
        if (fatal_cause(d) == PIB_HCA_FATAL_NONE) {
            CHECK(outcome.status == PIB_HCA_CMD_STATUS_BAD_MEMORY);
            ++refused;
        } else {
            CHECK(fatal_cause(d) == PIB_HCA_FATAL_CMDQ_DMA);
            ++stopped;
        }
    }
    CHECK(refused == (has_output ? 2 : 0));  // writes of zeros and of the output
    CHECK(stopped == 3);                     // accesses to the entry, completion, owner byte
}

TEST_CASE("a command ring whose memory vanishes stops the device with DEVICE_FATAL") {
    const bool completion_ring = GENERATE(false, true);
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    while (d.poll(bench.async_eq)) {
    }
    d.arm(bench.async_eq);
    const uint64_t interrupts = bench.host.interrupts[0];
    bench.host.make_hole(completion_ring ? d.cmdq_cpl_base() : d.cmdq_base(), 4096);
    CHECK(d.command(PIB_HCA_CMD_NOP).status == 0xff);
    CHECK(fatal_cause(d) == PIB_HCA_FATAL_CMDQ_DMA);
    CHECK(bench.host.interrupts[0] == interrupts + 1);
    const auto event = bench.async_eq.memory.peek<pib_hca_eqe>((bench.async_eq.consumer % 64) *
                                                               sizeof(pib_hca_eqe));
    CHECK(event.type == PIB_HCA_EVENT_DEVICE_FATAL);
    CHECK(event.data == PIB_HCA_FATAL_CMDQ_DMA);
}

TEST_CASE("a stopped device refuses commands with FATAL") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    bench.host.make_hole(bench.async_eq.memory.page(0), 4096);
    d.command(PIB_HCA_CMD_NOP);
    CHECK(fatal_cause(d) == PIB_HCA_FATAL_EQ_DMA);
    CHECK(bench.host.interrupts[0] == 1);  // though the EQ was not armed
    CHECK(d.command(PIB_HCA_CMD_NOP).status == PIB_HCA_CMD_STATUS_FATAL);
    CHECK(d.command(PIB_HCA_CMD_ALLOC_PD).status == PIB_HCA_CMD_STATUS_FATAL);
    const uint64_t interrupts = bench.host.interrupt_count();
    d.arm(bench.cq);
    d.arm(bench.eq);
    CHECK(bench.host.interrupt_count() == interrupts);
}

TEST_CASE("each command raises an event in the async EQ, if there is one") {
    Bench bench;
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    MiniEq eq = d.create_eq(3, true);
    const auto first = d.poll(eq);
    REQUIRE(first);
    CHECK(first->type == PIB_HCA_EVENT_COMMAND);
    CHECK_FALSE(d.poll(eq));
    d.arm(eq);
    const uint16_t id = d.enqueue(d.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
    d.ring_commands();
    CHECK(bench.host.interrupts[3] == 1);
    const auto event = d.poll(eq);
    REQUIRE(event);
    CHECK(event->type == PIB_HCA_EVENT_COMMAND);
    CHECK(event->number == id);
    CHECK(d.reap().ok());
}

TEST_CASE("the owner byte is written last, after a barrier") {
    Bench bench;
    MiniDriver& d = bench.driver;
    REQUIRE(d.enable());
    bench.host.record_writes = true;
    REQUIRE(d.command(PIB_HCA_CMD_NOP).ok());
    REQUIRE(bench.host.writes.size() == 2);
    CHECK(bench.host.writes[0].bytes == 15);
    CHECK(bench.host.writes[1].bytes == 1);
    CHECK(bench.host.writes[0].barriers_before < bench.host.writes[1].barriers_before);
}
