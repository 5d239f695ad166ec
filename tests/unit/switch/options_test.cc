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

// Exit statuses: a command that fails, one that lacks an address, and CLI11's for options.
enum Status : int { kFails = 1, kNoAddress = 2, kValue = 105, kMissing = 106, kNeedsOther = 107 };

struct Refused {
    std::vector<std::string> words;
    Status status;
    std::string reason;
};

// An address where no switch can listen, so that no case ever serves.
const std::string kListen = "unix:/nowhere/pib-switch-test";

const std::vector<Refused> kRefused = {
    {{"--ports", "4"}, kNoAddress, "--listen is required; see --help"},
    {{"--listen", kListen, "--ports", "37"}, kValue, "--ports: Value 37 not in range"},
    {{"--listen", kListen, "--socket-mode", "1000"},
     kValue,
     "permissions are octal, 0 to 0777, not 1000"},
    {{"--listen", kListen, "--socket-mode", "rw"},
     kValue,
     "permissions are octal, 0 to 0777, not rw"},
    {{"--listen", kListen, "--socket-mode", "-1"},
     kValue,
     "permissions are octal, 0 to 0777, not -1"},
    {{"--listen", kListen, "--guid", "zz"}, kFails, "not a GUID (hexadecimal, not 0): zz"},
    {{"--listen", kListen, "--guid", "0"}, kFails, "not a GUID (hexadecimal, not 0): 0"},
    {{"--listen", kListen, "--guid", "-1"}, kFails, "not a GUID (hexadecimal, not 0): -1"},
    {{"--listen", kListen, "--guid", "0x10000000000000001"},
     kFails,
     "not a GUID (hexadecimal, not 0): 0x10000000000000001"},
    {{"--listen", kListen, "--mtu", "1500"},
     kFails,
     "--mtu: expected 256, 512, 1024, 2048 or 4096"},
    {{"--listen", kListen, "--vls", "3"}, kFails, "--vls: expected 1, 2, 4, 8 or 15"},
    {{"--listen", kListen, "--topology", "/nowhere/net.topo"},
     kFails,
     "/nowhere/net.topo: cannot be read"},
    {{"--listen", kListen, "--only", "leaf"}, kNeedsOther, "--only requires --topology"},
    {{"--listen", kListen, "--fault", "drop=1"}, kFails, "not PORT:NAME=VALUE,...: drop=1"},
    {{"--listen", kListen, "--fault", "99:drop=1"}, kFails, "99:drop=1: no such port"},
    {{"--listen", kListen, "--fault", "all:drop=2"}, kFails, "drop is a probability, 0 to 1"},
    {{"--listen", kListen, "--fault", "1:drop"}, kFails, "1:drop: drop is a probability, 0 to 1"},
    {{"--listen", kListen, "--pcap", "/nowhere/file"},
     kFails,
     "/nowhere/file: No such file or directory"},
    {{"--listen", kListen, "--pcap-format", "text"}, kValue, "--pcap-format: text not in "},
    {{"--listen", kListen, "--log-level", "loud"}, kValue, "--log-level: loud not in "},
    {{"--listen", kListen, "--tls", "/nowhere"}, kFails, "/nowhere/ca-cert.pem: "},
    {{"--listen", kListen}, kFails, "/nowhere/pib-switch-test: No such file or directory"},
    {{"--listen", "nothing"}, kFails, "tcp:HOST:PORT or tcp:PORT): nothing"},
    {{"--listen", "unix:"}, kFails, "not an address (unix:PATH, tls:HOST:PORT, "},
    {{"--listen", "unix:/" + std::string(200, 'x')},
     kFails,
     "socket path has to have 1 to 99 bytes"},
    {{"ctl", "status"}, kMissing, "--control is required"},
    {{"ctl", "--control", "/nowhere/control"}, kMissing, "A subcommand is required"},
    {{"cert", "switch", "/nowhere/ca", "leaf"}, kMissing, "--guid is required"},
    {{"cert", "ca", "/nowhere/ca/in/nothing"}, kFails, "pib-switch cert: /nowhere/ca/in/nothing"},
    {{"cert", "host", "/nowhere/ca", "vm1", "--guid", "any"},
     kFails,
     "no CA in /nowhere/ca: make the CA first"},
    {{"cert", "ca", "/nowhere/ca", "--days", "0"}, kValue, "--days: Value 0 not in range"},
};

}  // namespace

TEST_CASE("options: a command line that makes no sense is refused with the reason") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Refused& one = kRefused[GENERATE(range(size_t{0}, kRefused.size()))];
    const Ended ended = run_program(one.words);
    CAPTURE(one.words, ended.out, ended.err);
    CHECK(ended.status == one.status);
    CHECK(ended.out.empty());
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

TEST_CASE("options: run_program() ends a program that serves at its time limit") {
    if (!have_program()) {
        SKIP("PIB_SWITCH is not set");
    }
    const Ended ended = run_program({"--listen", "tcp:0"}, {}, std::chrono::milliseconds(500));
    CHECK(ended.status == -1);
}

}  // namespace pib::test
