// SPDX-License-Identifier: GPL-2.0-or-later
// Adapters that share memory with a pib-switch process, by descriptors on a real socket.
#include "links/adapter_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "base/address.h"
#include "copy_hca.h"
#include "program.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

// An adapter's end of a link in shared memory.
struct MemoryHca : LinkRecorder {
    UniqueFd fd;
    std::vector<UniqueFd> received;
    std::optional<link::SharedMemory> memory;
    std::unique_ptr<link::LinkEndpoint> end;
    bool closed = false;

    MemoryHca(const std::string& path, std::uint64_t guid, std::uint32_t features = kCopyFeatures) {
        auto connected = fabric::connect_unix(path);
        REQUIRE(connected);
        fd = std::move(*connected);
        auto hello = make_hello(guid);
        hello.features = features;
        end = std::make_unique<link::LinkEndpoint>(hello, make_buffers(), *this);
        endpoint = end.get();
        end->training().set_parameters(make_parameters());
        REQUIRE(until([this] { return end->training().is_open(); }));
    }
    std::optional<link::LinkRings> link_rings() override {
        REQUIRE(received.size() == 2);
        memory = link::SharedMemory::map(received[0].get()).value();
        return link::LinkRings{.out = memory->ring(0), .in = memory->ring(1)};
    }
    void wake() {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto n = ::write(received[1].get(), &one, sizeof(one));
    }
    // Sends the queued bytes together with these descriptors.
    void send(std::vector<int> fds = {}) {
        const Bytes out(end->output().begin(), end->output().end());
        send(out, fds);
        end->consume_output(out.size());
    }
    void send(const Bytes& bytes, const std::vector<int>& fds) const {
        std::vector<char> room(CMSG_SPACE(fds.size() * sizeof(int)));
        iovec part{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        if (!fds.empty()) {
            message.msg_control = room.data();
            message.msg_controllen = room.size();
            cmsghdr* header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
            std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
        }
        REQUIRE(::sendmsg(fd.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    }
    void pump() {
        if (!end->output().empty()) {
            send();
        }
        std::uint8_t bytes[4096];
        alignas(cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))];
        iovec part{bytes, sizeof(bytes)};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = room;
        message.msg_controllen = sizeof(room);
        const ssize_t n = ::recvmsg(fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (const cmsghdr* header = CMSG_FIRSTHDR(&message); n > 0 && header != nullptr) {
            int fds[2];
            std::memcpy(fds, CMSG_DATA(header), sizeof(fds));
            received.emplace_back(fds[0]);
            received.emplace_back(fds[1]);
        }
        if (n > 0) {
            REQUIRE(feed(*end, std::span(bytes).first(static_cast<std::size_t>(n))));
        }
        closed = closed || n == 0;
        if (end->channel().is_shared() && !closed) {
            REQUIRE(end->receive(SIZE_MAX));
            if (end->channel().publish()) {
                wake();
            }
        }
    }
    bool until(const std::function<bool()>& done) {
        return eventually([&] {
            pump();
            return done();
        });
    }
    // Sends MEMORY for this memory, with its descriptors except for the last `missing`.
    void share(const ShownMemory& shown, std::size_t missing = 0) {
        end->peer_copy().share(shown.control_memory.data(), shown.blocks);
        std::vector<int> fds{shown.control_memory.fd.get(), shown.ram.fd.get()};
        fds.resize(fds.size() - missing);
        send(fds);
    }
};

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

TEST_CASE("program: memory without agreement ends the connection") {
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
    hca.send(Bytes{0}, {shown.ram.fd.get()});
    CHECK(hca.until([&] { return hca.closed; }));
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
fabric::UniqueFd sparse(std::uint64_t bytes) {
    fabric::UniqueFd fd(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

// Calls map_adapter_memory() with sparse blocks and a control memory of the right size.
auto map_sparse(const std::vector<std::uint64_t>& blocks) {
    std::vector<fabric::UniqueFd> descriptors;
    descriptors.push_back(sparse(link::peer_copy_bytes(blocks)));
    for (const std::uint64_t bytes : blocks) {
        descriptors.push_back(sparse(bytes));
    }
    return fabric::map_adapter_memory(descriptors, blocks);
}

TEST_CASE("memory: large sparse files take a bounded part of the address space") {
    constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;
    CHECK_FALSE(map_sparse({16 * kTiB}));
    CHECK_FALSE(map_sparse(std::vector<std::uint64_t>(9, kTiB)));
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
