// SPDX-License-Identifier: GPL-2.0-or-later
// Topology files: their contents, and the message for each mistake.
#include "fabric/topology.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "fabric/fabric.h"
#include "fabric/topology_line.h"

using namespace pib;
using namespace pib::fabric;

namespace {

// A topology file of ibnetdiscover, with GUIDs.
constexpr const char* kDiscovered = R"(#
# Topology file: generated on Thu Jan  1 00:00:00 1970
#
vendid=0x2c9
devid=0xbd36
sysimgguid=0x2c90200400113
switchguid=0x2c90200400110(2c90200400110)
Switch	36 "S-0002c90200400110"		# "leaf 1" enhanced port 0 lid 2 lmc 0
[1]	"H-0002c903000e0b72"[2](2c903000e0b74) 		# "node 1 mlx4_0" lid 5 4xQDR
[36][ext 7]	"S-0002c90200400120"[3]		# "spine 4xSDR" lid 3 4xEDR

vendid=0x2c9
devid=0xbd37
switchguid=0x2c90200400120(2c90200400120)
Switch	4 "S-0002c90200400120"		# "spine 4xSDR" base port 0 lid 3 lmc 0
[3]	"S-0002c90200400110"[36]		# "leaf 1" lid 2 4xEDR

caguid=0x2c903000e0b72
Ca	2 "H-0002c903000e0b72"		# "node 1 mlx4_0"
[2](2c903000e0b74) 	"S-0002c90200400110"[1]		# lid 5 lmc 0 "leaf 1" lid 2 4xQDR
)";

std::string error_of(const std::string& text) {
    const auto topology = parse_topology(text, "net");
    return topology ? "" : topology.error();
}

}  // namespace

TEST_CASE("a topology is read from ibnetdiscover's output") {
    const auto topology = parse_topology(kDiscovered, "net");
    REQUIRE(topology);
    REQUIRE(topology->nodes.size() == 3);
    const TopologyNode& leaf = topology->nodes[0];
    CHECK(leaf.is_switch);
    CHECK(leaf.description == "leaf 1");
    CHECK(leaf.guid == ib::Guid(0x2c90200400110));
    CHECK(leaf.system_image_guid == ib::Guid(0x2c90200400113));
    CHECK(leaf.vendor_id == 0x2c9);
    CHECK(leaf.device_id == 0xbd36);
    REQUIRE(leaf.ports.size() == 36);
    CHECK(leaf.port(1).peer_node == 2);
    CHECK(leaf.port(1).peer_port == 2);
    CHECK(leaf.port(1).modes.speed == 7);
    CHECK(leaf.port(1).modes.speed_ext == 0);
    CHECK(leaf.port(36).peer_node == 1);
    CHECK(leaf.port(36).modes.speed_ext == 3);
    CHECK_FALSE(leaf.port(2).joined());

    const TopologyNode& node = topology->nodes[2];
    CHECK_FALSE(node.is_switch);
    CHECK(node.device_id == 0xbd37);
    CHECK(node.system_image_guid == node.guid);
    CHECK(node.port(2).guid == ib::Guid(0x2c903000e0b74));
    CHECK(node.port(1).guid == ib::Guid(0x2c903000e0b73));
    CHECK(node.port(2).peer_node == 0);
    CHECK_FALSE(node.port(1).joined());
}

TEST_CASE("a topology may be as short as ibsim's") {
    const auto topology = parse_topology(
        "Switch 8 \"sw\"\n[1] \"hca1\"\n[5] \"hca2\"[2] w=1 s=1\n\nHca 1 \"hca1\"\n\n"
        "Hca 2 \"hca2\"\n[2] \"sw\"[5]\n",
        "net");
    REQUIRE(topology);
    REQUIRE(topology->nodes.size() == 3);
    CHECK(topology->nodes[1].port(1).peer_node == 0);  // only the other end lists this link
    CHECK(topology->nodes[1].port(1).peer_port == 1);
    CHECK(topology->nodes[2].port(2).peer_port == 5);
    CHECK(topology->nodes[0].port(5).modes.width == 1);
    CHECK(topology->nodes[0].port(5).modes.speed == 1);
    CHECK(topology->nodes[1].guid != topology->nodes[2].guid);
    for (const TopologyNode& node : topology->nodes) {
        CHECK(node.guid.value() >> 56 == 0x06);
    }
    CHECK(topology->nodes[1].description == "hca1");
}

TEST_CASE("widths and speeds have names") {
    const auto modes = link_modes_of("12xNDR");
    REQUIRE(modes);
    CHECK(modes->width == 11);
    CHECK(modes->speed_ext == 15);
    CHECK(link_modes_of("4xFDR10")->speed_ext == 0);
    CHECK_FALSE(link_modes_of("3xSDR"));
    CHECK_FALSE(link_modes_of("4x"));
    CHECK_FALSE(link_modes_of("xQDR"));
}

TEST_CASE("a mistake in a topology is reported with its line") {
    struct Case {
        const char* text;
        const char* said;
    };
    const Case one = GENERATE(values<Case>({
        {"", "net: no node in it"},
        {"Swich 8 \"a\"\n", "net:1: expected Switch, Ca"},
        {"Switch x \"a\"\n", "net:1: expected the number of ports"},
        {"Switch 255 \"a\"\n", "net:1: expected the number of ports"},
        {"Switch 8 a\n", "net:1: expected the node's id in quotation marks"},
        {"Switch 8 \"a\n", "net:1: the quotation marks"},
        {"Switch 8 \"\"\n", "net:1: the quotation marks"},
        {"\n[1] \"a\"[2]\n", "net:2: a port outside of a node's record"},
        {"Switch 2 \"a\"\n[3] \"a\"[1]\n", "net:2: port 3 of a node that has 2 ports"},
        {"Switch 2 \"a\"\n[0] \"a\"[1]\n", "net:2: expected a port number"},
        {"Switch 2 \"a\"\n[1 \"a\"[1]\n", "net:2: expected a port number"},
        {"Switch 2 \"a\"\n[1] \"b\"[1]\n", "net:2: no node \"b\" in this file"},
        {"Switch 2 \"a\"\n[1] \"a\"[1]\n", "net:2: joins a port to itself"},
        {"Switch 2 \"a\"\n[1] \"a\"[7]\n", "net:2: \"a\" has 2 ports"},
        {"Switch 2 \"a\"\n[1] \"a\"[2]\n[1] \"a\"[2]\n", "net:3: port 1 is joined in line 2"},
        {"Switch 2 \"a\"\n\nSwitch 2 \"a\"\n", "net:3: the id \"a\" is already used in line 1"},
        {"Ca 1 \"a\"\n[1] \"b\"[1]\n\nCa 1 \"b\"\n", "net:2: joins two channel adapters"},
        {"Switch 2 \"a\"\n[1] \"b\"[1]\n\nSwitch 2 \"b\"\n[1] \"a\"[2]\n",
         "net:5: port 1 of \"b\" is joined to \"a\"[1]"},
        {"Switch 2 \"a\"\n[1](0) \"b\"[1]\n", "net:2: expected a GUID"},
        {"Switch 2 \"a\"\n[1] \"b\"[1] what\n", "net:2: expected w=MASK"},
        {"Switch 2 \"a\"\n[1] \"b\"[1] s=8\n", "net:2: s= is a mask of 1 to 7"},
        {"switchguid=1\nSwitch 2 \"a\"\n\nswitchguid=1\nSwitch 2 \"b\"\n",
         "net:5: the GUID 0x0000000000000001 is already used in line 2"},
        {"caguid=4\nCa 1 \"a\"\n\ncaguid=3\nCa 2 \"b\"\n", "net:5: the port GUID"},
        {"vendid=\n", "net:1: expected a number after vendid="},
        {"include \"x\"\n", "net:1: include is not supported"},
        {"Rt 2 \"r\"\n", "net:1: routers are not supported"},
    }));
    INFO(one.text);
    CHECK(error_of(one.text).starts_with(one.said));
}

TEST_CASE("each example topology is valid") {
    const char* folder = std::getenv("PIB_TOPOLOGIES");
    if (folder == nullptr) {
        SKIP("PIB_TOPOLOGIES is not set");
    }
    unsigned count = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        INFO(file.path());
        auto topology = load_topology(file.path());
        REQUIRE(topology);
        auto fabric = Fabric::make(std::move(*topology), {});
        REQUIRE(fabric);
        while ((*fabric)->deliver()) {
        }
        const auto ports_of = [](const Fabric::Node& node) {
            return node.phantom ? std::span(node.phantom->node().ports)
                                : std::span(node.sw->node().ports).subspan(1);
        };
        for (const Fabric::Node& node : (*fabric)->nodes()) {
            size_t up = 0;
            for (const ib::PortAttrs& port : ports_of(node)) {
                up += port.link_is_up() ? 1 : 0;
            }
            CHECK(up == node.links.size() -
                            static_cast<size_t>(std::ranges::count(node.links, Fabric::kNoLink)));
        }
        ++count;
    }
    CHECK(count >= 12);
    CHECK_FALSE(load_topology(std::string(folder) + "/none"));
}

TEST_CASE("the size of a topology is bounded") {
    CHECK(error_of(std::string(5000, '#')).starts_with("net:1: the line is longer"));
    CHECK(error_of("Switch 1 \"" + std::string(200, 'x') + "\"").find("127 bytes") !=
          std::string::npos);
    std::string many;
    for (size_t i = 0; i <= kMaxTopologyNodes; ++i) {
        many += "Switch 1 \"" + std::to_string(i) + "\"\n\n";
    }
    CHECK(error_of(many).find("more nodes") != std::string::npos);
}
