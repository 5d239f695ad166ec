// SPDX-License-Identifier: GPL-2.0-or-later
// The C seam: what C gives arrives, what is not possible comes back as text.
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
};

}  // namespace

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
    config.node_description = "seam";
    error = nullptr;
    PibHcaCore* core = pib_hca_core_create(&config, &kOps, &host, &error);
    REQUIRE(core != nullptr);
    CHECK(error == nullptr);
    CHECK(pib_hca_core_mmio_read(core, PIB_HCA_BAR_REGS, PIB_HCA_REG_NODE_GUID, 8) ==
          config.node_guid);
    pib_hca_core_mmio_write(core, PIB_HCA_BAR_REGS, PIB_HCA_REG_TEST_IRQ, 2, 4);
    CHECK(host.interrupts[2] == 1);
    // A connection starts with the port's hello.
    pib_hca_core_link_connected(core, 1, false);
    CHECK_FALSE(host.take_link(1).empty());
    const uint8_t garbage[64] = {0xff};
    pib_hca_core_link_rx(core, 1, garbage, sizeof garbage);
    CHECK(host.links[1].closes == 1);
    pib_hca_core_link_closed(core, 1);
    pib_hca_core_link_writable(core, 1);
    pib_hca_core_link_connected(core, 9, false);  // no such port
    pib_hca_core_run(core);
    pib_hca_core_timer(core);
    pib_hca_core_reset(core, true);
    pib_hca_core_destroy(core);
}
