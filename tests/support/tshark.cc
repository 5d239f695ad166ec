// SPDX-License-Identifier: GPL-2.0-or-later
#include "tshark.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <sstream>

namespace pib::test {
namespace {

constexpr int kInfiniBand = 247;
constexpr int kUser0 = 147;
constexpr long kLinkTypeOffset = 20;  // offset of the type's low byte in the file's header

std::string output_of(const std::string& command) {
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    while (pipe != nullptr) {
        const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe);
        text.append(buffer, n);
        if (n == 0) {
            break;
        }
    }
    return pipe != nullptr && ::pclose(pipe) == 0 ? text : "";
}

// Changes link type 247 in the file to DLT_USER0; returns the options that declare DLT_USER0 as
// InfiniBand.
std::string options_for(const std::string& file) {
    std::FILE* stream = std::fopen(file.c_str(), "r+be");
    REQUIRE(stream != nullptr);
    std::fseek(stream, kLinkTypeOffset, SEEK_SET);
    const bool unknown = std::fgetc(stream) == kInfiniBand;
    if (unknown) {
        std::fseek(stream, kLinkTypeOffset, SEEK_SET);
        std::fputc(kUser0, stream);
    }
    std::fclose(stream);
    return unknown ? " -o 'uat:user_dlts:\"User 0 (DLT=147)\",\"infiniband\",\"0\",\"\",\"0\",\"\"'"
                   : "";
}

}  // namespace

bool have_tshark() {
    return !output_of("tshark --version 2>/dev/null").empty();
}

std::vector<Dissected> dissect(const std::string& file, std::vector<std::string> fields) {
    fields.emplace_back("_ws.malformed");
    std::string command =
        "tshark -n -r " + file + options_for(file) + " -T fields -E separator=, -E occurrence=f";
    for (const std::string& field : fields) {
        command += " -e " + field;
    }
    std::vector<Dissected> packets;
    std::istringstream lines(output_of(command + " 2>/dev/null"));
    for (std::string line; std::getline(lines, line);) {
        Dissected packet;
        std::istringstream row(line);
        for (const std::string& field : fields) {
            std::getline(row, packet[field], ',');
        }
        packets.push_back(std::move(packet));
    }
    return packets;
}

}  // namespace pib::test
