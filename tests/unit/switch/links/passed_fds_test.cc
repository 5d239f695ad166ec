// SPDX-License-Identifier: GPL-2.0-or-later
// A peer passes descriptors whose last close() blocks. Only the thread that closes them may wait.
#include "links/passed_fds.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "lingering.h"
#include "memory_hca.h"
#include "socket_hca.h"

namespace pib::test {
namespace {

using fabric::UniqueFd;

// Passes the only reference to the socket; false: the kernel forbids it (Linux 6.16 and later).
bool give(int socket, Lingering& passed, size_t copies = 1) {
    const std::vector<int> fds(copies, passed.near.get());
    if (!send_with_fds(socket, Bytes{8}, fds)) {
        CHECK(errno == EPERM);
        return false;
    }
    passed.near.reset();
    return true;
}

// Stops the program's thread that closes descriptors, which is its only thread beside the first.
class StoppedCloser {
  public:
    explicit StoppedCloser(pid_t program) {
        const std::filesystem::path threads = "/proc/" + std::to_string(program) + "/task";
        for (const auto& entry : std::filesystem::directory_iterator(threads)) {
            const pid_t thread = std::stoi(entry.path().filename());
            thread_ = thread != program ? thread : thread_;
        }
        int status = 0;
        stopped_ = thread_ > 0 && ::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0 &&
                   ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 &&
                   ::waitpid(thread_, &status, __WALL) == thread_;
    }
    ~StoppedCloser() { resume(); }
    StoppedCloser(const StoppedCloser&) = delete;
    StoppedCloser& operator=(const StoppedCloser&) = delete;
    [[nodiscard]] bool is_stopped() const { return stopped_; }
    void resume() {
        if (stopped_) {
            ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
            stopped_ = false;
        }
    }

  private:
    pid_t thread_ = 0;
    bool stopped_ = false;
};

// Whether a new link comes up, and the control socket answers.
bool serves(const Program& program) {
    SocketHca other(program.fabric_path(), 0x9000);
    return other.until([&] { return other.end->is_up(); }) && program.reaches(1, "Initialize");
}

}  // namespace

TEST_CASE("passed descriptors: a socket that lingers stops no other link") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    Lingering passed;
    SECTION("before HELLO") {
        const auto stranger = fabric::connect_unix(program.fabric_path());
        REQUIRE(stranger);
        (void)give(stranger->get(), passed);
        CHECK(serves(program));
    }
    SECTION("in place of the memory") {
        MemoryHca hca(program.fabric_path(), 0x2000);
        REQUIRE(give(hca.fd.get(), passed, 1 + fabric::PassedFds::kMost));
        CHECK(hca.until([&] { return hca.closed; }));
        CHECK(serves(program));
    }
    SECTION("as many as a message carries") {
        MemoryHca hca(program.fabric_path(), 0x2000);
        REQUIRE(give(hca.fd.get(), passed, 253));
        CHECK(hca.until([&] { return hca.closed; }));
        CHECK(serves(program));
    }
    CHECK(program.stop(SIGTERM) == 0);
}

TEST_CASE("passed descriptors: a lingering socket in the queue of an ended link stops no other") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    Lingering unread;
    MemoryHca hca(program.fabric_path(), 0x2000);
    const UniqueFd any(::dup(hca.fd.get()));
    REQUIRE(::kill(program.pid(), SIGSTOP) == 0);
    hca.send(Bytes{8}, std::vector<int>(1 + fabric::PassedFds::kMost, any.get()));
    REQUIRE(give(hca.fd.get(), unread));
    REQUIRE(::kill(program.pid(), SIGCONT) == 0);
    CHECK(hca.until([&] { return hca.closed; }));
    CHECK(serves(program));
    CHECK(program.stop(SIGTERM) == 0);
}

TEST_CASE("passed descriptors: while many wait to be closed, new connections wait") {
    if (!have_program()) {
        SKIP("no pib-switch");
    }
    Program program;
    SocketHca good(program.fabric_path(), 0x1000);
    REQUIRE(good.until([&] { return good.end->is_up(); }));
    StoppedCloser closer(program.pid());
    if (!closer.is_stopped()) {
        SKIP("threads of other processes cannot be stopped here");
    }
    const UniqueFd any(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    constexpr size_t kOfMessage = 253;
    for (size_t given = 0; given < fabric::FdCloser::kMany; given += kOfMessage) {
        MemoryHca hca(program.fabric_path(), 0x3000 + 0x100 * given);
        hca.send(Bytes{8}, std::vector<int>(kOfMessage, any.get()));
        REQUIRE(hca.until([&] { return hca.closed; }));
    }

    SocketHca late(program.fabric_path(), 0x9000);
    for (unsigned turn = 0; turn < 10; ++turn) {
        late.pump();
        CHECK(program.ask({{"command", "status"}}).contains("ports"));  // the switch serves others
    }
    CHECK_FALSE(late.end->training().is_open());
    good.pump();
    CHECK(good.end->is_up());
    closer.resume();
    CHECK(late.until([&] { return late.end->is_up(); }));
    CHECK(program.stop(SIGTERM) == 0);
}

}  // namespace pib::test
