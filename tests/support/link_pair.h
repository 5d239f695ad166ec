// SPDX-License-Identifier: GPL-2.0-or-later
// Two link endpoints joined by memory, and packets to send over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ib/link/link_endpoint.h"

namespace pib::test {

using Bytes = std::vector<uint8_t>;

inline link::Hello make_hello(uint64_t guid, uint8_t port = 1) {
    return {.role = link::Role::kChannelAdapter,
            .port_number = port,
            .node_guid = ib::Guid(guid),
            .port_guid = ib::Guid(guid + port),
            .node_description = "test node"};
}

inline link::Link make_parameters(bool up = true) {
    return {.up = up,
            .width_enabled = 3,
            .speed_enabled = 7,
            .speed_ext_enabled = 3,
            .mtu_cap = 5,
            .vl_cap = 2};
}

inline link::LinkEndpoint::Buffers make_buffers(uint32_t blocks = 1024) {
    link::LinkEndpoint::Buffers buffers;
    buffers.receive_blocks[0] = buffers.receive_blocks[1] = blocks;
    return buffers;
}

// A UD SEND of `payload` bytes (a multiple of 4), LRH to padding, without checksums.
inline Bytes make_packet(unsigned vl, uint16_t dlid, size_t payload, uint16_t slid = 1,
                         uint8_t sl = 0) {
    Bytes out(ib::kMaxPacket);
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = ib::Vl(static_cast<uint8_t>(vl)),
                   .sl = ib::Sl(sl),
                   .lnh = ib::Lnh::kIbaLocal,
                   .dlid = ib::Lid(dlid),
                   .slid = ib::Lid(slid)};
    headers.bth.opcode = ib::opcode::kUdSendOnly;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(0x123);
    auto builder = ib::PacketBuilder::begin(out, headers, payload, ib::Crcs::kElided);
    std::ranges::fill(builder->payload(), static_cast<uint8_t>(payload));
    const auto packet = builder->finish();
    return {packet.begin(), packet.end()};
}

// Records an endpoint's calls to its port. Releases receive buffer at once, unless `hold` is set.
struct LinkRecorder : link::LinkEvents {
    link::LinkEndpoint* endpoint = nullptr;
    std::vector<link::Hello> hellos;
    std::vector<link::Welcome> welcomes;
    std::vector<link::Refuse> refusals;
    std::vector<link::PacketFault> faults;
    std::vector<Bytes> packets;
    std::vector<std::pair<unsigned, uint32_t>> held;  // VL and credit blocks of each packet
    link::HelloAnswer answer = link::Welcome{.switch_guid = ib::Guid(0x5), .port_number = 1};
    unsigned ups = 0;
    unsigned downs = 0;
    bool hold = false;

    link::HelloAnswer link_hello(const link::Hello& hello) override {
        hellos.push_back(hello);
        return answer;
    }
    void link_welcome(const link::Welcome& welcome) override { welcomes.push_back(welcome); }
    void link_refused(const link::Refuse& refusal) override { refusals.push_back(refusal); }
    void link_up(const link::ActiveLink&) override { ++ups; }
    void link_down() override { ++downs; }
    // Takes single packets. The endpoint delivers a refused burst packet by packet.
    uint32_t link_burst(ib::Burst& burst, ib::Placement&) override {
        if (!burst.is_single()) {
            return 0;
        }
        packets.emplace_back(burst.bytes().size());
        burst.bytes().copy_to(packets.back());
        if (hold) {
            held.emplace_back(burst.lrh().vl.value(), link::burst_blocks(burst));
        } else {
            endpoint->release(burst.lrh().vl.value(), link::burst_blocks(burst));
        }
        return 1;
    }
    void link_packet_fault(link::PacketFault fault) override { faults.push_back(fault); }
    void release_all() {
        for (const auto& [vl, blocks] : held) {
            endpoint->release(vl, blocks);
        }
        held.clear();
    }
};

// A PACKET frame, for a peer that ignores its credits.
inline Bytes packet_frame(const Bytes& packet) {
    const auto header = link::packet_header(packet.size(), true);
    Bytes frame(header.begin(), header.end());
    frame.insert(frame.end(), packet.begin(), packet.end());
    return frame;
}

inline bool send(link::LinkEndpoint& from, const Bytes& packet,
                 link::SendCrc crc = link::SendCrc::kElided) {
    const unsigned vl = packet[0] >> 4;
    const auto room = from.begin({.vl = vl, .longest = packet.size(), .crc = crc});
    if (room.packets == 0) {
        return false;
    }
    std::ranges::copy(packet, room.bytes().begin());
    from.commit(ib::BurstSize::of(packet.size()));
    return true;
}

// A switch's and an HCA's end of one connection.
struct LinkPair {
    LinkRecorder hca_events, switch_events;
    link::LinkEndpoint hca, sw;
    std::string error;  // error of the side that failed

    explicit LinkPair(const link::LinkEndpoint::Buffers& buffers = make_buffers())
        : hca(make_hello(0x100), buffers, hca_events), sw(buffers, switch_events) {
        hca_events.endpoint = &hca;
        switch_events.endpoint = &sw;
    }
    // Carries bytes both ways, `chunk` at a time, until none are left.
    void pump(size_t chunk = SIZE_MAX) {
        while (error.empty() && (carry(hca, sw, chunk) || carry(sw, hca, chunk))) {
        }
    }
    bool carry(link::LinkEndpoint& from, link::LinkEndpoint& to, size_t chunk = SIZE_MAX) {
        const auto out = from.output();
        const size_t n = std::min(out.size(), chunk);
        const Bytes bytes(out.begin(), out.begin() + static_cast<ptrdiff_t>(n));
        from.consume_output(n);
        if (auto fed = feed(to, bytes); !fed) {
            error = std::string(to_string(fed.error().error)) + ": " + fed.error().text;
        }
        return n != 0;
    }
    void bring_up() {
        hca.training().set_parameters(make_parameters());
        sw.training().set_parameters(make_parameters());
        pump();
    }
};

}  // namespace pib::test
