// SPDX-License-Identifier: GPL-2.0-or-later
// pib-switch cert: a private CA, and certificates of switches and hosts that it signs.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace pib::fabric {

struct CertOptions {
    std::string command;    // ca, switch or host; empty: another command of the program
    std::string directory;  // directory of the CA
    std::string name;
    std::vector<std::string> guids;  // GUID, FIRST-LAST or any
    std::vector<std::string> nodes;  // nodes of a topology
    std::vector<std::string> hosts;  // names and addresses of a switch
    unsigned days = 0;               // days of validity
};

// Writes the files, keys with mode 0600; overwrites nothing. The error is one line.
[[nodiscard]] std::expected<void, std::string> make_certificate(const CertOptions& options);

// Calls make_certificate(), prints its error to stderr, and returns the exit status of the program.
[[nodiscard]] int run_cert(const CertOptions& options);

}  // namespace pib::fabric
