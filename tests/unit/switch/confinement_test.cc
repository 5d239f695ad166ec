// SPDX-License-Identifier: GPL-2.0-or-later
// A serving switch cannot start programs, mount, or open files to write. A process keeps its
// filter, so each attempt has a process.
#include "confinement.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>

#include "program.h"

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

std::string status_line(pid_t pid, const std::string& name) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(name + ":")) {
            return line.substr(line.find_last_of(" \t") + 1);
        }
    }
    return "";
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
#ifndef PIB_INSTRUMENTED
    CHECK(refused([] { return ::fork(); }) == 1);
    CHECK(refused([] { return ::open("/tmp", O_WRONLY | O_TMPFILE, 0600); }) == 1);
    CHECK(refused([] { return ::open("/dev/null", O_WRONLY); }) == 1);
#endif
    CHECK(refused([] { return ::open("/dev/null", O_RDONLY); }) == 0);
}

TEST_CASE("confinement: sockets and mappings are limited to what links need") {
    if (!has_filter()) {
        SKIP("this kernel takes no filter");
    }
    for (const int family : {AF_UNIX, AF_INET, AF_INET6}) {
        CHECK(refused([family] { return ::socket(family, SOCK_STREAM, 0); }) == 0);
    }
#ifndef PIB_INSTRUMENTED
    for (const int family : {AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG}) {
        CHECK(refused([family] { return ::socket(family, SOCK_RAW, 0); }) == 1);
    }
#endif
    const auto map = [](int protection) {
        return reinterpret_cast<long>(
            ::mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    };
    CHECK(refused([&] { return map(PROT_READ | PROT_WRITE); }) == 0);
#ifndef PIB_INSTRUMENTED
    CHECK(refused([&] { return map(PROT_READ | PROT_EXEC); }) == 1);
#endif
}

TEST_CASE("confinement: the confined program serves links") {
    if (!have_program() || !has_filter()) {
        SKIP("PIB_SWITCH is not set, or this kernel takes no filter");
    }
    const Program program;
    CHECK(program.ask({{"command", "status"}}).at("ok") == true);
    CHECK(eventually([&] { return status_line(program.pid(), "Seccomp") == "2"; }));
    CHECK(status_line(program.pid(), "NoNewPrivs") == "1");
}

}  // namespace pib::test
