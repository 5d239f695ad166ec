// SPDX-License-Identifier: GPL-2.0-or-later
// Two hostile channel adapters that share memory with one switch: any frames, offers and pulls to
// any place, and writes to the shared memory. The memory has exactly the stated size, so that the
// sanitizer finds accesses beyond it.
#include <algorithm>
#include <array>
#include <memory>

#include "fuzz_target.h"
#include "link_parts.h"
#include "links/switch_endpoint.h"
#include "managed_switch.h"
#include "shared_memory.h"
#include "switch/switch.h"

namespace pib::fuzz {
namespace {

using namespace link;

constexpr unsigned kLinks = 2;
constexpr unsigned kMaxSteps = 256;
constexpr uint32_t kMtu = 256;
constexpr uint32_t kAll = kFeatureSharedMemory | kFeatureBursts | kFeaturePeerCopy;

fabric::SwitchConfig a_config() {
    fabric::SwitchConfig config;
    config.node_guid = ib::Guid(0x51);
    config.num_ports = kLinks;
    config.vl_cap = 1;
    return config;
}

// Memory that an adapter shares.
struct Shown {
    std::vector<uint64_t> blocks{40'000, 4096};
    size_t control_bytes = link::peer_copy_bytes(blocks);
    Aligned control = zeroed(control_bytes);
    Aligned ram[2] = {zeroed(blocks[0]), zeroed(blocks[1])};

    [[nodiscard]] std::shared_ptr<const fabric::AdapterMemory> view() {
        return std::make_shared<const fabric::AdapterMemory>(
            control.get(),
            std::vector<std::span<uint8_t>>{{ram[0].get(), blocks[0]}, {ram[1].get(), blocks[1]}},
            nullptr);
    }
};

class Adapter final : private fabric::SwitchEndpoint::Owner {
  public:
    Adapter(fabric::Switch& sw, unsigned index) : index_(index), link_(sw.admission(), *this) {
        Bytes bytes;
        append(bytes, Hello{.features = kAll,
                            .node_guid = ib::Guid(100 + index),
                            .port_guid = ib::Guid(200 + index),
                            .node_description = "node"});
        feed(bytes);
        link_.consume_output(link_.output().size());
        out_.emplace(rings_.ring(0));
        in_.emplace(rings_.ring(1));
        bytes.clear();
        append(bytes, make_parameters(1));
        write(bytes);
        bytes.clear();
        append(bytes, Credit{.vl = 0, .epoch = 1, .limit = 1 << 20});
        write(bytes);
        bytes.clear();
        append(bytes, Memory{shown_.blocks});
        feed(bytes);
        turn();
    }
    void write(std::span<const uint8_t> frame) {
        const auto room = out_->reserve(frame.size());
        if (!room.empty()) {
            std::ranges::copy(frame, room.begin());
            out_->commit(frame.size());
            out_->publish();
        }
    }
    void turn() {
        open_ = open_ && link_.receive(1 << 16).has_value();
        if (open_) {
            link_.copy(4096);
            (void)link_.publish();
        }
    }
    // Reads the frames of the switch, which must be whole.
    void read() {
        while (in_->available() != 0) {
            const auto header =
                parse_frame_header(std::span<const uint8_t, kHeaderSize>(in_->front(), 8));
            require(header.has_value(), "what the switch writes are frames");
            if (header->type == FrameType::kBurst && (header->flags & kFlagOffer) != 0) {
                require(ib::load_be<uint64_t>(in_->front() + 8 + ib::kBurstPayload) == ++offers_,
                        "offers are numbered");
            }
            in_->skip(kHeaderSize + header->length);
        }
        in_->give_back();
    }
    void offer(Input& in);
    void pull(Input& in);
    void scribble(Input& in) {
        const size_t lines = in.byte() % 4 == 0 ? shown_.control_bytes / 8 : 34;
        const size_t at = (in.byte() * 256U + in.byte()) % lines * 8;
        const auto value = in.take(8);
        std::ranges::copy(value, shown_.control.get() + at);
    }
    void register_all(bool are) {
        std::fill_n(shown_.control.get() + link::kBitmapsOffset, 128,
                    static_cast<uint8_t>(are ? 0xFF : 0));
    }
    [[nodiscard]] bool open() const { return open_; }

  private:
    // Segments of `bytes` bytes in all, inside or outside of the shared blocks.
    std::vector<link::BlockSegment> segments(Input& in, uint32_t bytes) {
        std::vector<link::BlockSegment> made;
        for (uint32_t left = bytes; left != 0;) {
            const uint32_t length =
                made.size() > 6 ? left : std::min<uint32_t>(left, 1 + in.byte() * 64U);
            const uint32_t block = in.byte() % 8;
            made.push_back({.offset = in.byte() * 160U,
                            .block = block == 7 ? kBounceBlock : block % 3,
                            .length = length});
            left -= length;
        }
        return made;
    }
    void feed(std::span<const uint8_t> bytes) {
        std::ranges::copy(bytes, link_.input_space().begin());
        open_ = open_ && link_.feed_input(bytes.size()).has_value();
    }
    std::optional<link::LinkRings> link_share() override {
        return link::LinkRings{.out = rings_.ring(1), .in = rings_.ring(0)};
    }
    std::expected<std::shared_ptr<const fabric::AdapterMemory>, std::string> link_map(
        const Memory&) override {
        return shown_.view();
    }
    void link_output_ready() override {}
    void link_note(const std::string&) override {}

    const unsigned index_;
    link::SharedMemory rings_ = link::SharedMemory::create(16).value();
    Shown shown_;
    std::optional<link::RingProducer> out_;
    std::optional<link::RingConsumer> in_;
    uint64_t offers_ = 0;
    bool open_ = true;
    fabric::SwitchEndpoint link_;
};

ib::PacketHeaders headers_of(unsigned from, uint32_t psn) {
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = ib::Vl(0),
                   .dlid = ib::Lid(static_cast<uint16_t>(2 - from)),
                   .slid = ib::Lid(static_cast<uint16_t>(1 + from))};
    headers.bth = {.opcode = ib::opcode::kRdmaWriteMiddle,
                   .pkey = ib::kDefaultPKey,
                   .dest_qp = ib::Qpn(9),
                   .psn = ib::Psn(psn)};
    return headers;
}

void Adapter::offer(Input& in) {
    const uint32_t packets = 2 + in.byte() % 100;
    const uint64_t handle = in.byte();
    if (handle % 4 != 3) {
        new (shown_.control.get() + 128 + 8 * (handle % 256)) uint64_t(handle);
    }
    const uint32_t bytes = packets * kMtu;
    const auto where = segments(in, bytes);
    const auto first = headers_of(index_, 7), last = headers_of(index_, 6 + packets);
    const auto size = ib::BurstBuilder::size(first, last, packets, kMtu, bytes);
    const size_t body = ib::kBurstPayload + offer_bytes(where.size());
    Bytes frame(kHeaderSize + body);
    std::ranges::copy(burst_header(body, kFlagOffer), frame.begin());
    const auto rest = std::span(frame).subspan(kHeaderSize);
    ib::BurstBuilder::headers(rest, *size, first, last, bytes);
    write_offer(rest.subspan(ib::kBurstPayload), handle, bytes, where);
    if (in.byte() % 16 == 0) {
        frame[in.byte() % frame.size()] = in.byte();
    }
    write(frame);
}

void Adapter::pull(Input& in) {
    const uint32_t length = 1 + in.byte() * 64U;
    Bytes frame;
    append(frame, Pull{.handle = in.byte() % 8U,
                       .sequence = in.byte(),
                       .offset = in.byte() % 4 * 64U,
                       .length = length,
                       .segments = segments(in, length)});
    write(frame);
}

void step(fabric::Switch& sw, std::array<std::unique_ptr<Adapter>, kLinks>& adapters, Input& in) {
    const uint8_t op = in.byte();
    const unsigned index = op % kLinks;
    auto& adapter = adapters[index];
    switch (op >> 1 & 7) {
        case 0:
            adapter->write(any_frame(in));
            break;
        case 1:
        case 2:
            adapter->offer(in);
            break;
        case 3:
            adapter->pull(in);
            break;
        case 4:
            adapter->scribble(in);
            break;
        case 5:
            adapter->register_all((op & 0x80) == 0);
            break;
        case 6:
            adapter->read();
            break;
        case 7:
            activate(sw, kLinks);
            break;
    }
    adapter->turn();
    if (!adapter->open() || op == 0xFF) {
        adapter.reset();
        adapter = std::make_unique<Adapter>(sw, index);
    }
}

}  // namespace

std::vector<Bytes> seeds() {
    const uint8_t up = 7 << 1, to = 5 << 1 | 1, from = 5 << 1;
    Bytes copied = {up, to, from};
    for (uint8_t i = 1; i < 6; ++i) {
        // An offer of two packets in two segments, and its pull to two other segments.
        copied.insert(copied.end(), {1 << 1, 0, i, 7, 0, 10, 1, 0, 20, 1});
        copied.insert(copied.end(), {3 << 1 | 1, 7, i, i, 0, 3, 0, 30, 4, 1, 5});
        copied.insert(copied.end(), {5 << 1 | 1, 5 << 1 | 1});
        copied.insert(copied.end(), {4 << 1 | 1, 1, 0, 9, i, 0, 0, 0, 0, 0, 0, 0, 6 << 1 | 1});
    }
    Bytes split = {to, from};
    for (uint8_t i = 1; i < 8; ++i) {
        split.insert(split.end(), {1 << 1, 98, i, 200, 0, i, 200, 0, i, 5});
    }
    return {copied, split, {0xFF, up, 0xFE}};
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    fabric::Switch sw(a_config());
    std::array<std::unique_ptr<Adapter>, kLinks> adapters;
    for (unsigned i = 0; i < kLinks; ++i) {
        adapters[i] = std::make_unique<Adapter>(sw, i);
    }
    for (unsigned i = 0; i < kMaxSteps && !in.empty(); ++i) {
        step(sw, adapters, in);
    }
    for (auto& adapter : adapters) {
        adapter.reset();
    }
    require(sw.held_packets() == 0, "packets go with their links");
}

}  // namespace pib::fuzz
