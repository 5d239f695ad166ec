// SPDX-License-Identifier: GPL-2.0-or-later
// The arguments of pib-replay, and the dumps that they ask for.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "device.h"

namespace pib::hca::replay {

extern const char* const kUsage;

struct Dump {
    std::string kind;
    uint64_t number = 0;
};

struct CommandLine {
    std::string file;
    uint64_t until_ns = UINT64_MAX;
    std::vector<Dump> dumps;
    bool tolerant = false;
    bool lists_calls = false;
    bool verbose = false;
    bool help = false;

    [[nodiscard]] bool wants_trace() const;
};

// `arguments`: without the program's name. Errors are one line for a user.
[[nodiscard]] std::expected<CommandLine, std::string> parse_command_line(
    std::span<char* const> arguments);

// Converts a time to nanoseconds: a number with one of the units s (default), ms, us and ns.
[[nodiscard]] std::expected<uint64_t, std::string> parse_time(const std::string& text);

// Returns JSON, or an error if there is no such object.
[[nodiscard]] std::expected<std::string, std::string> dump_of(Device& device, const Dump& dump);

}  // namespace pib::hca::replay
