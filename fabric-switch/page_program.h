// SPDX-License-Identifier: GPL-2.0-or-later
// The program that --http starts: `pib web`. It serves a page about the fabric, which it reads
// through the control socket as other clients do.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace pib::fabric {

// Converts ADDRESS, ADDRESS:PORT or PORT (on the loopback address) to options of `pib web`. An IPv6
// address is in brackets.
[[nodiscard]] std::expected<std::vector<std::string>, std::string> page_options(
    const std::string& text);

// The path of the file with the page's address, beside the control socket. Only the switch's user
// can read the file, because the address has the token.
[[nodiscard]] std::string page_address_file(const std::string& control);

// Starts `pib web`, which ends with this process, for a control socket that listens already. Call
// this before confine(), after which no program can be started. The errors here are one line for a
// user.
[[nodiscard]] std::expected<void, std::string> start_page(const std::string& http,
                                                          const std::string& control);

}  // namespace pib::fabric
