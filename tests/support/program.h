// SPDX-License-Identifier: GPL-2.0-or-later
// pib-switch as a child process. PIB_SWITCH names the program; without it the tests are skipped.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pib::test {

using nlohmann::json;

inline constexpr std::chrono::milliseconds kOnlyAHangTakesIt = std::chrono::minutes(1);

// Polls until `done` returns true; false after kOnlyAHangTakesIt.
bool eventually(const std::function<bool()>& done);

bool have_program();

// A run of the program that has ended, by itself or at the limit.
struct Ended {
    int status = -1;  // exit status; -1: it was killed
    std::string out;
    std::string err;
};
Ended run_program(std::vector<std::string> words, const std::string& input = {},
                  std::chrono::milliseconds limit = kOnlyAHangTakesIt);

// The program with its sockets in a directory of its own.
class Program {
  public:
    explicit Program(std::vector<std::string> extra = {}, rlim_t max_files = 0);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // Starts the program; returns when it listens at fabric_path() and at a TCP address in `extra`.
    void start(rlim_t max_files = 0);
    // Sends the signal and returns the program's wait status; 0 if it does not run.
    int stop(int signal);
    [[nodiscard]] bool alive() const;
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const std::string& directory() const { return directory_; }
    [[nodiscard]] std::string fabric_path() const { return directory_ + "/fabric"; }
    [[nodiscard]] std::string control_path() const { return directory_ + "/control"; }

    // Sends a request to the control socket; returns the answer.
    [[nodiscard]] json ask(const json& request) const;
    // Waits until a port is in this state.
    [[nodiscard]] bool reaches(unsigned port, const std::string& state) const;

  private:
    std::string directory_;
    std::vector<std::string> extra_;
    pid_t pid_ = -1;
};

}  // namespace pib::test
