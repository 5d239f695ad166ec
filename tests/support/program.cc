// SPDX-License-Identifier: GPL-2.0-or-later
#include "program.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/address.h"

namespace pib::test {
namespace {

// Arguments for become(), which must not allocate memory after fork(): the test may have threads.
std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> argv;
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    return argv;
}

[[noreturn]] void become(const std::vector<char*>& argv, rlim_t max_files) {
    if (max_files != 0) {
        const rlimit limit{max_files, max_files};
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary_file() {
    File file(std::tmpfile(), &std::fclose);
    REQUIRE(file);
    return file;
}

std::string text_of(std::FILE* file) {
    std::rewind(file);
    std::string text;
    std::array<char, 4096> buffer;
    for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), file)) != 0;) {
        text.append(buffer.data(), n);
    }
    return text;
}

bool within(std::chrono::milliseconds limit, const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
        if (done()) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

}  // namespace

bool eventually(const std::function<bool()>& done) {
    return within(kOnlyAHangTakesIt, done);
}

bool have_program() {
    return ::getenv("PIB_SWITCH") != nullptr;
}

Ended run_program(std::vector<std::string> words, const std::string& input,
                  std::chrono::milliseconds limit) {
    const File in = temporary_file(), out = temporary_file(), err = temporary_file();
    REQUIRE(std::fwrite(input.data(), 1, input.size(), in.get()) == input.size());
    std::rewind(in.get());
    words.insert(words.begin(), ::getenv("PIB_SWITCH"));
    const std::vector<char*> argv = pointers(words);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(::fileno(in.get()), STDIN_FILENO);
        ::dup2(::fileno(out.get()), STDOUT_FILENO);
        ::dup2(::fileno(err.get()), STDERR_FILENO);
        become(argv, 0);
    }
    int status = 0;
    if (!within(limit, [&] { return ::waitpid(child, &status, WNOHANG) == child; })) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
    }
    return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = text_of(out.get()),
            .err = text_of(err.get())};
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
    const std::vector<char*> argv = pointers(words);
    pid_ = ::fork();
    if (pid_ == 0) {
        become(argv, max_files);
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
        answer.append(buffer, static_cast<size_t>(n));
    }
    return json::parse(answer);
}

bool Program::reaches(unsigned port, const std::string& state) const {
    return eventually(
        [&] { return ask({{"command", "status"}}).at("ports").at(port - 1).at("state") == state; });
}

}  // namespace pib::test
