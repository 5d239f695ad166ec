// SPDX-License-Identifier: GPL-2.0-or-later
// Three hostile neighbours of one switch. The input is a sequence of steps: bytes or packets to a
// link, time, reading the output, reconnecting, faults, settings of a subnet manager.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>

#include "fuzz_target.h"
#include "link_parts.h"
#include "links/switch_endpoint.h"
#include "managed_switch.h"
#include "switch/switch.h"

namespace pib::fuzz {
namespace {

using namespace link;

constexpr unsigned kLinks = 3;
constexpr unsigned kMaxSteps = 256;

fabric::SwitchConfig a_config() {
    fabric::SwitchConfig config;
    config.node_guid = ib::Guid(0x51);
    config.num_ports = 4;
    config.vl_cap = 2;
    config.receive_blocks = 256;
    return config;
}

// A neighbour: sends HELLO, LINK and credits by itself; all other frames come from the input.
class Neighbour final : private fabric::SwitchEndpoint::Owner {
  public:
    Neighbour(fabric::Switch& sw, unsigned index) : link_(sw.admission(), *this) {
        Bytes bytes;
        append(bytes, Hello{.role = Role::kChannelAdapter,
                            .port_number = 1,
                            .node_guid = ib::Guid(100 + index),
                            .port_guid = ib::Guid(200 + index),
                            .node_description = "node"});
        append(bytes, make_parameters(2));
        append(bytes, Credit{.vl = 0, .epoch = 1, .limit = 200});
        feed(bytes);
    }
    void feed(std::span<const uint8_t> bytes) {
        while (!bytes.empty() && open_) {
            const auto space = link_.input_space();
            const auto head = bytes.first(std::min(bytes.size(), space.size()));
            std::ranges::copy(head, space.begin());
            bytes = bytes.subspan(head.size());
            open_ = link_.feed_input(head.size()).has_value();
        }
    }
    void read() {
        while (!link_.output().empty()) {
            const auto space = reader_.space();
            const size_t n = std::min(space.size(), link_.output().size());
            std::copy_n(link_.output().begin(), n, space.begin());
            reader_.commit(n);
            link_.consume_output(n);
            check_frames();
        }
    }
    [[nodiscard]] bool open() const { return open_; }

  private:
    void check_frames() {
        auto frame = reader_.next();
        for (; frame && *frame; frame = reader_.next()) {
            if ((*frame)->type == FrameType::kPacket && (*frame)->crc_elided()) {
                const auto lrh = ib::parse_lrh((*frame)->body, ib::Crcs::kElided);
                require(lrh.has_value(), "what a switch forwards is a packet");
                require(lrh->vl == ib::kVl15 || lrh->vl.value() < 2, "on a VL that there is");
            }
        }
        require(frame.has_value(), "output is well-formed");
    }
    void link_output_ready() override {}
    void link_note(const std::string& text) override {
        require(!text.empty(), "a note says something");
    }

    fabric::SwitchEndpoint link_;
    FrameReader reader_;
    bool open_ = true;
};

// The state that a subnet manager leaves: LIDs 1 to 3, multicast 0xC000 everywhere, ports Active.
void set_up_subnet(fabric::Switch& sw) {
    std::array<uint8_t, ib::kSmpDataSize> members{};
    members[1] = 0xFF;
    (void)sw.node().mft.write_block(0, 0, members);
    sw.node().port0().set(ib::port_info::kLid, 50);
    sw.node().port0().set(ib::port_info::kMasterSmLid, 1);
    activate(sw, kLinks);
}

fabric::FaultSpec some_faults(Input& in) {
    return {.drop = in.byte() / 512.0,
            .duplicate = in.byte() / 512.0,
            .reorder = in.byte() / 512.0,
            .corrupt = in.byte() / 512.0,
            .delay_ns = in.byte() * 100'000ULL,
            .seed = in.byte(),
            .vl15 = true};
}

class Bench {
  public:
    Bench() : sw_(a_config()) {
        for (unsigned i = 0; i < kLinks; ++i) {
            reconnect(i);
        }
    }
    void step(Input& in) {
        const uint8_t op = in.byte();
        const unsigned index = (op & 3) % kLinks;
        auto& neighbour = neighbours_[index];
        switch (op >> 2 & 7) {
            case 0:
                neighbour->feed(in.take(in.byte() * 2U));
                break;
            case 1:
            case 2: {
                Bytes frame;
                const auto packet = in.take(8 + in.byte() * 2U);
                if (packet.size() >= 8) {
                    append_packet(frame, packet, (op & 0x80) == 0);
                    neighbour->feed(frame);
                }
                break;
            }
            case 3:
                now_ns_ += uint64_t{in.byte()} << 20;
                sw_.advance(now_ns_);
                break;
            case 4:
                neighbour->read();
                break;
            case 5:
                reconnect(index);
                break;
            case 6:
                set_up_subnet(sw_);
                break;
            case 7:
                (op & 0x80 ? sw_.port(index + 1).ingress_faults()
                           : sw_.port(index + 1).egress_faults())
                    .set(some_faults(in));
                break;
        }
        if (!neighbour->open()) {
            reconnect(index);
        }
        // Credits bound data packets; queues bound packets of VL15.
        require(sw_.held_packets() <= 3 * 2 * 256 + 3 * 1024 + 8192, "held packets are bounded");
    }
    void finish() {
        for (auto& neighbour : neighbours_) {
            neighbour.reset();
        }
        require(sw_.held_packets() == 0, "packets go with their links");
    }

  private:
    // Closes the old link first: a switch refuses a second link with the same GUID.
    void reconnect(unsigned index) {
        neighbours_[index].reset();
        neighbours_[index] = std::make_unique<Neighbour>(sw_, index);
    }

    fabric::Switch sw_;
    std::array<std::unique_ptr<Neighbour>, kLinks> neighbours_;
    uint64_t now_ns_ = 1;
};

Bytes packet(uint8_t vl, uint16_t dlid, size_t bytes) {
    Bytes out(bytes, 0x55);
    ib::Lrh{.vl = ib::Vl(vl),
            .dlid = ib::Lid(dlid),
            .pkt_len = static_cast<uint16_t>(bytes / 4 + 1),
            .slid = ib::Lid(1)}
        .write(std::span(out).first<8>());
    out[8] = ib::opcode::kUdSendOnly;
    out[9] = 0;
    out[12] = out[13] = out[14] = out[15] = 0;
    return out;
}

// A directed-route Get along `path`.
Bytes smp(std::vector<uint8_t> path, uint8_t method, uint16_t attribute) {
    Bytes out = packet(15, 0xFFFF, 28 + ib::kMadSize);
    ib::Mad mad;
    mad.bytes[0] = 1;
    mad.bytes[1] = 0x81;
    mad.bytes[2] = 1;
    mad.bytes[3] = method;
    mad.bytes[6] = 1;
    mad.bytes[7] = static_cast<uint8_t>(path.size());
    mad.set(ib::mad_header::kAttributeId, attribute);
    mad.set(ib::smp::kDrSlid, 0xFFFF);
    mad.set(ib::smp::kDrDlid, 0xFFFF);
    std::ranges::copy(path, initial_path(mad).begin() + 1);
    std::ranges::copy(mad.bytes, out.begin() + 28);
    return out;
}

void add_packet(Bytes& to, unsigned link, const Bytes& packet) {
    to.push_back(static_cast<uint8_t>(1 << 2 | link));
    to.push_back(static_cast<uint8_t>((packet.size() - 8) / 2));
    std::ranges::copy(packet, std::back_inserter(to));
}

}  // namespace

std::vector<Bytes> seeds() {
    Bytes data = {6 << 2};
    for (unsigned i = 0; i < 8; ++i) {
        add_packet(data, i % kLinks, packet(0, static_cast<uint16_t>(1 + (i + 1) % 3), 256));
        add_packet(data, i % kLinks, packet(0, 0xC000, 64));
    }
    for (const uint8_t step : {4 << 2, 4 << 2 | 1, 3 << 2, 200, 5 << 2 | 1, 3 << 2, 50}) {
        data.push_back(step);
    }
    Bytes management;
    add_packet(management, 0, smp({1}, 1, ib::attr::kNodeInfo));
    add_packet(management, 0, smp({1}, 2, ib::attr::kPortInfo));
    add_packet(management, 0, smp({1, 2}, 1, ib::attr::kNodeInfo));
    add_packet(management, 1, smp({1, 1}, 2, ib::attr::kLinearForwardingTable));
    for (const uint8_t step : {4 << 2, 4 << 2 | 1}) {
        management.push_back(step);
    }
    Bytes faults = {6 << 2, 7 << 2 | 1, 50, 50, 50, 50, 9, 1};
    for (unsigned i = 0; i < 12; ++i) {
        add_packet(faults, 0, packet(0, 2, 128));
    }
    faults.insert(faults.end(), {3 << 2, 100, 4 << 2 | 1});
    return {data, management, faults};
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    Bench bench;
    for (unsigned step = 0; step < kMaxSteps && !in.empty(); ++step) {
        bench.step(in);
    }
    bench.finish();
}

}  // namespace pib::fuzz
