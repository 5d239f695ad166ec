// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copies of the switch from adapter to adapter: the copied bytes, refused pulls, revoked
// offers, and offers that the switch splits.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "copy_hca.h"

namespace pib::test {
namespace {

using ib::Counter;
using link::BlockSegment;

constexpr uint32_t kPackets = 250;
constexpr uint32_t kBytes = kPackets * kMtu;

// Segments of both sides do not begin or end together, nor with pages or chunks.
const std::vector<BlockSegment> kSource = {
    {100'000, 0, 70'000}, {8192, 0, 1}, {300'001, 0, kBytes - 70'001}};
const std::vector<BlockSegment> kPlace = {{65'537, 0, 5}, {1'000'000, 0, kBytes - 5}};

Bytes bytes_of(const CopyHca& hca, std::span<const BlockSegment> segments) {
    Bytes out;
    for (const BlockSegment& segment : segments) {
        const auto at = hca.shown.ram.all().subspan(segment.offset, segment.length);
        out.insert(out.end(), at.begin(), at.end());
    }
    return out;
}

struct Tap final : fabric::PacketTap {
    size_t seen = 0;
    void packet_seen(std::span<const uint8_t>, const fabric::Arrival&) override { ++seen; }
};

struct CopyFabric {
    TestFabric fabric;
    CopyHca* from;
    CopyHca* to;

    explicit CopyFabric(uint32_t features = kCopyFeatures, bool peer_copy = true)
        : fabric(0, config(peer_copy)) {
        from = add(std::make_unique<CopyHca>(fabric.sw.admission(), 0));
        to = add(std::make_unique<CopyHca>(fabric.sw.admission(), 1, features));
        fabric.make_active();
        from->share();
        to->share();
        fabric.settle();
        to->packets.clear();
        to->place = kPlace;
        auto ram = from->shown.ram.all();
        for (size_t i = 0; i < ram.size(); ++i) {
            ram[i] = static_cast<uint8_t>(i * 7 + i / 251);
        }
    }
    CopyHca* add(std::unique_ptr<CopyHca> hca) {
        CopyHca* added = hca.get();
        fabric.add(std::move(hca));
        return added;
    }
    static fabric::SwitchConfig config(bool peer_copy) {
        auto made = TestFabric::default_config();
        made.peer_copy = peer_copy;
        return made;
    }
    static Way way() { return {.dlid = TestFabric::lid_of(1), .slid = TestFabric::lid_of(0)}; }
    bool send() {
        const bool sent = from->offer(kSource, kPackets, way());
        fabric.settle();
        return sent;
    }
    // Sends more offers than the link has credits and slots for at a time.
    void send_many(const Way& way) {
        for (unsigned i = 0; i < kMany; ++i) {
            REQUIRE(from->offer(kSource, kPackets, way));
            fabric.settle();
            from->slot(from->last_handle) = 0;
        }
    }
    static constexpr unsigned kMany = 600;
    // Runs until the adapter has sent a PULL and the switch has copied nothing yet.
    void start() {
        to->copied = false;
        REQUIRE(send());
        REQUIRE(to->own_end().peer_copy().is_pulling());
        REQUIRE_FALSE(to->sw_link->may_sleep());
    }
    void chunk() { to->sw_link->copy(CopyHca::kChunk); }
    void finish() {
        to->copied = true;
        fabric.settle();
        REQUIRE_FALSE(to->own_end().peer_copy().is_pulling());
    }
    const fabric::CopyCounts& counts(CopyHca* hca) {
        return *fabric.sw.port(hca->port()).cable().copies();
    }
    void check_arrived() { CHECK(bytes_of(*to, kPlace) == bytes_of(*from, kSource)); }
    // Checks that the payload came in packets, complete and in order.
    void check_packets() {
        REQUIRE(to->packets.size() == kPackets);
        const Bytes sent = bytes_of(*from, kSource);
        for (uint32_t i = 0; i < kPackets; ++i) {
            const auto view = ib::PacketView::parse(to->packets[i], ib::Crcs::kElided).value();
            CHECK(view.bth().psn == ib::Psn(7 + i));
            CHECK(std::ranges::equal(view.payload(), std::span(sent).subspan(i * kMtu, kMtu)));
        }
    }
    void check_untouched() { CHECK(bytes_of(*to, kPlace) == Bytes(kBytes)); }
};

}  // namespace

TEST_CASE("peer copy: the switch copies from memory to memory and counts the packets") {
    CopyFabric net;
    REQUIRE(net.send());
    CHECK(net.to->placed == 1);
    CHECK(net.to->packets.empty());
    net.check_arrived();
    CHECK(net.counts(net.from).forwarded == 1);
    CHECK(net.counts(net.to).bytes == kBytes);
    CHECK(net.counts(net.to).pulls == 1);
    CHECK(net.to->wakes >= 2);  // after the mapping and after the answer
    CHECK(net.fabric.count(net.from->port(), Counter::kPortRcvPkts) >= kPackets);
    CHECK(net.fabric.count(net.to->port(), Counter::kPortXmitPkts) >= kPackets);
    CHECK(net.from->shown.control().reading == 0);
    // Only the segments were written: the bytes around them were not.
    for (const BlockSegment& segment : kPlace) {
        CHECK(net.to->shown.ram.data()[segment.offset - 1] == 0);
        CHECK(net.to->shown.ram.data()[segment.offset + segment.length] == 0);
    }
    // 600 more offers pass, because receive buffer and slots of the table are released.
    for (unsigned i = 0; i < 600; ++i) {
        REQUIRE(net.send());
        net.from->slot(net.from->last_handle) = 0;
    }
    CHECK(net.to->placed == 601);
    CHECK(net.counts(net.from).split == 0);
    CHECK(net.to->error.empty());
}

TEST_CASE("peer copy: the payload of dropped packets is not copied") {
    CopyFabric net;
    Way way = CopyFabric::way();
    const unsigned in = net.from->port();
    const unsigned out = net.to->port();
    const auto send = [&] { net.send_many(way); };
    SECTION("no route to the LID") {
        way.dlid = 999;
        send();
        CHECK(net.fabric.count(in, Counter::kPortRcvSwitchRelayErrors) == 600 * kPackets);
        CHECK(net.fabric.count(in, Counter::kPortDlidMappingErrors) == 600 * kPackets);
    }
    SECTION("the egress port is the ingress port") {
        way.dlid = TestFabric::lid_of(0);
        send();
        CHECK(net.fabric.count(in, Counter::kPortLoopingErrors) == 600 * kPackets);
    }
    SECTION("the egress port is Down") {
        net.fabric.sw.port(out).cable().plug(false);
        net.fabric.settle();
        send();
        CHECK(net.fabric.count(out, Counter::kPortInactiveDiscards) == 600 * kPackets);
    }
    SECTION("the packets exceed the MTU of the egress port") {
        ib::PortAttrs& attrs = net.fabric.sw.port(out).attrs();
        attrs.set(ib::port_info::kNeighborMtu, static_cast<unsigned>(ib::Mtu::k256));
        net.fabric.sw.port(out).attributes_changed({});
        send();
        CHECK(net.fabric.count(out, Counter::kPortNeighborMtuDiscards) == 600 * kPackets);
    }
    CHECK(net.counts(net.from).split == 0);
    CHECK(net.from->error.empty());
}

TEST_CASE("peer copy: the payload of packets that no adapter may get is not copied") {
    CopyFabric net;
    Way way = CopyFabric::way();
    const unsigned in = net.from->port();
    const unsigned out = net.to->port();
    SECTION("the P_Key is not that of the ingress or egress port") {
        const bool inbound = GENERATE(true, false);
        const unsigned at = inbound ? in : out;
        net.fabric.sw.port(at).attrs().set(inbound ? ib::port_info::kPartitionEnforcementInbound
                                                   : ib::port_info::kPartitionEnforcementOutbound,
                                           1);
        net.fabric.sw.port(at).attributes_changed({});
        way.pkey = 0x8123;
        net.send_many(way);
        const Counter refused =
            inbound ? Counter::kPortRcvConstraintErrors : Counter::kPortXmitConstraintErrors;
        CHECK(net.fabric.count(at, refused) == kPackets * CopyFabric::kMany);
        net.fabric.advance(2'000'000'000);
        const auto traps = traps_of(*net.from, ib::trap::kBadPKeyAtSwitchPort);
        REQUIRE_FALSE(traps.empty());
        CHECK(ib::get(traps[0].smp_data(), ib::notice_details_259::kPKey) == 0x8123);
        CHECK(ib::get(traps[0].smp_data(), ib::notice_details_259::kPortNumber) == at);
    }
    SECTION("the LID is a multicast LID") {
        way.dlid = 0xC000;
        std::array<uint8_t, ib::kSmpDataSize> block{};
        block[1] = 0b110;  // both adapters
        REQUIRE(net.fabric.sw.node().mft.write_block(0, 0, block));
        net.send_many(way);
        CHECK(net.fabric.count(in, Counter::kPortDlidMappingErrors) ==
              kPackets * CopyFabric::kMany);
    }
    SECTION("the LID is that of port 0") {
        way.dlid = TestFabric::kSwitchLid;
        const uint64_t before = net.fabric.count(0, Counter::kPortRcvPkts);
        net.send_many(way);
        CHECK(net.fabric.count(0, Counter::kPortRcvPkts) - before == kPackets * CopyFabric::kMany);
    }
    CHECK(net.to->packets.empty());
    CHECK(net.counts(net.from).lost == 0);
    CHECK(net.counts(net.from).split == 0);
    CHECK(net.from->error.empty());
}

TEST_CASE("peer copy: the sender revokes its offer between chunks") {
    CopyFabric net;
    net.start();
    net.chunk();
    SECTION("its slot is empty") {
        net.from->slot(1) = 0;
    }
    SECTION("its slot has another offer") {
        net.from->slot(1) = 1 + link::kOfferSlots;
    }
    SECTION("the pages are no longer registered") {
        net.from->shown.set_registered((kSource[2].offset + 200'000 - 70'001) / 4096, false);
    }
    SECTION("the sender's connection ends") {
        net.from->disconnect();
    }
    net.finish();
    CHECK(net.to->placed == 0);
    CHECK(net.to->refused == 0);
    CHECK(net.to->packets.empty());
    CHECK(net.counts(net.to).unfinished == 1);
    CHECK(net.counts(net.to).bytes < kBytes);
    CHECK(net.to->error.empty());
}

TEST_CASE("peer copy: the receiver cancels its pull between chunks") {
    CopyFabric net;
    net.start();
    net.chunk();
    (void)net.to->own_end().peer_copy().cancel_pull();
    net.to->place = {{2'000'000, 0, kBytes}};
    net.chunk();
    CHECK_FALSE(net.to->own_end().peer_copy().is_pulling());
    net.finish();
    CHECK(net.to->placed == 1);
    CHECK(bytes_of(*net.to, net.to->place) == bytes_of(*net.from, kSource));
    CHECK(net.counts(net.to).unfinished == 1);
    CHECK(net.counts(net.to).pulls == 1);
}

TEST_CASE("peer copy: the switch writes only to registered pages") {
    CopyFabric net;
    SECTION("no page is registered") {
        net.to->shown.set_registered(kPlace[0].offset / 4096, false);
        REQUIRE(net.send());
        net.check_untouched();
    }
    SECTION("later pages are not registered") {
        const uint64_t page = (kPlace[1].offset + 150'000) / 4096;
        net.to->shown.set_registered(page, false);
        REQUIRE(net.send());
        const auto ram = net.to->shown.ram.all().subspan(page * 4096, 4096);
        CHECK(std::ranges::all_of(ram, [](uint8_t byte) { return byte == 0; }));
    }
    CHECK(net.to->refused == 1);
    CHECK(net.to->placed == 0);
    CHECK(net.counts(net.to).refused == 1);
    // With kAllRegistered all memory is registered, whatever the bitmap says.
    net.to->shown.control().flags = link::PeerCopyControl::kAllRegistered;
    REQUIRE(net.send());
    CHECK(net.to->placed == 1);
}

TEST_CASE("peer copy: the switch reads only registered pages") {
    CopyFabric net;
    net.from->shown.set_registered(kSource[0].offset / 4096, false);
    REQUIRE(net.send());
    net.check_untouched();
    CHECK(net.to->placed == 0);
    CHECK(net.to->refused == 0);
    // The switch does not send the payload as packets, either.
    net.to->sw_link->close();
    net.fabric.sw.port(net.from->port()).ingress_faults().set({.delay_ns = 1});
    REQUIRE(net.send());
    CHECK(net.counts(net.from).lost == 1);
}

TEST_CASE("peer copy: a pull without a target is copied to the bounce area") {
    CopyFabric net;
    net.to->place.clear();
    REQUIRE(net.send());
    net.check_untouched();
    net.check_packets();
}

TEST_CASE("peer copy: the switch splits an offer where single packets are needed") {
    const bool with = GENERATE(true, false);
    CopyFabric net(with ? kCopyFeatures : kCopyFeatures & ~link::kFeaturePeerCopy);
    auto& in = net.fabric.sw.port(net.from->port());
    auto& out = net.fabric.sw.port(net.to->port());
    Tap tap;
    if (with) {
        const int way = GENERATE(0, 1, 2);
        if (way == 0) {
            net.fabric.sw.set_tap(&tap);
        } else {
            (way == 1 ? in.ingress_faults() : out.egress_faults()).set({.delay_ns = 1000});
        }
        REQUIRE(net.send());
        net.fabric.advance(1'000'000);
        CHECK(tap.seen == (way == 0 ? kPackets : 0));
    } else {
        CHECK(out.cable().copies() == nullptr);
        REQUIRE(net.send());
    }
    net.fabric.sw.set_tap(nullptr);
    CHECK(net.counts(net.from).split == 1);
    CHECK(net.counts(net.from).forwarded == 0);
    CHECK(net.to->placed == 0);
    net.check_packets();
    // A burst whose offer is no longer valid is lost, but not its receive buffer.
    in.ingress_faults().set({.drop = 1});
    for (unsigned i = 0; i < 40; ++i) {
        net.from->slot(net.from->last_handle + 1) = 0;
        const uint64_t handle = ++net.from->last_handle;
        REQUIRE(send_offer(net.from->own_end(), handle, kSource, kPackets, CopyFabric::way()));
        net.fabric.settle();
    }
    CHECK(net.counts(net.from).lost == 40);
}

TEST_CASE("peer copy: without agreement of both sides there are no offers") {
    CopyFabric off(kCopyFeatures, false);
    CHECK_FALSE(off.from->own_end().agreed().peer_copy);
    CHECK_FALSE(off.from->offer(kSource, kPackets, CopyFabric::way()));
    CHECK(off.fabric.sw.port(off.from->port()).cable().copies() == nullptr);

    TestFabric fabric;
    auto& alone = static_cast<CopyHca&>(fabric.add(std::make_unique<CopyHca>(
        fabric.sw.admission(), 0, kCopyFeatures & ~link::kFeatureBursts)));
    fabric.settle();
    CHECK_FALSE(alone.own_end().agreed().peer_copy);
}

TEST_CASE("peer copy: memory that could kill the switch is released") {
    TestFabric fabric;
    const auto share = [&](int seals, uint64_t said) {
        auto& hca = static_cast<CopyHca&>(fabric.add(
            std::make_unique<CopyHca>(fabric.sw.admission(), 0, kCopyFeatures, seals, said)));
        fabric.settle();
        hca.share();
        fabric.settle();
        CHECK(hca.error.empty());
        CHECK_FALSE(hca.own_end().peer_copy().can_offer());
        CHECK(hca.shown.control().mapped == link::kNotMapped);
        return hca.notes.back();
    };
    SECTION("a memfd that may shrink") {
        CHECK(share(F_SEAL_GROW, ShownMemory::kBytes).find("could shrink") != std::string::npos);
    }
    SECTION("a memfd smaller than its block") {
        CHECK(share(F_SEAL_SHRINK, ShownMemory::kBytes + 1).find("size") != std::string::npos);
    }
    SECTION("a memfd that is not writable") {
        CHECK(share(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE, ShownMemory::kBytes)
                  .find("cannot be mapped") != std::string::npos);
    }
}

// ---- without a link

namespace {

struct Alone {
    ShownMemory shown;
    std::shared_ptr<const fabric::AdapterMemory> memory = map();

    std::shared_ptr<const fabric::AdapterMemory> map() {
        std::vector<fabric::UniqueFd> fds;
        fds.emplace_back(::dup(shown.control_memory.fd.get()));
        fds.emplace_back(::dup(shown.ram.fd.get()));
        return fabric::map_adapter_memory(fds, shown.blocks).value();
    }
};

}  // namespace

TEST_CASE("peer copy: each page is checked") {
    Alone alone;
    for (const uint64_t page : {60U, 61U, 62U, 63U, 64U, 65U, 127U, 128U, 191U}) {
        alone.shown.set_registered(page, true);
    }
    const auto registered = [&](uint64_t offset, uint32_t length) {
        return alone.memory->registered({offset, 0, length});
    };
    CHECK(registered(60 * 4096, 6 * 4096));
    CHECK(registered(60 * 4096 + 4095, 2));
    CHECK_FALSE(registered(60 * 4096 - 1, 2));
    CHECK_FALSE(registered(65 * 4096, 4097));
    CHECK_FALSE(registered(127 * 4096, 64 * 4096 + 1));
    CHECK(registered(127 * 4096, 8192));
    CHECK(registered(191 * 4096 + 17, 4));
    CHECK(alone.memory->registered({0, link::kBounceBlock, 1 << 20}));
}

TEST_CASE("peer copy: a pull of an unknown offer breaks the protocol") {
    Alone from, to;
    from.shown.register_all();
    to.shown.register_all();
    fabric::Copier copier(to.memory);
    const auto pull = [&](uint64_t handle, uint32_t offset, uint32_t length) {
        return copier.start({.handle = handle,
                             .sequence = 1,
                             .offset = offset,
                             .length = length,
                             .segments = {{0, 0, length}}});
    };
    CHECK_FALSE(pull(1, 0, 4096));
    REQUIRE(copier.table().next() == 1);
    copier.table().add({from.memory, 9, 8192, {{0, 0, 8192}}});
    CHECK_FALSE(pull(2, 0, 4096));
    CHECK_FALSE(pull(1, 4096, 4097));
    REQUIRE(pull(1, 4096, 4096));
    CHECK_FALSE(pull(1, 0, 4096));  // before the answer
    from.shown.control().slots[9] = 9;
    from.shown.ram.data()[4096 + 17] = 42;
    CHECK(copier.step(1 << 20));
    CHECK(to.shown.ram.data()[17] == 42);
    CHECK(to.shown.control().answer == link::pull_answer(1, link::PullResult::kDone));
    to.shown.control().finished = 1;
    CHECK_FALSE(pull(1, 0, 4096));
}

TEST_CASE("peer copy: the table has the unfinished offers, with any value of `finished`") {
    Alone own;
    fabric::OfferTable table(*own.memory);
    for (uint64_t i = 1; i <= fabric::OfferTable::kSize; ++i) {
        REQUIRE(table.next() == i);
        table.add({own.memory, 1000 + i, 4096, {}});
    }
    CHECK_FALSE(table.next());
    own.shown.control().finished = 257;  // an impossible value
    CHECK_FALSE(table.next());
    own.shown.control().finished = 3;
    CHECK(table.next() == 257);
    own.shown.control().finished = 1;  // less than before: impossible, too
    CHECK(table.next() == 257);
    CHECK(table.find(3) == nullptr);
    REQUIRE(table.find(4) != nullptr);
    CHECK(table.find(4)->handle == 1004);
    CHECK(table.find(257) == nullptr);
}

TEST_CASE("peer copy: a link that ends releases the target of its pull") {
    Alone from, to;
    from.shown.register_all();
    auto copier = std::make_unique<fabric::Copier>(to.memory);
    copier->table().add({from.memory, 9, 8192, {{0, 0, 8192}}});
    REQUIRE(copier->start(
        {.handle = 1, .sequence = 5, .offset = 0, .length = 4096, .segments = {{0, 0, 4096}}}));
    copier.reset();
    CHECK(to.shown.control().answer == link::pull_answer(5, link::PullResult::kGone));
    CHECK(to.memory.use_count() == 1);
}

}  // namespace pib::test
