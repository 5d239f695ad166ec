// SPDX-License-Identifier: GPL-2.0-or-later
// Command lines of pib-switch that are refused, each with its reason.
#include "options.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "program.h"

namespace pib::test {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Refused {
    std::vector<std::string> words;
    std::string reason;
};

// An address where no switch can listen, so that no case ever serves.
const std::string kListen = "unix:/nowhere/pib-switch-test";

const std::vector<Refused> kRefused = {
    {{"--ports", "4"}, "--listen is required; see --help"},
    {{"--listen", kListen, "--ports", "37"}, "--ports"},
    {{"--listen", kListen, "--socket-mode", "1000"}, "permissions are octal, 0 to 0777, not 1000"},
    {{"--listen", kListen, "--socket-mode", "rw"}, "permissions are octal, 0 to 0777, not rw"},
    {{"--listen", kListen, "--socket-mode", "-1"}, "permissions are octal, 0 to 0777, not -1"},
    {{"--listen", kListen, "--guid", "zz"}, "not a GUID (hexadecimal, not 0): zz"},
    {{"--listen", kListen, "--guid", "0"}, "not a GUID (hexadecimal, not 0): 0"},
    {{"--listen", kListen, "--mtu", "1500"}, "MTU is 256, 512, 1024, 2048 or 4096"},
    {{"--listen", kListen, "--vls", "3"}, "data VLs are 1, 2, 4, 8 or 15"},
    {{"--listen", kListen, "--topology", "/nowhere/net.topo"}, "/nowhere/net.topo"},
    {{"--listen", kListen, "--only", "leaf"}, "--topology"},
    {{"--listen", kListen, "--fault", "drop=1"}, "not PORT:NAME=VALUE,...: drop=1"},
    {{"--listen", kListen, "--fault", "99:drop=1"}, "99:drop=1: no such port"},
    {{"--listen", kListen, "--fault", "all:drop=2"}, "drop is a probability, 0 to 1"},
    {{"--listen", kListen, "--fault", "1:drop"}, "1:drop: "},
    {{"--listen", kListen, "--pcap", "/nowhere/file"}, "/nowhere/file"},
    {{"--listen", kListen, "--pcap-format", "text"}, "--pcap-format"},
    {{"--listen", kListen, "--tls", "/nowhere"}, "/nowhere"},
    {{"--listen", kListen}, "/nowhere/pib-switch-test"},
    {{"--listen", "nothing"}, "nothing"},
    {{"--listen", "unix:"}, ""},
    {{"--listen", "unix:/" + std::string(200, 'x')}, "socket path has to have 1 to 107 bytes"},
    {{"ctl", "status"}, "--control"},
    {{"ctl", "--control", "/nowhere/control"}, "subcommand"},
    {{"cert", "switch", "/nowhere/ca", "leaf"}, "--guid"},
    {{"cert", "ca", "/nowhere/ca/in/nothing"}, "pib-switch cert: /nowhere/ca/in/nothing"},
    {{"cert", "host", "/nowhere/ca", "vm1", "--guid", "any"}, "pib-switch cert: "},
    {{"cert", "ca", "/nowhere/ca", "--days", "0"}, "--days"},
};

}  // namespace

TEST_CASE("options: a command line that makes no sense is refused with the reason") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Refused& one = kRefused[GENERATE(range(std::size_t{0}, kRefused.size()))];
    const Ended ended = run_program(one.words);
    CAPTURE(one.words, ended.out, ended.err);
    CHECK(ended.status > 0);
    CHECK_FALSE(ended.err.empty());
    CHECK_THAT(ended.err, ContainsSubstring(one.reason));
}

TEST_CASE("options: --help goes to stdout, and the status is 0") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Ended ended = run_program({"--help"});
    CHECK(ended.status == 0);
    CHECK_THAT(ended.out, ContainsSubstring("--listen"));
    CHECK(ended.err.empty());
}

TEST_CASE("options: a command line that serves ends at the limit, and not the test") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Ended ended = run_program({"--listen", "tcp:0"}, {}, std::chrono::milliseconds(500));
    CHECK(ended.status == -1);
}

}  // namespace pib::test
