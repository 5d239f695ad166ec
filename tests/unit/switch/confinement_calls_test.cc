// SPDX-License-Identifier: GPL-2.0-or-later
// The system calls that the filter permits. Sanitizers and coverage need calls that it refuses, so
// this test has neither. A process keeps its filter, so each attempt runs in a new process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "confinement.h"

namespace pib::test {
namespace {

constexpr int kUnfiltered = 77;

// Whether `attempt` fails with EPERM in a process that has given up its privileges; kUnfiltered:
// the kernel has no filter.
template <typename Attempt>
int refused(Attempt attempt) {
    const pid_t child = ::fork();
    if (child == 0) {
        if (!fabric::confine()) {
            ::_exit(kUnfiltered);
        }
        errno = 0;
        const auto result = attempt();
        ::_exit(static_cast<long>(result) == -1 && errno == EPERM ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has_filter() {
    return refused([] { return 0; }) != kUnfiltered;
}

}  // namespace

TEST_CASE("confinement: a confined process starts no program and opens no file to write") {
    if (!has_filter()) {
        SKIP("this kernel takes no filter");
    }
    char* const nothing[] = {nullptr};
    CHECK(refused([&] { return ::execve("/bin/true", nothing, nothing); }) == 1);
    CHECK(refused([] { return ::syscall(SYS_mount, "none", "/", "none", 0, nullptr); }) == 1);
    CHECK(refused([] { return ::syscall(SYS_keyctl, 0, 0, 0, 0, 0); }) == 1);
    CHECK(refused([] { return ::fork(); }) == 1);
    CHECK(refused([] { return ::syscall(SYS_clone3, nullptr, 0); }) == 1);
    CHECK(refused([] { return ::open("/tmp", O_WRONLY | O_TMPFILE, 0600); }) == 1);
    CHECK(refused([] { return ::open("/dev/null", O_WRONLY); }) == 1);
    CHECK(refused([] { return ::open("/dev/null", O_RDONLY); }) == 0);
}

TEST_CASE("confinement: sockets and mappings are limited to what links need") {
    if (!has_filter()) {
        SKIP("this kernel takes no filter");
    }
    for (const int family : {AF_UNIX, AF_INET, AF_INET6}) {
        CHECK(refused([family] { return ::socket(family, SOCK_STREAM, 0); }) == 0);
    }
    for (const int family : {AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG}) {
        CHECK(refused([family] { return ::socket(family, SOCK_RAW, 0); }) == 1);
    }
    const auto map = [](int protection) {
        return reinterpret_cast<long>(
            ::mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    };
    CHECK(refused([&] { return map(PROT_READ | PROT_WRITE); }) == 0);
    CHECK(refused([&] { return map(PROT_READ | PROT_EXEC); }) == 1);
}

TEST_CASE("confinement: a confined process of root has no capability") {
    if (!has_filter()) {
        SKIP("this kernel takes no filter");
    }
    const auto exceed_the_limit = [] {
        const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0), bytes = 1 << 24;
        return ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    };
    CHECK(refused(exceed_the_limit) == 1);
}

}  // namespace pib::test
