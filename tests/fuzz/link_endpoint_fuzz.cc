// SPDX-License-Identifier: GPL-2.0-or-later
// A hostile peer of one end of a fabric link: it sends suitable frames, corrupted frames and bytes
// (link_steps.h). The first byte chooses the side and the lengths of reads. Between steps the end
// under test sends, retrains and releases buffer.
#include <algorithm>
#include <iterator>
#include <utility>

#include "fuzz_target.h"
#include "ib/link/link_endpoint.h"
#include "ib/link/packet_checksums.h"
#include "link_parts.h"
#include "link_steps.h"

namespace pib::fuzz {
namespace {

using namespace link;

constexpr uint32_t kBlocks = 256;
constexpr unsigned kMaxSteps = 128;

Hello a_hello() {
    return {.role = Role::kChannelAdapter,
            .port_number = 1,
            .node_guid = ib::Guid(1),
            .port_guid = ib::Guid(2),
            .node_description = "node"};
}

// Checks the endpoint's promises to its port. Holds the buffer of every other packet for a while.
class Port final : public link::LinkEvents {
  public:
    link::LinkEndpoint* end = nullptr;

    link::HelloAnswer link_hello(const Hello& hello) override {
        require(!greeted_, "one HELLO");
        greeted_ = true;
        if (hello.port_number == 13) {
            return std::unexpected(Refuse{RefuseReason::kNoFreePort, "no"});
        }
        return Welcome{.switch_guid = ib::Guid(3), .port_number = 1};
    }
    void link_up(const link::ActiveLink& active) override {
        require(!up_, "up once");
        require(active.width != 0, "a link has a width");
        up_ = true;
    }
    void link_down() override {
        require(up_, "down once");
        up_ = false;
    }
    uint32_t link_burst(ib::Burst& packet, ib::Placement&) override {
        if (!packet.is_single()) {
            return 0;
        }
        require(up_, "packets only while up");
        require(packet.bytes().size() + 4 == packet.lrh().pkt_len * 4U, "a packet has its length");
        require(packet.lrh().pkt_len * 4U <= 4096 + 124, "a packet fits the MTU");
        const unsigned vl = packet.lrh().vl.value();
        if (vl == link::kVl15) {
            require(link::burst_blocks(packet) == 0, "VL15 has no credits");
            return 1;
        }
        require(vl < 2, "data only on VLs that have buffer");
        held_[vl] += link::burst_blocks(packet);
        require(held_[vl] <= kBlocks, "no more than was granted");
        if ((packet.bytes().head().back() & 1) == 0) {
            release();
        }
        return 1;
    }
    void link_packet_fault(link::PacketFault) override { require(up_, "faults only while up"); }
    void release() {
        for (unsigned vl = 0; vl < 2; ++vl) {
            end->release(vl, std::exchange(held_[vl], 0));
        }
    }
    [[nodiscard]] bool up() const { return up_; }

  private:
    bool greeted_ = false;
    bool up_ = false;
    std::array<uint32_t, 2> held_{};
};

// The output must be frames that the protocol allows.
void check_output(link::LinkEndpoint& end, FrameReader& reader) {
    while (!end.output().empty()) {
        const auto space = reader.space();
        const size_t n = std::min(space.size(), end.output().size());
        std::copy_n(end.output().begin(), n, space.begin());
        end.consume_output(n);
        reader.commit(n);
        auto frame = reader.next();
        for (; frame && *frame; frame = reader.next()) {
        }
        require(frame.has_value(), "output is well-formed");
    }
}

void act(link::LinkEndpoint& end, Port& port, uint8_t action) {
    const unsigned vl = action & 1 ? link::kVl15 : action >> 1 & 1;
    const size_t bytes = 28 + (action >> 2) * 4U;
    const auto crc = static_cast<link::SendCrc>(action % 2);
    const bool possible = end.sender().can_send(vl, bytes, crc);
    const auto room = end.begin({.vl = vl, .longest = bytes, .crc = crc});
    require((room.packets != 0) == possible, "can_send() and begin() agree");
    if (room.packets != 0) {
        std::ranges::fill(room.bytes(), action);
        end.commit(ib::BurstSize::of(bytes));
    }
    if (action == 200) {
        end.training().retrain();
    } else if (action == 201) {
        auto parameters = make_parameters(2);
        parameters.up = !port.up();
        end.training().set_parameters(parameters);
    } else if (action % 4 == 3) {
        port.release();
    }
}

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> all;
    for (const uint8_t first : {0xff, 0xfe, 3, 2}) {
        Bytes bytes = {first};
        for (auto steps : {LinkSteps::opening(first % 2 == 0), LinkSteps::packets()}) {
            for (const Bytes& step : steps) {
                std::ranges::copy(step, std::back_inserter(bytes));
                bytes.push_back(2);  // an action
            }
        }
        bytes.insert(bytes.end(), {2, 0, 200, 2, 1, 201, 2, 1, 3});
        all.push_back(bytes);
    }
    return all;
}

namespace {

LinkSteps::Peer a_peer() {
    return {.hello = a_hello(), .welcome = {.switch_guid = ib::Guid(9), .port_number = 4}};
}

// Feeds the bytes in reads; false: the end has failed.
bool feed_in_reads(link::LinkEndpoint& end, Port& port, std::span<const uint8_t> bytes,
                   size_t chunk) {
    while (!bytes.empty()) {
        const auto head = bytes.first(std::min(chunk, bytes.size()));
        bytes = bytes.subspan(head.size());
        const auto fed = feed(end, head);
        if (!fed) {
            require(!fed.error().text.empty(), "every failure has a text");
            require(!port.up(), "a failed link is down");
            return false;
        }
        require(end.is_up() == port.up(), "both know whether the link is up");
    }
    return true;
}

}  // namespace

void run(std::span<const uint8_t> input) {
    Input in(input);
    const uint8_t first = in.byte();
    const size_t chunk = 1 + (first >> 1) * 32U;
    link::LinkEndpoint::Buffers buffers;
    buffers.receive_blocks[0] = buffers.receive_blocks[1] = kBlocks;
    Port port;
    std::optional<link::LinkEndpoint> end;
    if (first % 2 != 0) {
        end.emplace(buffers, port);
    } else {
        end.emplace(a_hello(), buffers, port);
    }
    port.end = &*end;
    end->training().set_parameters(make_parameters(2));
    LinkSteps steps(a_peer());
    FrameReader reader;
    for (unsigned step = 0; step < kMaxSteps && !in.empty(); ++step) {
        if (!feed_in_reads(*end, port, steps.next(in), chunk)) {
            return;
        }
        const uint8_t action = in.byte();
        act(*end, port, action);
        if (action % 3 != 0) {
            check_output(*end, reader);
        }
    }
    end->training().close();
    require(!port.up(), "a closed link is down");
}

}  // namespace pib::fuzz
