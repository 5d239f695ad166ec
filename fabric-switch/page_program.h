// SPDX-License-Identifier: GPL-2.0-or-later
// The program behind --http: `pib web`, which serves the fabric's page and reads the fabric through
// the control socket, as any other client.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace pib::fabric {

// Converts ADDRESS, ADDRESS:PORT or PORT (on the loopback address) to options of `pib web`. An IPv6
// address is in brackets.
[[nodiscard]] std::expected<std::vector<std::string>, std::string> page_options(
    const std::string& text);

// The file with the page's address, which only the switch's user can read: the address has the
// token. It is beside the control socket.
[[nodiscard]] std::string page_address_file(const std::string& control);

// Starts `pib web`, which ends with this process, for a control socket that listens already. Call
// this before confine(), after which no program can be started. The errors here are one line for a
// user.
[[nodiscard]] std::expected<void, std::string> start_page(const std::string& http,
                                                          const std::string& control);

}  // namespace pib::fabric
