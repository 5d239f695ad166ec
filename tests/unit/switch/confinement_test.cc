// SPDX-License-Identifier: GPL-2.0-or-later
// The program confines itself before it serves.
#include "confinement.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "program.h"

namespace pib::test {
namespace {

// Whether the kernel has the filter. Tried in a child process, because a process keeps its filter.
bool has_filter() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(fabric::confine() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status == 0;
}

std::string status_line(const std::filesystem::path& thread, const std::string& name) {
    std::ifstream status(thread / "status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(name + ":")) {
            return line.substr(line.find_last_of(" \t") + 1);
        }
    }
    return "";
}

}  // namespace

TEST_CASE("confinement: the confined program serves links, and all its threads are confined") {
    if (!have_program() || !has_filter()) {
        SKIP("PIB_SWITCH is not set, or this kernel takes no filter");
    }
    const Program program;
    CHECK(program.ask({{"command", "status"}}).at("ok") == true);
    const std::filesystem::path process = "/proc/" + std::to_string(program.pid());
    CHECK(eventually([&] { return status_line(process, "Seccomp") == "2"; }));
    unsigned threads = 0;
    for (const auto& thread : std::filesystem::directory_iterator(process / "task")) {
        CHECK(status_line(thread, "Seccomp") == "2");
        CHECK(status_line(thread, "NoNewPrivs") == "1");
        for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
            CHECK(status_line(thread, set) == "0000000000000000");
        }
        ++threads;
    }
    CHECK(threads >= 2);  // the event loop, and the thread that closes descriptors
}

}  // namespace pib::test
