// SPDX-License-Identifier: GPL-2.0-or-later
// Offers of a port over a link in shared memory, and a link that closes during an offer.
#include <deque>

#include "link_pair.h"
#include "memory/peer_copy.h"
#include "port_bench.h"
#include "shared_memory.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kMtu = 4096;
constexpr uint32_t kPackets = 16;
constexpr uint16_t kFar = 0x20;

// The switch's end of a link: takes offers and copies nothing.
struct SwitchEnd : ::pib::test::LinkRecorder {
    SwitchEnd() : memory(link::SharedMemory::create(link::SharedMemory::kMinLogRing).value()) {
        answer->features =
            link::kFeatureSharedMemory | link::kFeatureBursts | link::kFeaturePeerCopy;
        link::LinkEndpoint::Buffers buffers;
        std::ranges::fill(buffers.receive_blocks, 1024);
        end.emplace(buffers, *this);
        endpoint = &*end;
        end->training().set_parameters({.up = true,
                                        .width_enabled = 3,
                                        .speed_enabled = 7,
                                        .speed_ext_enabled = 15,
                                        .mtu_cap = 5,
                                        .vl_cap = 4});
    }
    std::optional<link::LinkRings> link_rings() override {
        return link::LinkRings{.out = memory.ring(1), .in = memory.ring(0)};
    }
    std::expected<std::span<uint8_t>, std::string> link_memory(const link::Memory&) override {
        return room;
    }
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        offers += payload.is_offered() ? 1 : 0;
        end->release(burst.lrh().vl.value(), link::burst_blocks(burst));
        return burst.count();
    }

    link::SharedMemory memory;
    std::vector<uint8_t> room = std::vector<uint8_t>(link::kOfferRoom);
    std::optional<link::LinkEndpoint> end;
    unsigned offers = 0;
};

// A port with peer copy, and the links that it has had.
class CopyBench : private EqTable::Events {
  public:
    CopyBench()
        : eqs_(host, *this, Limits::kEqs, PIB_HCA_MAX_VECTORS),
          mpt_(host, 16, 16),
          copy(host, mpt_, kMtu),
          ports_(PortBench::default_config(), host, eqs_, counters, &copy) {
        ports_.set_client(client);
    }
    // Opens a link, shares memory over it, and brings the port to Active.
    void bring_up() {
        links_.emplace_back();
        port().link_connected(true);
        const auto& memory = peer().memory;
        port().link_shared({.out = memory.ring(0), .in = memory.ring(1)});
        pump();
        REQUIRE(port().link_wants_memory());
        std::ranges::fill(control_, Line{});
        port().link_memory({.control = reinterpret_cast<uint8_t*>(control_.data()),
                            .blocks = {{host.ram(FakeHost::kRamBase, kShared), kShared}}});
        pump();
        // The switch says that it has mapped the memory.
        reinterpret_cast<link::PeerCopyControl*>(control_.data())->mapped = link::kMapped;
        set_state(ib::PortState::kArmed);
        set_state(ib::PortState::kActive);
        REQUIRE(port().is_active());
        REQUIRE(port().endpoint()->peer_copy().can_offer());
    }
    void pump() {
        for (unsigned i = 0; i < 8; ++i) {
            ports_.flush();
            const Bytes sent = host.take_link(1);
            REQUIRE(feed(*peer().end, sent));
            const Bytes back(peer().end->output().begin(), peer().end->output().end());
            peer().end->consume_output(back.size());
            port().link_rx(back);
            REQUIRE(peer().end->receive(1 << 20));
            (void)peer().end->channel().publish();
            (void)port().link_poll();
        }
    }
    link::BurstRoom begin() {
        return port().begin({.dlid = kFar,
                             .sl = 0,
                             .vl15 = false,
                             .bytes = ib::Lrh::kSize + ib::Bth::kSize + kMtu,
                             .packets = kPackets,
                             .mtu = kMtu,
                             .is_offer = true});
    }
    std::optional<link::OfferedPayload> open() {
        SgList sg_list;
        sg_list.append({.at = host.ram(FakeHost::kRamBase, kBytes),
                        .bus_addr = FakeHost::kRamBase,
                        .length = kBytes});
        return copy.open(1, sg_list, {.qpn = 7});
    }
    // Finishes an offer after open(): writes the headers and calls commit().
    void finish(const link::BurstRoom& room, const link::OfferedPayload& offer) {
        ib::PacketHeaders first{};
        first.lrh = {.dlid = ib::Lid(kFar), .slid = ib::Lid(port().lid())};
        first.bth.opcode = ib::opcode::kRc | ib::opcode::kSendMiddle;
        ib::PacketHeaders last = first;
        last.bth.psn = first.bth.psn + (kPackets - 1);
        const auto size = ib::BurstBuilder::size(first, last, kPackets, kMtu, kBytes);
        REQUIRE(size);
        ib::BurstBuilder::headers(room.bytes(), *size, first, last, kBytes);
        port().commit(*size, offer);
    }

    HcaPort& port() { return *ports_.find(1); }
    SwitchEnd& peer() { return links_.back(); }
    SwitchEnd& first_peer() { return links_.front(); }
    uint64_t sent() const { return counters.total(HcaCounter::kTxPackets); }

    FakeHost host;
    Counters counters;

  private:
    static constexpr uint64_t kBytes = uint64_t{kPackets} * kMtu;
    static constexpr uint64_t kShared = 1 << 20;
    struct alignas(64) Line {
        uint64_t words[8]{};
    };

    void set_state(ib::PortState to) {
        ib::Mad smp = make_dr_smp(ib::Method::kSet, ib::attr::kPortInfo, 1);
        ib::PortAttrs& attrs = ports_.sma().port(1);
        std::ranges::copy(attrs.info, smp.smp_data().begin());
        ib::set(smp.smp_data(), ib::port_info::kPortPhysicalState, 0);
        ib::set(smp.smp_data(), ib::port_info::kLid, PortBench::kLid);
        ib::set(smp.smp_data(), ib::port_info::kMasterSmLid, PortBench::kSmLid);
        ib::set(smp.smp_data(), ib::port_info::kPortState, static_cast<unsigned>(to));
        const auto answer = ports_.sma().answer(
            smp, {.port = 1, .slid = ib::kPermissiveLid, .now_ns = host.clock_ns});
        REQUIRE(answer.reply.status() == 0);
        port().apply(answer.events);
        pump();
    }
    void eq_fatal(uint32_t) override { FAIL("event queue failed"); }
    void interrupt_raised(const RaisedInterrupt&) override {}

    EqTable eqs_;
    Mpt mpt_;

  public:
    PeerCopy copy;

    RecordingClient client;

  private:
    HcaPorts ports_;
    std::deque<SwitchEnd> links_;
    std::vector<Line> control_ =
        std::vector<Line>((link::kBitmapsOffset + link::bitmap_bytes(kShared)) / sizeof(Line) + 1);
};

}  // namespace

TEST_CASE("a port sends an offer to the switch") {
    CopyBench bench;
    bench.bring_up();
    const auto room = bench.begin();
    REQUIRE(room.packets == kPackets);
    const auto offer = bench.open();
    REQUIRE(offer);
    bench.finish(room, *offer);
    bench.pump();
    CHECK(bench.peer().offers == 1);
    CHECK(bench.sent() == kPackets);
}

TEST_CASE("a link that closes between begin() and commit() drops the offer") {
    CopyBench bench;
    bench.bring_up();
    const auto room = bench.begin();
    REQUIRE(room.packets == kPackets);
    const auto offer = bench.open();
    REQUIRE(offer);
    bench.port().link_closed();
    bench.finish(room, *offer);
    CHECK(bench.sent() == 0);
    CHECK_FALSE(bench.copy.attached(1));
    CHECK_FALSE(bench.open());

    // The next link starts without the room and offers of this link.
    bench.bring_up();
    CHECK(bench.first_peer().offers == 0);
    CHECK(bench.peer().offers == 0);
    CHECK(bench.sent() == 0);
    const auto again = bench.begin();
    REQUIRE(again.packets == kPackets);
    const auto next = bench.open();
    REQUIRE(next);
    bench.finish(again, *next);
    bench.pump();
    CHECK(bench.peer().offers == 1);
    CHECK(bench.sent() == kPackets);
}

TEST_CASE("a turn of the link ends early when multicasts have been copied to many QPs") {
    constexpr size_t kSent = 40;
    CopyBench bench;
    bench.bring_up();
    const ::pib::test::Bytes packet = ::pib::test::make_packet(0, PortBench::kLid, 256);
    for (size_t i = 0; i < kSent; ++i) {
        REQUIRE(::pib::test::send(*bench.peer().end, packet));
    }
    (void)bench.peer().end->channel().publish();
    SECTION("a packet without copies: one turn takes all") {
        (void)bench.port().link_poll();
        CHECK(bench.client.packets.size() == kSent);
    }
    SECTION("copies that fill a turn: a turn takes one part of the ring, and no packet is lost") {
        bench.client.copies = 128 * 1024;
        size_t before = 0;
        size_t most = 0;
        for (unsigned turn = 0; turn < kSent && bench.client.packets.size() < kSent; ++turn) {
            const bool more = bench.port().link_poll();
            CHECK((more || bench.client.packets.size() == kSent));
            most = std::max(most, bench.client.packets.size() - before);
            before = bench.client.packets.size();
        }
        CHECK(bench.client.packets.size() == kSent);
        CHECK(most < kSent / 2);
    }
}
