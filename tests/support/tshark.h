// SPDX-License-Identifier: GPL-2.0-or-later
// Captures as tshark reads them: a dissector that nobody here wrote.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pib::test {

// Whether it is installed.
bool have_tshark();

// A packet's fields by tshark's names; one that the packet has not is empty.
using Dissected = std::map<std::string, std::string>;

// Every packet of a capture. The file is changed when its link type is 247: tshark 4.0 does not
// read that number, so the file's header is made to say DLT_USER0 and that is declared to be
// InfiniBand. "_ws.malformed" is among the fields and empty for a packet that is whole.
std::vector<Dissected> dissect(const std::string& file, std::vector<std::string> fields);

}  // namespace pib::test
