// SPDX-License-Identifier: GPL-2.0-or-later
// Input of an operator: a topology file, then lines of the control socket or ibsim's verbs, each
// after a NUL. The fabric stays consistent: both ends of a link refer to each other, and all
// activity comes to an end.
#include <algorithm>
#include <string>
#include <string_view>

#include "control/control_commands.h"
#include "control/control_verbs.h"
#include "fabric/topology.h"
#include "fuzz_target.h"

namespace pib::fuzz {
namespace {

using fabric::Fabric;

constexpr const char* kTopology =
    "vendid=0x2c9\nswitchguid=0x100\nSwitch 8 \"left\"   # \"left leaf\"\n[1] \"a\"[1]\n"
    "[7] \"right\"[7] # \"right\" lid 2 4xEDR\n\nSwitch 4 \"S-0002c90200400110\"\n[1] \"left\"[8] "
    "w=2 s=1\n\n"
    "Switch 8 \"right\"\n[1] \"b\"[1]\n\ncaguid=0x10\nCa 2 \"a\"\n[1](11) \"left\"[1]\n\nHca 1 "
    "\"b\"\n";
constexpr size_t kMaxNodes = 64;
constexpr unsigned kMaxTurns = 1000;

void check(const Fabric& fabric) {
    for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
        for (size_t i = 0; i < fabric.nodes()[node].links.size(); ++i) {
            const Fabric::PortId port{node, static_cast<uint8_t>(i + 1)};
            const auto peer = fabric.peer(port);
            require(!peer || fabric.peer(*peer) == port, "a link has two ends");
            require(!peer || *peer != port, "and they are not the same");
        }
    }
}

void settle(Fabric& fabric, uint64_t& now_ns) {
    fabric.advance(now_ns += 1'000'000);
    for (unsigned turn = 0; fabric.deliver(); ++turn) {
        require(turn < kMaxTurns, "a fabric without traffic comes to rest");
    }
}

void operate(Fabric& fabric, std::string_view line) {
    if (line.starts_with('{')) {
        require(!fabric::run_control_line(fabric, line).empty(), "each request has an answer");
        return;
    }
    const auto done = fabric::run_verb(fabric, line);
    require(done || !done.error().empty(), "who is refused hears why");
}

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> found;
    using namespace std::string_view_literals;
    for (
        const std::string_view lines :
        {"Unlink left[7]\0ReLink right[7]\0Link left[2] right[2]"sv,
         "Error \"a\"[1] 50 0x11\0Trap a[1] 131\0Clear left\0Baselid b 17 1\0ReLink left"sv,
         "{\"command\":\"nodes\"}\0{\"command\":\"status\",\"switch\":\"left leaf\"}"sv,
         "{\"command\":\"run\",\"line\":\"Unlink a[1]\"}\0PerformanceSet left[7] PortRcvErrors=3"sv,
         "{\"command\":\"fault\",\"port\":\"left[7]\",\"set\":{\"drop\":0.5}}"sv}) {
        std::string input(kTopology);
        input.push_back('\0');
        input.append(lines);
        found.emplace_back(input.begin(), input.end());
    }
    return found;
}

void run(std::span<const uint8_t> input) {
    std::string_view rest(reinterpret_cast<const char*>(input.data()), input.size());
    const auto next = [&rest] {
        const std::string_view part = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
        return part;
    };
    auto topology = fabric::parse_topology(next(), "fuzzed");
    if (!topology) {
        require(topology.error().starts_with("fuzzed:"), "the message of a mistake has its place");
        return;
    }
    if (topology->nodes.size() > kMaxNodes) {
        return;
    }
    auto fabric = Fabric::make(std::move(*topology), {});
    if (!fabric) {
        return;
    }
    uint64_t now_ns = 1;
    settle(**fabric, now_ns);
    check(**fabric);
    while (!rest.empty()) {
        operate(**fabric, next());
        settle(**fabric, now_ns);
        check(**fabric);
    }
}

}  // namespace pib::fuzz
