// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters that share memory with a pib-switch process, by descriptors on a real socket.
#include "links/adapter_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "memory_hca.h"

namespace pib::test {
namespace {

bool copied_by_peers(const Program& program, unsigned port) {
    const json answer = program.ask({{"command", "status"}});
    return answer.at("ports").at(port - 1).at("peer_copy");
}

}  // namespace

TEST_CASE("program: the switch maps memory that arrives on the socket") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program;
    MemoryHca hca(program.fabric_path(), 0x100);
    REQUIRE(hca.end->agreed().peer_copy);
    CHECK_FALSE(copied_by_peers(program, 1));
    ShownMemory shown;
    hca.share(shown);
    REQUIRE(hca.until([&] { return hca.end->peer_copy().can_offer(); }));
    CHECK(copied_by_peers(program, 1));
    const json counters = program.ask({{"command", "counters"}, {"port", 1}});
    CHECK(counters.at("ports").at(0).at("PeerCopyBytes") == 0);
    CHECK_FALSE(hca.closed);
}

TEST_CASE("program: a link continues without memory that cannot be mapped") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program;
    MemoryHca hca(program.fabric_path(), 0x100);
    ShownMemory shown(F_SEAL_GROW);
    hca.share(shown);
    REQUIRE(hca.until([&] { return shown.control().mapped == link::kNotMapped; }));
    CHECK_FALSE(copied_by_peers(program, 1));
    REQUIRE(hca.until([&] { return hca.end->is_up(); }));
    CHECK_FALSE(hca.closed);
}

TEST_CASE("program: memory without agreement on peer copy ends the connection") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program({"--no-peer-copy"});
    MemoryHca hca(program.fabric_path(), 0x100);
    CHECK_FALSE(hca.end->agreed().peer_copy);
    CHECK(hca.end->agreed().bursts);
    CHECK_FALSE(copied_by_peers(program, 1));
    // The switch accepts no descriptors here.
    ShownMemory shown;
    if (send_with_fds(hca.fd.get(), Bytes{0}, {shown.ram.fd.get()})) {
        CHECK(hca.until([&] { return hca.closed; }));
    } else {
        CHECK(errno == EPERM);  // from Linux 6.16 on, the kernel refuses
    }
    CHECK(program.alive());
}

TEST_CASE("program: a wrong number of descriptors ends the connection") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program;
    MemoryHca hca(program.fabric_path(), 0x100);
    ShownMemory shown;
    SECTION("one descriptor is missing") {
        hca.share(shown, 1);
    }
    SECTION("all descriptors are missing") {
        hca.share(shown, 2);
    }
    SECTION("more descriptors than the limit") {
        hca.send(Bytes{8}, std::vector<int>(18, shown.ram.fd.get()));
    }
    SECTION("other bytes on the socket before MEMORY") {
        Bytes frame;
        append(frame, link::Credit{.vl = 0, .epoch = 1, .limit = 1});
        hca.send(frame, {});
    }
    CHECK(hca.until([&] { return hca.closed; }));
    CHECK(program.alive());
    MemoryHca other(program.fabric_path(), 0x300);
    other.share(shown);
    CHECK(other.until([&] { return other.end->peer_copy().can_offer(); }));
}

// A memfd of this size without an allocated page.
fabric::UniqueFd sparse(uint64_t bytes) {
    fabric::UniqueFd fd(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

// Calls map_adapter_memory() with sparse blocks and a control memory of the right size.
auto map_sparse(const std::vector<uint64_t>& blocks) {
    std::vector<fabric::UniqueFd> descriptors;
    descriptors.push_back(sparse(link::peer_copy_bytes(blocks)));
    for (const uint64_t bytes : blocks) {
        descriptors.push_back(sparse(bytes));
    }
    return fabric::map_adapter_memory(descriptors, blocks);
}

TEST_CASE("memory: large sparse files take a bounded part of the address space") {
    constexpr uint64_t kTiB = uint64_t{1} << 40;
    CHECK_FALSE(map_sparse({16 * kTiB}));
    CHECK_FALSE(map_sparse(std::vector<uint64_t>(9, kTiB)));
    std::vector<std::shared_ptr<const fabric::AdapterMemory>> kept;
    for (auto mapped = map_sparse({7 * kTiB}); mapped; mapped = map_sparse({7 * kTiB})) {
        kept.push_back(*mapped);
        REQUIRE(kept.size() < 16);
    }
    CHECK(kept.size() == 4);
    // Once the memory is unmapped, others can map as much.
    kept.clear();
    CHECK(map_sparse({7 * kTiB}));
}

}  // namespace pib::test
