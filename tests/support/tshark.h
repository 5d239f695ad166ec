// SPDX-License-Identifier: GPL-2.0-or-later
// Reads captures with tshark, whose dissector is independent of this project.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pib::test {

// Whether tshark is installed.
bool have_tshark();

// A packet's fields by tshark's names; a field that the packet lacks is empty.
using Dissected = std::map<std::string, std::string>;

// Every packet of a capture. If the link type is 247, which tshark 4.0 cannot read, the file's
// header is changed to DLT_USER0, which options declare as InfiniBand. "_ws.malformed" is among the
// fields and empty for a well-formed packet.
std::vector<Dissected> dissect(const std::string& file, std::vector<std::string> fields);

}  // namespace pib::test
