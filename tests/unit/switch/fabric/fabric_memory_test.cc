// SPDX-License-Identifier: GPL-2.0-or-later
// Memory of a fabric after a sweep that has filled all tables. The tree stands for a tree of 11,664
// hosts: its nodes have as many ports and links, and its LFTs are as long.
#include <malloc.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <new>

#include "fabric_sweep.h"
#include "fat_tree.h"

namespace {

std::atomic<size_t> g_in_use = 0;  // bytes, including malloc()'s own in each block

size_t cost(void* memory) {
    constexpr size_t kBlockHeader = sizeof(size_t);
    return memory != nullptr ? ::malloc_usable_size(memory) + kBlockHeader : 0;
}

}  // namespace

// Not inlined: otherwise the compiler warns that new and free() do not match.
[[gnu::noinline]] void* operator new(size_t size) {
    if (void* memory = std::malloc(size)) {
        g_in_use += cost(memory);
        return memory;
    }
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
    void* memory = std::malloc(size);
    g_in_use += cost(memory);
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    g_in_use -= cost(memory);
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
    g_in_use -= cost(memory);
    std::free(memory);
}

namespace pib::test {
namespace {

namespace si = ib::switch_info;

constexpr FatTree kTree{.pods = 2, .leaves = 18, .hosts = 18, .middles = 18, .up = 18};
constexpr unsigned kNodes = kTree.all_hosts() + kTree.all_switches();
constexpr uint16_t kLastLid = 13'284;
constexpr size_t kMostBytesOfNode = 14 * 1024;
constexpr size_t kMostBytesOfClearedPort = 200;

void fill_tables(FabricSweep& sweep, const FabricSweep::Path& path) {
    std::array<uint8_t, ib::kSmpDataSize> block;
    block.fill(1);
    ib::Mad info = sweep.ask(ib::Method::kGet, ib::attr::kSwitchInfo, 0, path);
    ib::set(info.smp_data(), si::kLinearFdbTop, kLastLid);
    sweep.ask(ib::Method::kSet, ib::attr::kSwitchInfo, 0, path, info.smp_data());
    for (uint32_t i = 0; i <= kLastLid / ib::kLftEntriesPerBlock; ++i) {
        sweep.ask(ib::Method::kSet, ib::attr::kLinearForwardingTable, i, path, block);
    }
    sweep.ask(ib::Method::kSet, ib::attr::kMulticastForwardingTable, 0, path, block);
}

// Clears all counters of all ports; returns the number of ports.
unsigned clear_counters(const fabric::Fabric& fabric, ib::CounterView view) {
    unsigned ports = 0;
    const auto clear = [&](ib::PortCounters& of) {
        ++ports;
        for (size_t i = 0; i < ib::kCounterCount; ++i) {
            of.write(static_cast<ib::Counter>(i), view, 0);
        }
    };
    for (const fabric::Fabric::Node& node : fabric.nodes()) {
        for (unsigned port = 1; port <= node.links.size(); ++port) {
            if (node.sw != nullptr) {
                clear(node.sw->counters(port));
            } else if (node.phantom != nullptr) {
                clear(node.phantom->counters(port));
            }
        }
    }
    return ports;
}

}  // namespace

TEST_CASE(
    "a fabric with filled tables needs less than 14 KiB a node, and 200 bytes a cleared port") {
    const std::string text = kTree.text();
    const size_t before = g_in_use;
    TopologyNet net(text.c_str());
    const size_t built = g_in_use;
    FakeHca& own = net.connect("host0-0", 0x9000);
    const size_t connected = g_in_use;
    FabricSweep sweep(net, own);
    sweep.run();
    REQUIRE(sweep.nodes.size() == kNodes);
    REQUIRE(sweep.ends_up == 2 * kTree.all_links() - kTree.all_hosts());
    for (const auto& [guid, found] : sweep.nodes) {
        if (found.switch_ports != 0) {
            fill_tables(sweep, found.path);
        }
    }
    sweep.nodes.clear();
    const size_t bytes = (g_in_use - connected + built - before) / kNodes;
    CAPTURE(bytes);
    CHECK(bytes <= kMostBytesOfNode);
    CHECK(bytes > kLastLid * kTree.all_switches() / kNodes);  // only the LFTs
    const size_t counting = g_in_use;
    const unsigned ports = clear_counters(*net.fabric, ib::CounterView::kExtended);
    CAPTURE(ports, (g_in_use - counting) / kNodes);
    CHECK((g_in_use - counting) / ports <= kMostBytesOfClearedPort);
}

}  // namespace pib::test
