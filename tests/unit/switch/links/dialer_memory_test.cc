// SPDX-License-Identifier: GPL-2.0-or-later
// A switch that connects to another one and finds no memory for the connection.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <thread>

#include "base/address.h"
#include "fabric_server.h"
#include "program.h"

namespace {

std::atomic<size_t> g_missing = 0;  // the next allocation of this size fails

}  // namespace

// Not inlined: otherwise the compiler warns that new and free() do not match.
[[gnu::noinline]] void* operator new(size_t size) {
    size_t wanted = size;
    if (size != 0 && g_missing.compare_exchange_strong(wanted, 0)) {
        throw std::bad_alloc();
    }
    if (void* memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
    return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

namespace pib::test {
namespace {

// Waits for a connection that sends HELLO. The switch closes one for which it has no memory.
bool hears_hello(int listening) {
    fabric::UniqueFd fd;
    return eventually([&] {
        std::array<char, 8> bytes{};
        if (fd && ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
            return true;
        }
        if (fabric::UniqueFd next{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)}) {
            fd = std::move(next);
        }
        return false;
    });
}

}  // namespace

TEST_CASE("dialer: an attempt that lacks memory is repeated") {
    const std::string path =
        std::filesystem::temp_directory_path() / ("pib-dialer-" + std::to_string(::getpid()));
    const auto address = fabric::Address::parse("unix:" + path);
    REQUIRE(address);
    const auto listening = fabric::listen_on(*address);
    REQUIRE(listening);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    REQUIRE(::pthread_sigmask(SIG_BLOCK, &ends, nullptr) == 0);
    fabric::SwitchConfig config;
    config.node_guid = ib::Guid(0x100);
    fabric::FabricServer server(std::make_unique<fabric::Fabric>(config));
    REQUIRE(server.connect(*address, {}, {}));

    g_missing = sizeof(fabric::Connection);
    bool ended_well = false;
    std::thread running([&] { ended_well = server.run().has_value(); });
    CHECK(hears_hello(listening->front().get()));
    CHECK(g_missing == 0);

    ::kill(::getpid(), SIGTERM);
    running.join();
    CHECK(ended_well);
    ::unlink(path.c_str());
}

}  // namespace pib::test
