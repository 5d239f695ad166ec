// SPDX-License-Identifier: GPL-2.0-or-later
// The client of the control socket: `pib-switch ctl`.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pib::fabric {

// One command for a running switch.
struct CtlOptions {
    std::string control;
    bool as_json = false;
    std::string command;  // empty: another command of the program
    std::string port;     // a number or NODE[NUMBER]
    std::string node;     // a switch of a topology
    std::string state;
    std::vector<std::string> words;  // words of the verb for "run"
    std::string script;              // file of verbs; -: standard input
    std::string direction = "both";
    bool clear = false;
    std::map<std::string, std::string> faults;  // value of each fault, by name
};

// Sends one request and prints the answer, as JSON or for humans. Returns the exit status of the
// program.
[[nodiscard]] int run_ctl(const CtlOptions& options);

}  // namespace pib::fabric
