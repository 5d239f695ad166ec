// SPDX-License-Identifier: GPL-2.0-or-later
// Registers: every access that is not in the table reads zero and changes nothing; ENABLE and RESET
// behave as the manual says.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>

#include "bench.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

struct Known {
    unsigned width;
    bool readable;
};

const std::map<uint64_t, Known> kKnown = {
    {PIB_HCA_REG_VERSION, {4, true}},        {PIB_HCA_REG_CONTROL, {4, true}},
    {PIB_HCA_REG_STATUS, {4, true}},         {PIB_HCA_REG_FATAL_CAUSE, {4, true}},
    {PIB_HCA_REG_PORT_COUNT, {4, true}},     {PIB_HCA_REG_VECTOR_COUNT, {4, true}},
    {PIB_HCA_REG_UAR_COUNT, {4, true}},      {PIB_HCA_REG_SCRATCH, {4, true}},
    {PIB_HCA_REG_CMDQ_BASE, {8, true}},      {PIB_HCA_REG_CMDQ_CPL_BASE, {8, true}},
    {PIB_HCA_REG_CMDQ_LOG_DEPTH, {4, true}}, {PIB_HCA_REG_CMDQ_DOORBELL, {4, false}},
    {PIB_HCA_REG_CMDQ_CONSUMED, {4, true}},  {PIB_HCA_REG_TEST_IRQ, {4, false}},
    {PIB_HCA_REG_CLOCK, {8, true}},          {PIB_HCA_REG_NODE_GUID, {8, true}},
};

// Whether a read may return a value other than zero.
bool readable(uint64_t offset, unsigned size) {
    for (const auto& [start, reg] : kKnown) {
        if (offset >= start && offset < start + reg.width) {
            return reg.readable && (offset - start) % size == 0 &&
                   (size == 4 || (size == 8 && reg.width == 8));
        }
    }
    return false;
}

}  // namespace

TEST_CASE("registers identify the device") {
    Bench bench(bench_config(2));
    MiniDriver& d = bench.driver;
    CHECK(d.read32(PIB_HCA_REG_VERSION) ==
          (PIB_HCA_INTERFACE_MAJOR << 16 | PIB_HCA_INTERFACE_MINOR));
    CHECK(d.read32(PIB_HCA_REG_PORT_COUNT) == 2);
    CHECK(d.read32(PIB_HCA_REG_VECTOR_COUNT) == 9);
    CHECK(d.read32(PIB_HCA_REG_UAR_COUNT) == PIB_HCA_MAX_UARS);
    CHECK(d.read32(PIB_HCA_REG_STATUS) == 0);
    CHECK(d.read64(PIB_HCA_REG_NODE_GUID) == 0x5254000000000100);
    bench.host.clock_ns = 0x1234567890;
    CHECK(d.read64(PIB_HCA_REG_CLOCK) == 0x1234567890);
    CHECK(d.read32(PIB_HCA_REG_CLOCK) == 0x34567890);
    CHECK(d.read32(PIB_HCA_REG_CLOCK + 4) == 0x12);
}

TEST_CASE("64-bit registers accept 32-bit halves") {
    Bench bench;
    MiniDriver& d = bench.driver;
    d.write32(PIB_HCA_REG_CMDQ_BASE + 4, 0x11223344);
    d.write32(PIB_HCA_REG_CMDQ_BASE, 0x55667788);
    CHECK(d.read64(PIB_HCA_REG_CMDQ_BASE) == 0x1122334455667788);
    CHECK(d.read32(PIB_HCA_REG_CMDQ_BASE + 4) == 0x11223344);
    d.write64(PIB_HCA_REG_CMDQ_BASE, 42);
    CHECK(d.read64(PIB_HCA_REG_CMDQ_BASE) == 42);
}

// T01 in docs/fault-cases.md: every offset, size and direction.
TEST_CASE("holes, wrong sizes and unaligned accesses read zero and are ignored") {
    const bool enabled = GENERATE_COPY(false, true);
    Bench bench;
    MiniDriver& d = bench.driver;
    if (enabled) {
        REQUIRE(d.enable());
    }
    const uint64_t interrupts = bench.host.interrupt_count();
    d.write32(PIB_HCA_REG_SCRATCH, 0xcafe);
    for (const uint64_t area : {uint64_t{0}, uint64_t{0x800}, uint64_t{0xff00}}) {
        for (uint64_t offset = area; offset < area + 0x100; ++offset) {
            for (const unsigned size : {1u, 2u, 4u, 8u}) {
                if (!readable(offset, size)) {
                    REQUIRE(d.read(offset, size) == 0);
                }
                if (!kKnown.contains(offset & ~uint64_t{3}) &&
                    !kKnown.contains(offset & ~uint64_t{7})) {
                    d.write(offset, UINT64_MAX, size);
                } else if (size < 4 || offset % size != 0) {
                    d.write(offset, UINT64_MAX, size);
                }
            }
        }
    }
    d.write64(PIB_HCA_REG_CONTROL, 0);  // a 32-bit register
    d.write64(PIB_HCA_REG_CMDQ_LOG_DEPTH, UINT64_MAX);
    CHECK(d.read32(PIB_HCA_REG_SCRATCH) == 0xcafe);
    CHECK(d.read32(PIB_HCA_REG_STATUS) == (enabled ? PIB_HCA_STATUS_ENABLED : 0u));
    CHECK(bench.host.interrupt_count() == interrupts);
    CHECK(bench.host.guest_errors > 0);
    // Read-only registers keep their values, BARs that the core does not have are holes.
    d.write32(PIB_HCA_REG_VERSION, 0);
    CHECK(d.read32(PIB_HCA_REG_VERSION) != 0);
    bench.device->mmio_write(4, 0, UINT64_MAX, 8);
    CHECK(bench.device->mmio_read(4, 0, 8) == 0);
    CHECK(bench.device->mmio_read(PIB_HCA_BAR_REGS, UINT64_MAX, 8) == 0);
    if (enabled) {
        CHECK(d.command(PIB_HCA_CMD_NOP).ok());
    }
}

TEST_CASE("the test interrupt raises the named vector") {
    Bench bench;
    bench.driver.write32(PIB_HCA_REG_TEST_IRQ, 8);
    CHECK(bench.host.interrupts[8] == 1);
    bench.driver.write32(PIB_HCA_REG_TEST_IRQ, 9);
    bench.driver.write32(PIB_HCA_REG_TEST_IRQ, UINT32_MAX);
    CHECK(bench.host.interrupt_count() == 1);
}

TEST_CASE("ENABLE needs two rings in memory") {
    Bench bench;
    MiniDriver& d = bench.driver;
    const uint64_t ring = bench.host.alloc(1 << 15);
    const auto try_enable = [&](uint64_t base, uint64_t cpl, uint32_t log_depth) {
        d.write64(PIB_HCA_REG_CMDQ_BASE, base);
        d.write64(PIB_HCA_REG_CMDQ_CPL_BASE, cpl);
        d.write32(PIB_HCA_REG_CMDQ_LOG_DEPTH, log_depth);
        d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
        const uint32_t status = d.read32(PIB_HCA_REG_STATUS);
        CHECK(((status & PIB_HCA_STATUS_BAD_ENABLE) != 0) !=
              ((status & PIB_HCA_STATUS_ENABLED) != 0));
        CHECK(d.read32(PIB_HCA_REG_CONTROL) == (status & PIB_HCA_STATUS_ENABLED));
        d.write32(PIB_HCA_REG_CONTROL, 0);
        return (status & PIB_HCA_STATUS_ENABLED) != 0;
    };
    CHECK_FALSE(try_enable(0, ring, 4));
    CHECK_FALSE(try_enable(ring, 0, 4));
    CHECK_FALSE(try_enable(ring + 64, ring + 0x4000, 4));
    CHECK_FALSE(try_enable(ring, ring + 0x4008, 4));
    CHECK_FALSE(try_enable(ring, ring + 0x4000, 9));
    CHECK_FALSE(try_enable(ring, ring + 0x4000, UINT32_MAX));
    CHECK_FALSE(try_enable(UINT64_MAX & ~uint64_t{4095}, ring, 8));
    bench.host.make_hole(ring + 0x3000, 1);
    CHECK_FALSE(try_enable(ring, ring + 0x4000, 8));
    bench.host.heal();
    bench.host.make_read_only(ring + 0x4000, 1);
    CHECK_FALSE(try_enable(ring, ring + 0x4000, 8));
    bench.host.heal();
    CHECK(try_enable(ring, ring + 0x4000, 8));
    CHECK(try_enable(ring, ring + 0x4000, 0));
}

TEST_CASE("a cleared ENABLE and RESET both reset the device") {
    const uint32_t how = GENERATE(uint32_t{0}, uint32_t{PIB_HCA_CONTROL_RESET},
                                  uint32_t{PIB_HCA_CONTROL_RESET | PIB_HCA_CONTROL_ENABLE});
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    d.write32(PIB_HCA_REG_SCRATCH, 7);
    d.write32(PIB_HCA_REG_CONTROL, how);
    CHECK(d.read32(PIB_HCA_REG_CONTROL) == 0);
    CHECK(d.read32(PIB_HCA_REG_STATUS) == 0);
    CHECK(d.read32(PIB_HCA_REG_SCRATCH) == 0);
    CHECK(d.read64(PIB_HCA_REG_CMDQ_BASE) == 0);
    CHECK(d.read32(PIB_HCA_REG_CMDQ_CONSUMED) == 0);
    // No object is left: the same numbers are assigned again.
    REQUIRE(d.enable());
    CHECK(d.command(PIB_HCA_CMD_DESTROY_CQ, bench.cq.cqn).status ==
          PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(d.command(PIB_HCA_CMD_FREE_PD, bench.pd).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(d.create_eq(0, true).eqn == bench.async_eq.eqn);
}

TEST_CASE("after a reset there is no DMA and no interrupt") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    d.arm(bench.eq);
    d.arm(bench.async_eq);
    d.arm(bench.cq);
    bench.device->reset(GENERATE(false, true));
    const uint64_t reads = bench.host.dma_reads;
    const uint64_t writes = bench.host.dma_writes;
    const uint64_t interrupts = bench.host.interrupt_count();
    d.ring_commands();
    d.arm(bench.eq);
    d.arm(bench.cq);
    d.ring(0, PIB_HCA_UAR_SEND, PIB_HCA_FIRST_QPN);
    bench.host.clock_ns += 10'000'000'000;
    bench.device->timer();
    bench.device->run();
    CHECK(bench.host.dma_reads == reads);
    CHECK(bench.host.dma_writes == writes);
    CHECK(bench.host.interrupt_count() == interrupts);
}

TEST_CASE("an impossible configuration is refused with a reason") {
    FakeHost host;
    const auto refused = [&](auto&& change) {
        Config config = bench_config();
        change(config);
        const auto device = Device::create(config, host);
        return !device && !device.error().empty();
    };
    CHECK(refused([](Config& c) { c.port_count = 0; }));
    CHECK(refused([](Config& c) { c.port_count = 5; }));
    CHECK(refused([](Config& c) { c.vector_count = 0; }));
    CHECK(refused([](Config& c) { c.vector_count = 65; }));
    CHECK(refused([](Config& c) { c.node_guid = 0; }));
    CHECK(refused([](Config& c) { c.port_guids[0] = c.node_guid; }));
    CHECK(refused([](Config& c) { c.node_description.assign(64, 'x'); }));
    CHECK(refused([](Config& c) { c.link_width = 0x20; }));
    CHECK(refused([](Config& c) { c.link_speed = 0; }));
    CHECK(refused([](Config& c) { c.mtu_cap = 6; }));
    CHECK(refused([](Config& c) { c.vl_cap = 0; }));
    CHECK_FALSE(refused([](Config&) {}));
}

TEST_CASE("the coverage leaves out doorbells that a stopped device ignores") {
    Config config = bench_config();
    config.knobs.inject = true;
    Bench bench(config);
    REQUIRE(bench.driver.enable());
    pib_hca_inject_event stop{};
    stop.type = PIB_HCA_EVENT_DEVICE_FATAL;
    MiniDriver::must(bench.driver.command_in(PIB_HCA_CMD_INJECT_EVENT, 0, stop), "INJECT_EVENT");
    REQUIRE(bench.device->engine().health().is_fatal());
    bench.device->take_coverage();
    bench.device->mmio_write(PIB_HCA_BAR_UAR, PIB_HCA_UAR_SEND, 1, 4);
    bench.device->mmio_write(PIB_HCA_BAR_UAR, 0x84, 1, 4);  // offset of no doorbell
    bench.device->kick(0);
    CHECK_THAT(bench.device->coverage(), Catch::Matchers::ContainsSubstring(R"("doorbells":[],)"));
}
