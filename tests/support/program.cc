// SPDX-License-Identifier: GPL-2.0-or-later
#include "program.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/address.h"

namespace pib::test {
namespace {

[[noreturn]] void become(std::vector<std::string> words, rlim_t max_files) {
    std::vector<char*> argv;
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    if (max_files != 0) {
        const rlimit limit{max_files, max_files};
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
}

}  // namespace

bool eventually(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
        if (done()) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

bool have_program() {
    return ::getenv("PIB_SWITCH") != nullptr;
}

Program::Program(std::vector<std::string> extra, rlim_t max_files) : extra_(std::move(extra)) {
    char name[] = "/tmp/pib-switch-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    start(max_files);
}

Program::~Program() {
    stop(SIGTERM);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

void Program::start(rlim_t max_files) {
    std::vector<std::string> words = {
        ::getenv("PIB_SWITCH"), "--listen", "unix:" + fabric_path(), "--control", control_path(),
        "--log-level",          "off"};
    words.insert(words.end(), extra_.begin(), extra_.end());
    pid_ = ::fork();
    if (pid_ == 0) {
        become(std::move(words), max_files);
    }
    // The control socket appears when everything listens.
    REQUIRE(
        eventually([&] { return fabric::connect_unix(control_path()).has_value() || !alive(); }));
}

int Program::stop(int signal) {
    int status = 0;
    if (pid_ > 0) {
        ::kill(pid_, signal);
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
    }
    return status;
}

bool Program::alive() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

json Program::ask(const json& request) const {
    const auto fd = fabric::connect_unix(control_path());
    REQUIRE(fd);
    const std::string line = request.dump() + "\n";
    REQUIRE(::send(fd->get(), line.data(), line.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(line.size()));
    std::string answer;
    char buffer[4096];
    while (answer.find('\n') == std::string::npos) {
        const ssize_t n = ::recv(fd->get(), buffer, sizeof(buffer), 0);
        REQUIRE(n > 0);
        answer.append(buffer, static_cast<std::size_t>(n));
    }
    return json::parse(answer);
}

bool Program::reaches(unsigned port, const std::string& state) const {
    return eventually(
        [&] { return ask({{"command", "status"}}).at("ports").at(port - 1).at("state") == state; });
}

}  // namespace pib::test
