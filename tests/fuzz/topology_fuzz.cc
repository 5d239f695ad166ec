// SPDX-License-Identifier: GPL-2.0-or-later
// Topology files: any text, and well-formed records in any order with any names, ports, GUIDs and
// modes. An accepted file makes a fabric whose links have two ends, even if it is split in two.
#include <array>
#include <string>
#include <string_view>

#include "fabric/fabric.h"
#include "fabric/topology.h"
#include "fuzz_target.h"

namespace pib::fuzz {
namespace {

using fabric::Fabric;

constexpr size_t kMaxNodes = 64;
constexpr unsigned kMaxTurns = 10'000;

// Byte 128 + n of an input stands for word n modulo 32, so that few bytes make a record.
constexpr std::array<std::string_view, 32> kWords = {
    "Switch ",
    "Ca ",
    "Hca ",
    "Rt ",
    "\"a\"",
    "\"b\"",
    "\"left\"",
    "\"right\"",
    "\n[1] ",
    "\n[2] ",
    "\n[3](11) ",
    "[1]",
    "[2]",
    "[4]",
    " # \"n n\"",
    " 4xEDR",
    " 1xSDR",
    " lid 5",
    " w=2 s=1",
    "vendid=0x2",
    "devid=0x5",
    "sysimgguid=",
    "switchguid=0x",
    "caguid=0x",
    "\n\nSwitch 8 \"left\"",
    "\n\nSwitch 36 \"S-0002c90200400110\"",
    "\n\nCa 2 \"a\"",
    "\n\nHca 1 \"b\"",
    "\n[7] \"right\"[7]",
    "\n[1] \"left\"[1]",
    "\n",
    "# comment\n",
};

std::string text_of(std::span<const uint8_t> input) {
    std::string text;
    for (const uint8_t byte : input) {
        if (byte >= 128) {
            text += kWords[byte % kWords.size()];
        } else {
            text.push_back(static_cast<char>(byte));
        }
    }
    return text;
}

void check(Fabric& fabric) {
    fabric.advance(1'000'000);
    for (unsigned turn = 0; fabric.deliver(); ++turn) {
        require(turn < kMaxTurns, "a fabric without traffic comes to rest");
    }
    for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
        for (size_t i = 0; i < fabric.nodes()[node].links.size(); ++i) {
            const Fabric::PortId port{node, static_cast<uint8_t>(i + 1)};
            const auto peer = fabric.peer(port);
            require(!peer || (*peer != port && fabric.peer(*peer) == port), "a link has two ends");
        }
    }
}

void make(const fabric::Topology& topology, const std::vector<std::string>& own) {
    auto made = Fabric::make(topology, {}, own);
    if (!made) {
        require(!made.error().empty() && made.error().find('\n') == std::string::npos,
                "a refusal is a line");
        return;
    }
    check(**made);
}

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> all;
    for (const std::string_view text :
         {"vendid=0x2c9\nswitchguid=0x100\nSwitch 8 \"left\"   # \"left leaf\"\n[1] \"a\"[1]\n[7] "
          "\"right\"[7] # \"right\" lid 2 4xEDR\n\nSwitch 8 \"right\"\n[1] \"b\"[1]\n\n"
          "caguid=0x10\nCa 2 \"a\"\n[1](11) \"left\"[1]\n\nHca 1 \"b\"\n",
          "Switch 4 \"S-0002c90200400110\"\n[1] \"left\"[8] w=2 s=1\n\nSwitch 8 \"left\"\n"}) {
        all.emplace_back(text.begin(), text.end());
    }
    all.push_back({128 + 24, 128 + 28, 128 + 25, 128 + 29, 128 + 26, 128 + 29, 128 + 30});
    all.push_back({128 + 22, '1', 128 + 30, 128 + 0, '8', ' ', 128 + 6, 128 + 8, 128 + 4, 128 + 11,
                   128 + 15, 128 + 26, 128 + 8, 128 + 6, 128 + 11});
    return all;
}

void run(std::span<const uint8_t> input) {
    const auto topology = fabric::parse_topology(text_of(input), "fuzzed");
    if (!topology) {
        require(topology.error().starts_with("fuzzed:"), "the message of a mistake has its place");
        return;
    }
    if (topology->nodes.size() > kMaxNodes) {
        return;
    }
    make(*topology, {});
    for (const fabric::TopologyNode& node : topology->nodes) {
        if (node.is_switch) {
            make(*topology, {node.id});
            break;
        }
    }
}

}  // namespace pib::fuzz
