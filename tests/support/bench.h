// SPDX-License-Identifier: GPL-2.0-or-later
// One device on a fake host with its mini driver. Most tests of the core start from this bench.
#pragma once

#include <memory>

#include "device.h"
#include "fake_host.h"
#include "mini_driver.h"

namespace pib::hca::test {

inline Config bench_config(uint32_t ports = 1, uint64_t node_guid = 0x5254000000000100) {
    Config config;
    config.port_count = ports;
    config.node_guid = node_guid;
    for (uint32_t i = 0; i < ports; ++i) {
        config.port_guids[i] = node_guid + 1 + i;
    }
    config.node_description = "bench";
    return config;
}

struct Bench {
    explicit Bench(const Config& config = bench_config())
        : device(Device::create(config, host).value()), driver(host, *device) {}

    FakeHost host;
    std::unique_ptr<Device> device;
    MiniDriver driver;
};

// A device that is enabled, with an async EQ, a completion EQ, a CQ and a PD.
struct ReadyBench : Bench {
    explicit ReadyBench(const Config& config = bench_config()) : Bench(config) {
        if (!driver.enable()) {
            throw std::runtime_error("the device refused to be enabled");
        }
        async_eq = driver.create_eq(0, true);
        eq = driver.create_eq(1);
        cq = driver.create_cq(eq.eqn);
        pd = driver.alloc_pd();
    }
    QpShape shape(pib_hca_qp_type type = PIB_HCA_QP_RC) const {
        QpShape s;
        s.type = type;
        s.pd = pd;
        s.send_cq = cq.cqn;
        s.recv_cq = cq.cqn;
        return s;
    }
    uint64_t counter(pib_hca_counter which) {
        std::array<uint64_t, PIB_HCA_COUNTER_COUNT> values;
        MiniDriver::must(driver.command_out(PIB_HCA_CMD_QUERY_COUNTERS, 0, values),
                         "QUERY_COUNTERS");
        return values[which];
    }

    MiniEq async_eq;
    MiniEq eq;
    MiniCq cq;
    uint32_t pd = 0;
};

}  // namespace pib::hca::test
