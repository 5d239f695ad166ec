// SPDX-License-Identifier: GPL-2.0-or-later
// Captures, read by tshark: this independent dissector has to find every packet whole, with the
// opcodes and attributes that were sent.
#include "pcap_tap.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <set>

#include "test_fabric.h"
#include "tshark.h"

namespace pib::test {
namespace {

constexpr const char* kOpcode = "infiniband.bth.opcode";
constexpr const char* kAttribute = "infiniband.mad.attributeid";
constexpr const char* kVcrc = "infiniband.variant.crc";

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        char name[] = "/tmp/pib-switch-test-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~TemporaryDirectory() {
        ::unlink(file().c_str());
        ::rmdir(path_.c_str());
    }
    [[nodiscard]] std::string file() const { return path_ + "/capture.pcap"; }

  private:
    std::string path_;
};

// Sends a packet of each known opcode from adapter to adapter, with a payload that is valid for the
// opcode; returns the number of packets.
unsigned send_every_opcode(TestFabric& fabric) {
    unsigned sent = 0;
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const auto* info = ib::find_opcode(static_cast<uint8_t>(opcode));
        // Opcodes that tshark dissects to the last byte; for RD, XRC and CNP it knows only the BTH.
        const bool known = info != nullptr &&
                           (info->service == ib::Service::kRc ||
                            info->service == ib::Service::kUc || info->service == ib::Service::kUd);
        if (!known) {
            continue;
        }
        ib::PacketHeaders headers{};
        headers.lrh.dlid = ib::Lid(2);
        headers.lrh.slid = ib::Lid(1);
        headers.lrh.lnh = opcode % 3 == 0 ? ib::Lnh::kIbaGlobal : ib::Lnh::kIbaLocal;
        if (headers.lrh.lnh == ib::Lnh::kIbaGlobal) {
            headers.grh = ib::Grh{};
            headers.grh->sgid = ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(1));
            headers.grh->dgid = ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(2));
        }
        headers.bth.opcode = static_cast<uint8_t>(opcode);
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(0x40);
        headers.deth = {.qkey = ib::QKey(0x11), .src_qp = ib::Qpn(0x41)};
        Bytes buffer(ib::kMaxPacket);
        size_t payload = 256;
        if (info->payload == ib::PayloadRule::kNone) {
            payload = 0;
        } else if (info->payload == ib::PayloadRule::kCnp) {
            payload = 16;
        }
        auto builder = ib::PacketBuilder::begin(buffer, headers, payload, ib::Crcs::kElided);
        REQUIRE(builder);
        const auto packet = builder->finish();
        REQUIRE(fabric.hca(0).send_packet({packet.begin(), packet.end()}));
        fabric.settle();
        ++sent;
    }
    return sent;
}

// FLUSH, ATOMIC WRITE and the masked atomics: newer than Wireshark 4.0, or in no standard.
const std::set<std::string> kNewOpcodes = {"28", "29", "211", "212"};

// Records a subnet manager's first sweep and a packet of each opcode; returns the number of these
// packets.
unsigned record(const std::string& file, fabric::PcapFormat format) {
    TestFabric fabric(3);
    auto tap = fabric::PcapTap::open(file, 1'700'000'000'000'000'000, format);
    REQUIRE(tap);
    fabric.sw.set_tap(tap->get());
    fabric.make_active();
    fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {}, {3});
    const unsigned opcodes = send_every_opcode(fabric);
    fabric.advance(2'000'000'000);
    fabric.sw.set_tap(nullptr);
    CHECK_FALSE((*tap)->failed());
    return opcodes;
}

}  // namespace

TEST_CASE("capture: tshark reads each packet unchanged") {
    if (!have_tshark()) {
        SKIP("tshark is not installed");
    }
    const auto format = GENERATE(fabric::PcapFormat::kInfiniBand, fabric::PcapFormat::kErf);
    const TemporaryDirectory directory;
    const unsigned opcodes = record(directory.file(), format);
    const auto packets = dissect(directory.file(), {kOpcode, kAttribute, kVcrc});
    std::map<std::string, unsigned> seen_opcodes, seen_attributes;
    for (Dissected packet : packets) {
        INFO(packet[kOpcode] << ' ' << packet[kAttribute]);
        CHECK(packet["_ws.malformed"].empty());
        // For unknown opcodes Wireshark reads only the BTH.
        CHECK((!packet[kVcrc].empty() || kNewOpcodes.contains(packet[kOpcode])));
        ++seen_opcodes[packet[kOpcode]];
        ++seen_attributes[packet[kAttribute]];
    }
    CHECK(packets.size() > opcodes + 20);
    CHECK(seen_opcodes.size() == opcodes);
    for (const char* attribute : {"0x0011", "0x0012", "0x0015", "0x0019", "0x0002"}) {
        INFO(attribute);
        CHECK(seen_attributes.contains(attribute));
    }
}

TEST_CASE("capture: a file that cannot be made is an error for the user") {
    const auto tap = fabric::PcapTap::open("/nonexistent/capture.pcap", 0);
    REQUIRE_FALSE(tap);
    CHECK(tap.error().find("/nonexistent/capture.pcap") != std::string::npos);
}

}  // namespace pib::test
