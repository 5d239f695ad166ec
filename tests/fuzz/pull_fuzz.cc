// SPDX-License-Identifier: GPL-2.0-or-later
// An adapter's end of a link with peer copy and a hostile switch: offers, frames, and answers to
// pulls that were or were not sent. The adapter accepts payload only after the switch has reported
// that it is there.
#include <algorithm>

#include "fuzz_target.h"
#include "ib/link/link_endpoint.h"
#include "ib/wire/field.h"
#include "link_parts.h"
#include "shared_memory.h"

namespace pib::fuzz {
namespace {

using namespace link;
using link::PullResult;

constexpr unsigned kMaxSteps = 256;
constexpr uint32_t kMtu = 256;
constexpr uint32_t kAll = kFeatureSharedMemory | kFeatureBursts | kFeaturePeerCopy;

class Adapter final : private link::LinkEvents {
  public:
    Adapter()
        : control_bytes_(link::peer_copy_bytes(blocks_)),
          control_(zeroed(control_bytes_)),
          end_(hello(), buffers(), *this) {
        end_.training().set_parameters(make_parameters(1, 0));
        end_.consume_output(end_.output().size());
        Bytes bytes;
        append(bytes, Welcome{.features = kAll, .switch_guid = ib::Guid(9), .port_number = 1});
        require(feed(end_, bytes).has_value(), "a WELCOME opens the link");
        end_.peer_copy().share(control_.get(), blocks_);
        require(!end_.output().empty(), "MEMORY is to be sent");
        end_.consume_output(end_.output().size());
        control().mapped = link::kMapped;
        bytes.clear();
        append(bytes, make_parameters(1));
        write(bytes);
        turn();
    }
    [[nodiscard]] link::PeerCopyControl& control() const {
        return *reinterpret_cast<link::PeerCopyControl*>(control_.get());
    }
    void write(std::span<const uint8_t> frame) {
        const auto room = out_.reserve(frame.size());
        if (!room.empty()) {
            std::ranges::copy(frame, room.begin());
            out_.commit(frame.size());
            out_.publish();
        }
    }
    void turn() {
        open_ = open_ && end_.receive(1 << 16).has_value();
        if (open_) {
            (void)end_.channel().publish();
            read();
        }
    }
    void answer(Input& in) {
        const uint8_t what = in.byte();
        const auto sequence = what % 8 == 0 ? in.byte() : sequence_;
        control().answer = link::pull_answer(sequence, static_cast<PullResult>(what >> 3 & 7));
    }
    void offer(Input& in);
    void act(Input& in) {
        const uint8_t what = in.byte();
        places_ = what & 3;
        stays_ = (what & 4) != 0;
        if ((what & 0xF8) == 0xF8) {
            end_.training().retrain();
        } else if ((what & 0x18) == 0x18) {
            (void)end_.peer_copy().cancel_pull();
        }
    }
    [[nodiscard]] bool open() const { return open_; }
    void finish() {
        end_.training().close();
        require(!up_, "a closed link is down");
    }

  private:
    static Hello hello() {
        return {.features = kAll,
                .node_guid = ib::Guid(1),
                .port_guid = ib::Guid(2),
                .node_description = "node"};
    }
    static link::LinkEndpoint::Buffers buffers() {
        link::LinkEndpoint::Buffers made;
        made.receive_blocks[0] = 4096;
        return made;
    }
    void read() {
        for (; in_.available() != 0;) {
            const auto header =
                parse_frame_header(std::span<const uint8_t, kHeaderSize>(in_.front(), 8));
            require(header.has_value(), "what the adapter writes are frames");
            if (header->type == FrameType::kPull) {
                const auto pull = Pull::parse({in_.front() + 8, header->length});
                require(pull.has_value(), "a PULL is one");
                require(pull->sequence == sequence_ + 1, "one after the other");
                for (const link::BlockSegment& segment : pull->segments) {
                    require(link::segment_fits(segment, blocks_, true),
                            "to the adapter's own memory");
                }
                sequence_ = pull->sequence;
            }
            in_.skip(kHeaderSize + header->length);
        }
        in_.give_back();
    }
    std::optional<link::LinkRings> link_rings() override {
        return link::LinkRings{.out = rings_.ring(0), .in = rings_.ring(1)};
    }
    void link_up(const link::ActiveLink&) override { up_ = true; }
    void link_down() override { up_ = false; }
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        require(up_, "packets only while up");
        if (payload.is_offered()) {
            return locate(burst, payload.where) ? burst.count() : 0;
        }
        if (!payload.is_here() && !take_pulled(payload.where)) {
            return 0;
        }
        end_.release(burst.lrh().vl.value(), link::burst_blocks(burst));
        return burst.count();
    }
    void link_packet_fault(link::PacketFault) override { require(up_, "faults only while up"); }
    bool locate(const ib::Burst& burst, std::vector<link::BlockSegment>& where) const {
        const auto bytes = static_cast<uint32_t>(burst.size().payload);
        if (places_ == 1) {
            where = {{.offset = 0, .block = 0, .length = 100},
                     {.offset = 4096, .block = 0, .length = bytes - 100}};
        } else if (places_ == 2) {
            where = {{.offset = 0, .block = 3, .length = bytes}};  // there is only block 0
        }
        return places_ != 0;
    }
    bool take_pulled(std::span<const link::BlockSegment> where) const {
        const uint64_t answer = control().answer;
        require(up_ && answer >> 8 >= sequence_ &&
                    (answer & 0xFF) == static_cast<unsigned>(PullResult::kDone),
                "only what the switch says is there");
        require(where.size() == 2, "where it was said to go");
        return stays_;
    }

    const std::vector<uint64_t> blocks_{1 << 20};
    size_t control_bytes_;
    Aligned control_;
    link::SharedMemory rings_ = link::SharedMemory::create(16).value();
    link::RingProducer out_{rings_.ring(1)};
    link::RingConsumer in_{rings_.ring(0)};
    link::LinkEndpoint end_;
    uint64_t next_ = 1;
    uint32_t sequence_ = 0;
    uint8_t places_ = 1;
    bool stays_ = true;
    bool up_ = false;
    bool open_ = true;
};

void Adapter::offer(Input& in) {
    const uint32_t packets = 2 + in.byte() % 200;
    const uint8_t damage = in.byte();
    const uint64_t handle = damage == 1 ? in.byte() : next_++;
    ib::PacketHeaders first{};
    first.lrh = {.vl = ib::Vl(0), .dlid = ib::Lid(1), .slid = ib::Lid(2)};
    first.bth = {.opcode = ib::opcode::kRdmaWriteMiddle,
                 .pkey = ib::kDefaultPKey,
                 .dest_qp = ib::Qpn(9),
                 .psn = ib::Psn(7)};
    auto last = first;
    last.bth.psn = ib::Psn(6 + packets);
    const uint32_t bytes = packets * kMtu;
    const auto size = ib::BurstBuilder::size(first, last, packets, kMtu, bytes);
    Bytes frame(kHeaderSize + ib::kBurstPayload + offer_bytes(0));
    std::ranges::copy(burst_header(frame.size() - kHeaderSize, kFlagOffer), frame.begin());
    const auto body = std::span(frame).subspan(kHeaderSize);
    ib::BurstBuilder::headers(body, *size, first, last, bytes);
    write_offer(body.subspan(ib::kBurstPayload), handle, bytes, {});
    if (damage == 2) {
        frame[in.byte() % frame.size()] = in.byte();
    }
    write(frame);
}

}  // namespace

std::vector<Bytes> seeds() {
    Bytes placed, moved, bounced, ended;
    for (uint8_t i = 0; i < 5; ++i) {
        placed.insert(placed.end(), {1, 7, 0, 2, 1 << 3 | 1, 4});
        // A pull that is cancelled, repeated, and answered by GONE.
        moved.insert(moved.end(), {1, 100, 0, 3, 0x18 | 5, 2, 3 << 3 | 1, 4, 2, 2 << 3 | 1, 4});
        // The target changes before the answer.
        bounced.insert(bounced.end(), {1, 0, 0, 3, 1, 2, 1 << 3 | 1, 4, 2, 1 << 3 | 1, 4});
        ended.insert(ended.end(), {1, 9, 0, 3, 0xFD, 2, 1 << 3 | 1, 4, 2, 4 << 3 | 1, 4});
    }
    return {placed, moved, bounced, ended};
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    Adapter adapter;
    for (unsigned i = 0; i < kMaxSteps && !in.empty() && adapter.open(); ++i) {
        switch (in.byte() % 5) {
            case 0:
                adapter.write(any_frame(in));
                break;
            case 1:
                adapter.offer(in);
                break;
            case 2:
                adapter.answer(in);
                break;
            case 3:
                adapter.act(in);
                break;
            case 4:
                break;
        }
        adapter.turn();
    }
    adapter.finish();
}

}  // namespace pib::fuzz
