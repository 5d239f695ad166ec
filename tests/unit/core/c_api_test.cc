// SPDX-License-Identifier: GPL-2.0-or-later
// The C interface: values from C arrive, and errors are returned as text.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "fake_host.h"
#include "pib_hca_core.h"

using pib::hca::test::FakeHost;

namespace {

FakeHost& host_of(void* opaque) {
    return *static_cast<FakeHost*>(opaque);
}

const PibHcaHostOps kOps = {
    .dma_read = [](void* o, uint64_t addr, uint8_t* to,
                   size_t n) { return host_of(o).dma_read(addr, {to, n}); },
    .dma_write = [](void* o, uint64_t addr, const uint8_t* from,
                    size_t n) { return host_of(o).dma_write(addr, {from, n}); },
    .dma_cmpxchg64 =
        [](void* o, uint64_t addr, uint64_t* expected, uint64_t desired) {
            return host_of(o).dma_cmpxchg64(addr, *expected, desired);
        },
    .ram = [](void* o, uint64_t addr, uint64_t n) { return host_of(o).ram(addr, n); },
    .ram_written = [](void* o, uint64_t addr, uint64_t n) { host_of(o).ram_written(addr, n); },
    .dma_barrier = [](void* o) { host_of(o).dma_barrier(); },
    .raise_msix = [](void* o, unsigned vector) { host_of(o).raise_msix(vector); },
    .vector_state =
        [](void* o, unsigned vector) {
            return static_cast<unsigned>(host_of(o).vector_state(vector));
        },
    .vcpu = [](void*) { return 3; },
    .now_ns = [](void* o) { return host_of(o).now_ns(); },
    .real_ns = [](void* o) { return host_of(o).real_ns(); },
    .set_timer = [](void* o, uint64_t deadline) { host_of(o).set_timer(deadline); },
    .kicks = [](void* o, uint32_t uar, bool wanted) { host_of(o).kicks(uar, wanted); },
    .wake = [](void* o) { host_of(o).wake(); },
    .link_wake = [](void* o, unsigned port) { host_of(o).link_wake(port); },
    .link_write =
        [](void* o, unsigned port, const PibHcaBytes* parts, size_t count) {
            std::vector<std::span<const uint8_t>> spans;
            for (size_t i = 0; i < count; ++i) {
                spans.emplace_back(parts[i].data, parts[i].length);
            }
            return host_of(o).link_write(port, spans);
        },
    .link_close = [](void* o, unsigned port) { host_of(o).link_close(port); },
    .link_kick = [](void* o, unsigned port) { host_of(o).link_kick(port); },
    .log = [](void* o, unsigned level,
              const char* text) { host_of(o).log(static_cast<pib::hca::LogLevel>(level), text); },
    .record = nullptr,
};

}  // namespace

TEST_CASE("the C interface passes DMA, interrupts and dumps") {
    FakeHost host;
    PibHcaConfig config;
    pib_hca_config_init(&config);
    config.node_guid = 0x5254000000000001;
    config.port_guids[0] = 0x5254000000000002;
    config.trace_entries = 8;
    config.trace_registers = true;
    char* error = nullptr;
    PibHcaCore* core = pib_hca_core_create(&config, &kOps, &host, &error);
    REQUIRE(core != nullptr);
    const auto write = [&](uint64_t reg, uint64_t value, unsigned size) {
        pib_hca_core_mmio_write(core, PIB_HCA_BAR_REGS, reg, value, size);
    };
    const uint64_t ring = host.alloc(4096), completions = host.alloc(4096);
    write(PIB_HCA_REG_CMDQ_BASE, ring, 8);
    write(PIB_HCA_REG_CMDQ_CPL_BASE, completions, 8);
    write(PIB_HCA_REG_CMDQ_LOG_DEPTH, 2, 4);
    write(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE, 4);
    host.direct = false;  // each access calls the C functions for DMA
    pib_hca_cmd command{};
    command.opcode = PIB_HCA_CMD_ALLOC_PD;
    command.id = 77;
    host.poke(ring, command);
    write(PIB_HCA_REG_CMDQ_DOORBELL, 1, 4);
    pib_hca_core_run(core);
    const auto completion = host.peek<pib_hca_cmd_cpl>(completions);
    CHECK(completion.id == 77);
    CHECK(completion.status == PIB_HCA_CMD_STATUS_OK);
    CHECK(host.dma_reads > 0);
    CHECK(host.barriers > 0);
    const auto text = [](char* made) {
        REQUIRE(made != nullptr);
        const std::string copy = made;
        std::free(made);
        return copy;
    };
    CHECK(text(pib_hca_core_objects(core)).find("\"pds\":1") != std::string::npos);
    CHECK(text(pib_hca_core_trace(core)).find("\"opcode\":18") != std::string::npos);
    CHECK(text(pib_hca_core_trace(core)).find(R"("value":"0x1","vcpu":3)") != std::string::npos);
    CHECK(text(pib_hca_core_refusals(core)).starts_with("{\"now_ns\":"));
    CHECK(text(pib_hca_core_journal(core)).starts_with("{"));
    constexpr const char* kAllocPd = "\"commands\":[{\"opcode\":18,\"statuses\":[1,0";
    CHECK(text(pib_hca_core_coverage(core)).find(kAllocPd) != std::string::npos);
    CHECK(text(pib_hca_core_take_coverage(core)).find(kAllocPd) != std::string::npos);
    CHECK(text(pib_hca_core_coverage(core)).find("\"commands\":[]") != std::string::npos);
    // Without a link and peer copy, the core wants no poll and no memory, and no copying runs.
    CHECK_FALSE(pib_hca_core_link_poll(core, 1));
    CHECK_FALSE(pib_hca_core_link_wants_memory(core, 1));
    CHECK_FALSE(pib_hca_core_link_wants_memory(core, 9));
    const PibHcaRamBlock blocks[] = {{.base = nullptr, .bytes = 1 << 20},
                                     {.base = nullptr, .bytes = 1 << 21}};
    const uint64_t none = pib_hca_core_control_bytes(blocks, 0);
    const uint64_t one = pib_hca_core_control_bytes(blocks, 1);
    CHECK(none > 0);
    CHECK(one > none);
    CHECK(pib_hca_core_control_bytes(blocks, 2) > one);
    pib_hca_core_link_memory(core, 1, nullptr, blocks, 2);
    pib_hca_core_stop_copying(core);
    CHECK(pib_hca_core_copying_stopped(core));
    pib_hca_core_ram_changed(core);
    pib_hca_core_dma_ended(core);
    pib_hca_core_bus_master_off(core);
    pib_hca_core_kick(core, 5);
    pib_hca_core_destroy(core);
}

TEST_CASE("the C interface creates and drives a device") {
    FakeHost host;
    PibHcaConfig config;
    pib_hca_config_init(&config);
    CHECK(config.port_count == 1);
    CHECK(config.vector_count == 9);

    char* error = nullptr;
    CHECK(pib_hca_core_create(&config, &kOps, &host, &error) == nullptr);
    REQUIRE(error != nullptr);
    CHECK(std::string(error).find("GUID") != std::string::npos);
    std::free(error);

    config.node_guid = 0x5254000000000001;
    config.port_guids[0] = 0x5254000000000002;
    config.node_description = "c-device";
    config.strict = 2;
    error = nullptr;
    PibHcaCore* core = pib_hca_core_create(&config, &kOps, &host, &error);
    REQUIRE(core != nullptr);
    CHECK(error == nullptr);
    CHECK(pib_hca_core_mmio_read(core, PIB_HCA_BAR_REGS, PIB_HCA_REG_NODE_GUID, 8) ==
          config.node_guid);
    pib_hca_core_mmio_write(core, PIB_HCA_BAR_REGS, PIB_HCA_REG_TEST_IRQ, 2, 4);
    CHECK(host.interrupts[2] == 1);
    CHECK(pib_hca_core_mmio_read(core, PIB_HCA_BAR_REGS, 0xff00, 4) == 0);
    REQUIRE(host.warnings.size() == 2);
    CHECK(host.warnings[0].starts_with("pib-hca: load of BAR0 at 0xff00 refused: "));
    // A connection starts with the port's HELLO.
    pib_hca_core_link_connected(core, 1, false);
    CHECK_FALSE(host.take_link(1).empty());
    const uint8_t garbage[64] = {0xff};
    pib_hca_core_link_rx(core, 1, garbage, sizeof garbage);
    CHECK(host.links[1].closes == 1);
    CHECK_FALSE(pib_hca_core_link_is_behind(core, 1));
    CHECK_FALSE(pib_hca_core_link_is_behind(core, 9));  // no such port
    pib_hca_core_link_closed(core, 1);
    pib_hca_core_link_writable(core, 1);
    pib_hca_core_link_connected(core, 9, false);  // no such port
    pib_hca_core_run(core);
    pib_hca_core_timer(core);
    pib_hca_core_reset(core, true);
    pib_hca_core_destroy(core);
}

TEST_CASE("the C interface returns the error of an invalid adversary") {
    FakeHost host;
    PibHcaConfig config;
    pib_hca_config_init(&config);
    config.node_guid = 0x5254000000000001;
    config.port_guids[0] = 0x5254000000000002;
    config.adversary = "many";
    char* error = nullptr;
    CHECK(pib_hca_core_create(&config, &kOps, &host, &error) == nullptr);
    REQUIRE(error != nullptr);
    CHECK(std::string(error).find("the adversary must be a number") != std::string::npos);
    std::free(error);
    config.adversary = "7";
    error = nullptr;
    PibHcaCore* core = pib_hca_core_create(&config, &kOps, &host, &error);
    REQUIRE(core != nullptr);
    pib_hca_core_destroy(core);
}
