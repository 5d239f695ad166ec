// SPDX-License-Identifier: GPL-2.0-or-later
// The ports of an HCA without its other parts: with a fake host, a client that records packets, and
// a switch's end of the link as the peer, through which tests send and receive.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "commands/port_operations.h"
#include "fake_host.h"
#include "ib/wire/packet.h"
#include "link_pair.h"
#include "port/hca_port.h"
#include "port/hca_ports.h"
#include "queues/eq.h"

namespace pib::hca::test {

using Bytes = std::vector<uint8_t>;

// Header fields of a packet with a MAD that tests vary.
struct MadPacket {
    bool vl15 = true;
    uint16_t dlid = ib::Lid::kPermissiveValue;
    uint16_t slid = ib::Lid::kPermissiveValue;
    uint8_t sl = 0;
    uint8_t vl = 0;  // unless vl15
    uint32_t dest_qp = 0;
    uint32_t src_qp = 0;
    uint16_t pkey = 0xffff;
    uint32_t qkey = 0;
    uint8_t opcode = ib::opcode::kUdSendOnly;
    std::optional<ib::Grh> grh{};
    size_t bytes = ib::kMadSize;
};
Bytes make_packet(const MadPacket& ends, const ib::Mad& mad);
// Headers of a GMP to QP1 of `dlid` from a management node with LID 2.
MadPacket gmp_to(uint16_t dlid);

ib::Mad make_mad(ib::MgmtClass mgmt_class, ib::Method method, uint16_t attribute,
                 uint32_t modifier = 0);
// A directed-route SMP as it arrives at a node one hop away.
ib::Mad make_dr_smp(ib::Method method, uint16_t attribute, uint32_t modifier = 0);
ib::Mad mad_of(std::span<const uint8_t> packet);

class RecordingClient : public PortClient {
  public:
    std::vector<Bytes> packets;
    unsigned ready = 0;
    unsigned changed = 0;
    std::function<void(const ib::PacketView&)> on_packet;
    uint64_t copies = 0;  // bytes that each packet adds to take_copied()

    uint64_t take_copied() override { return std::exchange(copied_, 0); }
    uint32_t burst_in(unsigned, const ib::Burst& burst, ib::Placement&) override {
        if (!burst.is_single()) {
            return 0;
        }
        packets.emplace_back(burst.bytes().size());
        burst.bytes().copy_to(packets.back());
        copied_ += copies;
        if (on_packet) {
            on_packet(burst.first());
        }
        return 1;
    }
    void port_ready(unsigned) override { ++ready; }
    void port_changed(unsigned) override { ++changed; }

  private:
    uint64_t copied_ = 0;
};

class PortBench : private EqTable::Events {
  public:
    static constexpr uint16_t kLid = 0x10;
    static constexpr uint16_t kSmLid = 2;

    explicit PortBench(const Config& config = default_config());
    static Config default_config();

    FakeHost host;
    EqTable eqs;
    Counters counters;
    HcaPorts ports;
    RecordingClient client;
    ::pib::test::LinkRecorder peer_events;
    std::optional<link::LinkEndpoint> peer;
    std::string peer_error;

    HcaPort& port() { return *ports.find(1); }
    ib::PortAttrs& attrs() { return ports.sma().port(1); }
    ib::PortCounters& pma() { return ports.pma().port(1); }
    ib::PortState state() { return attrs().state(); }
    uint64_t counter(ib::Counter which) { return pma().value(which); }

    // Connects port 1 to a new peer that grants `blocks` credit blocks to each VL, but at most
    // `blocks_of_vl1` to VL 1. Afterwards the port is in Initialize.
    void connect(uint32_t blocks = 1024, uint32_t blocks_of_vl1 = UINT32_MAX);
    void disconnect();
    // Calls connect(), then sets LID, SM LID, Armed and Active as a subnet manager does.
    void bring_up(uint32_t blocks = 1024, uint32_t blocks_of_vl1 = UINT32_MAX);
    // Sends a directed-route Set(PortInfo) with the present PortInfo, changed by `change`; returns
    // the status of the reply.
    template <typename Change>
    uint16_t set_port_info(Change&& change) {
        ib::Mad smp = make_dr_smp(ib::Method::kSet, ib::attr::kPortInfo, 1);
        std::ranges::copy(attrs().info, smp.smp_data().begin());
        ib::set(smp.smp_data(), ib::port_info::kPortState, 0);
        ib::set(smp.smp_data(), ib::port_info::kPortPhysicalState, 0);
        change(smp.smp_data());
        return ask(smp).status();
    }
    // Sends a directed-route SMP and returns the reply, which must come.
    ib::Mad ask(const ib::Mad& smp);

    // Sends a packet from the peer to the port, then calls pump().
    void inject(const Bytes& packet);
    void inject(const MadPacket& ends, const ib::Mad& mad) { inject(make_packet(ends, mad)); }
    // Carries bytes both ways and runs the device until nothing moves.
    void pump();
    void advance(uint64_t ns);  // moves the clock past timers that are due
    // Packets that the peer has received since the last call.
    std::vector<Bytes> take_sent() { return std::exchange(peer_events.packets, {}); }
    std::vector<ib::Mad> take_sent_mads();
    std::vector<Bytes> take_delivered() { return std::exchange(client.packets, {}); }
    // Returns the PORT_EVENT flags of all events since the last call, or-ed, and stores the number
    // of these events in last_event_count.
    uint32_t take_events();
    unsigned last_event_count = 0;

    // Sends a UD packet of `payload` bytes to `dlid`; false if the port does not accept it.
    bool send_data(uint16_t dlid, size_t payload = 64, uint8_t sl = 0, uint8_t static_rate = 0);

  private:
    void eq_fatal(uint32_t) override { FAIL("event queue failed"); }
    void interrupt_raised(const RaisedInterrupt&) override {}

    uint64_t eq_addr_ = 0;
    uint32_t eq_consumer_ = 0;
};

// MODIFY_PORT as a driver does it when an SM starts in the guest.
inline Verdict announce_sm(PortBench& bench) {
    pib_hca_modify_port in{};
    in.set_capability_mask = ib::port_cap::kIsSm;
    return modify_port(bench.ports, 1, in, bench.host.clock_ns);
}

}  // namespace pib::hca::test
