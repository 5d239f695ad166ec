// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy between two HCAs: how offers and pulls end. The test takes the place of the switch.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "base/config.h"
#include "key_requests.h"
#include "pair.h"
#include "queues/interface_pages.h"

namespace pib::hca::test {
namespace {

constexpr uint32_t kBytes = 64 * 1024;

// A static initializer, so that it runs before any code reads the variable.
[[maybe_unused]] const int kMode = setenv("PIB_BURSTS", "peer-copy", 1);

// Two connected QPs, and a WRITE from one to the other that has not started.
struct Writing {
    Writing() : connection(pair.rc_pair()) {
        from = pair.a.make_buffer(kBytes);
        to = pair.b.make_buffer(kBytes);
        for (uint32_t i = 0; i < kBytes; ++i) {
            pair.a.host.poke(from.addr + i, static_cast<uint8_t>(i * 7 + i / 251));
        }
    }
    SendWr wr() const {
        return {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                .sges = {from.all()},
                .remote_addr = to.addr,
                .rkey = to.key};
    }
    void post() { pair.a.post(connection.a, wr()); }
    unsigned live() const {
        const auto& slots = pair.a.peer_copy->control().slots;
        return static_cast<unsigned>(
            std::ranges::count_if(slots, [](const auto& slot) { return slot.load() != 0; }));
    }
    bool arrived() {
        std::vector<uint8_t> sent(kBytes);
        std::vector<uint8_t> received(kBytes);
        pair.a.host.peek_bytes(from.addr, sent);
        pair.b.host.peek_bytes(to.addr, received);
        return sent == received;
    }

    Pair pair;
    Pair::Connection connection;
    Buffer from;
    Buffer to;
};

// Registers kBytes bytes; returns an access to all of them with all rights.
KeyedRange new_region(FakeHost& host, Mpt& mpt) {
    Registration in{};
    in.pd = 1;
    in.access = Hca::kAllAccess;
    in.iova = host.alloc(kBytes);
    in.length = kBytes;
    in.pages = page_list(contiguous(in.iova, kBytes));
    return {mpt.create(in).value(), in.iova, kBytes, in.access};
}

// Lets the time limit of a switch that does not stop pass. The next settled() gives the switch up.
void wait_out(PeerCopy& copy, FakeHost& host) {
    for (uint64_t waited = 0; waited < PeerCopy::kPullTimeoutNs; waited += PeerCopy::kPullStepNs) {
        CHECK_FALSE(copy.settled());
        host.real_clock_ns += PeerCopy::kPullStepNs;
    }
}

}  // namespace

TEST_CASE("an offer is valid until it is acknowledged") {
    Writing test;
    test.pair.a.port.capacity = 1000;
    test.post();
    CHECK(test.live() == 1);
    test.pair.settle();
    CHECK(test.pair.offers_placed == 1);
    CHECK(test.live() == 0);
    CHECK(test.arrived());
    CHECK(test.pair.a.poll(test.connection.a)->status == PIB_HCA_WC_SUCCESS);
    // The switch copied all bytes except those of the first and last packet; the device has
    // reported them to the VM as written.
    CHECK(test.pair.b.host.ram_writes != 0);
}

TEST_CASE("the VM is told of all memory that the switch has written") {
    struct CountingHost : FakeHost {
        void ram_written(uint64_t bus_addr, uint64_t length) override {
            FakeHost::ram_written(bus_addr, length);
            bytes += length;
        }
        uint64_t bytes = 0;
    };
    CountingHost host;
    Mpt mpt(host, Limits::kMrs, Limits::kMrPages);
    FakePeerCopy copy(host, mpt, 1);
    SgList target;
    REQUIRE(mpt.locate({.pd = 1, .privileged = false}, new_region(host, mpt), target));
    std::vector<link::BlockSegment> where;
    REQUIRE(copy.core.begin_pull(1, 7, target, where));
    REQUIRE(copy.core.end_pull(1, target, where));
    CHECK(host.bytes == kBytes);
}

TEST_CASE("a pull fails if the memory map has moved its target meanwhile") {
    struct MovingHost : FakeHost {
        uint8_t* ram(uint64_t bus_addr, uint64_t length) override {
            return FakeHost::ram(bus_addr + moved, length);
        }
        uint64_t moved = 0;
    };
    MovingHost host;
    Mpt mpt(host, Limits::kMrs, Limits::kMrPages);
    FakePeerCopy copy(host, mpt, 1);
    const KeyedRange range = new_region(host, mpt);
    SgList before, after;
    REQUIRE(mpt.locate({.pd = 1, .privileged = false}, range, before));
    std::vector<link::BlockSegment> where;
    REQUIRE(copy.core.begin_pull(1, 7, before, where));
    host.moved = 2 * kBytes;
    host.ram_changed();
    REQUIRE(mpt.locate({.pd = 1, .privileged = false}, range, after));
    CHECK_FALSE(copy.core.end_pull(1, after, where));
}

TEST_CASE("a retry sends packets and revokes the offer") {
    Writing test;
    test.pair.a.port.capacity = 1000;
    unsigned dropped = 0;
    test.pair.filter = [&](const ib::PacketView& packet) {
        const bool first = packet.opcode().position == ib::Position::kFirst;
        return !(first && dropped++ == 0);
    };
    test.post();
    REQUIRE(test.pair.run_until([&] { return test.arrived(); }));
    CHECK(test.pair.a.poll(test.connection.a)->status == PIB_HCA_WC_SUCCESS);
    CHECK(test.pair.offers_placed == 0);
    CHECK(test.live() == 0);
}

TEST_CASE("a destroyed region revokes its offers") {
    Writing test;
    test.pair.a.port.capacity = 1000;
    test.post();
    REQUIRE(test.live() == 1);
    const link::BlockSegment first{
        .offset = test.from.addr - FakeHost::kRamBase, .block = 0, .length = 1};
    CHECK(test.pair.a.peer_copy->is_registered(first));
    CHECK(test.pair.a.mpt.destroy(test.from.key) == CmdStatus::kOk);
    CHECK(test.live() == 0);
    CHECK_FALSE(test.pair.a.peer_copy->is_registered(first));
    // The offer's packets are lost, and the retry fails because the region is gone.
    REQUIRE(test.pair.run_until(
        [&] { return test.pair.a.state(test.connection.a) == PIB_HCA_QPS_ERR; }));
    CHECK(test.pair.a.poll(test.connection.a)->status == PIB_HCA_WC_LOC_PROT_ERR);
}

TEST_CASE("a page of two regions is registered until both are destroyed") {
    Hca hca(1);
    const Buffer buffer = hca.make_buffer(8192);
    Registration again{};
    again.pd = 1;
    again.iova = buffer.addr;
    again.length = 4096;
    again.pages = {.root = buffer.addr, .page_count = 1, .levels = 0, .log_page_size = 12};
    const auto key = hca.mpt.create(again);
    REQUIRE(key);
    const uint64_t offset = buffer.addr - FakeHost::kRamBase;
    const auto registered = [&](uint64_t page) {
        return hca.peer_copy->is_registered(
            {.offset = offset + page * 4096, .block = 0, .length = 4096});
    };
    CHECK((registered(0) && registered(1)));
    CHECK_FALSE(registered(2));
    CHECK(hca.mpt.destroy(buffer.key) == CmdStatus::kOk);
    CHECK((registered(0) && !registered(1)));
    CHECK(hca.mpt.destroy(*key) == CmdStatus::kOk);
    CHECK_FALSE(registered(0));
}

TEST_CASE("registered pages are counted again after a change of the memory map") {
    Hca hca(1);
    const Buffer buffer = hca.make_buffer(8192);
    const link::BlockSegment segment{
        .offset = buffer.addr - FakeHost::kRamBase, .block = 0, .length = 8192};
    CHECK(hca.peer_copy->is_registered(segment));
    hca.host.ram_changed();
    CHECK(hca.mpt.destroy(buffer.key) == CmdStatus::kOk);
    CHECK_FALSE(hca.peer_copy->is_registered(segment));
}

TEST_CASE("payload outside of shared memory is sent in packets") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.a.host.alloc(FakePeerCopy::kSharedBytes);
    const Buffer from = pair.a.make_buffer(kBytes);
    const Buffer to = pair.b.make_buffer(kBytes);
    pair.a.host.poke(from.addr + 5000, uint8_t{42});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.all()},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    CHECK(pair.a.port.offers_sent == 0);
    CHECK(pair.b.host.peek<uint8_t>(to.addr + 5000) == 42);
}

// The switch copies only pages of regions.
TEST_CASE("payload that no region covers is sent in packets") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({}, {.flags = PIB_HCA_QP_PRIVILEGED});
    const uint64_t from = pair.a.host.alloc(kBytes);
    const Buffer to = pair.b.make_buffer(kBytes);
    pair.a.host.poke(from + 5000, uint8_t{42});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {{.addr = from, .length = kBytes, .lkey = kPrivilegedLkey}},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    CHECK(pair.a.port.offers_sent == 0);
    CHECK(pair.b.host.peek<uint8_t>(to.addr + 5000) == 42);
}

TEST_CASE("a target outside of shared memory receives packets") {
    Writing test;
    test.pair.b.host.alloc(FakePeerCopy::kSharedBytes);
    test.to = test.pair.b.make_buffer(kBytes);
    test.post();
    test.pair.settle();
    CHECK(test.pair.a.port.offers_sent != 0);
    CHECK(test.pair.offers_placed == 0);
    CHECK(test.arrived());
}

TEST_CASE("a pull to a region that was registered again is repeated") {
    Writing test;
    test.pair.while_placing = [&] {
        test.pair.while_placing = nullptr;
        // For a moment the region did not exist; now it has the same key and rights again.
        Reregistration in{};
        in.mask = PIB_HCA_REREG_MR_ACCESS;
        in.mr.access = Hca::kAllAccess;
        in.mr.key = static_cast<uint8_t>(test.to.key);
        REQUIRE(test.pair.b.mpt.reregister(test.to.key, in).value() == test.to.key);
        test.pair.b.host.poke(test.to.addr + 2048, uint64_t{0x1234});
    };
    test.post();
    test.pair.settle();
    CHECK(test.arrived());
    CHECK(test.pair.offers_placed < test.pair.a.port.offers_sent);
}

namespace {

// A receiver to whose memory the switch is writing.
struct Pulling : Writing {
    Pulling() {
        pair.a.port.capacity = 1000;
        pair.while_placing = [this] {
            link().is_pulling = true;
            if (meanwhile) {
                std::exchange(meanwhile, nullptr)();
            }
            was_busy = copy().is_busy();
            link().is_pulling = false;
        };
    }
    FakeCopyLink& link() { return pair.b.peer_copy->link; }
    PeerCopy& copy() { return pair.b.peer_copy->core; }

    std::function<void()> meanwhile;
    bool was_busy = false;  // whether the receiver was busy after `meanwhile`
};

}  // namespace

TEST_CASE("memory that is taken away is busy until the switch has stopped") {
    Pulling test;
    SECTION("a region is destroyed") {
        test.meanwhile = [&] { (void)test.pair.b.mpt.destroy(test.to.key); };
    }
    SECTION("the QP goes to Error") {
        test.meanwhile = [&] { to_state(test.pair.b, test.connection.b, PIB_HCA_QPS_ERR); };
    }
    SECTION("the QP is reset") {
        test.meanwhile = [&] { to_state(test.pair.b, test.connection.b, PIB_HCA_QPS_RESET); };
    }
    SECTION("the QP is destroyed") {
        test.meanwhile = [&] {
            (void)test.pair.b.transport.verbs().destroy(test.connection.b.qpn);
        };
    }
    SECTION("the VM stops") {
        test.meanwhile = [&] { test.copy().revoke_all(); };
    }
    test.post();
    test.pair.settle();
    CHECK(test.link().cancels == 1);
    CHECK(test.was_busy);
    CHECK_FALSE(test.copy().is_busy());
    CHECK(test.link().given_up == 0);
    CHECK(test.pair.offers_placed == 0);
}

TEST_CASE("a QP that fails in mid-pull completes its requests after the switch has stopped") {
    Pulling test;
    Hca& b = test.pair.b;
    Qp& qp = test.connection.b;
    b.post_recv(qp, {});
    unsigned early = 0;
    test.meanwhile = [&] {
        SendWr wrong = test.wr();
        wrong.sges = {test.to.sge(0, 8)};
        wrong.sges[0].lkey ^= 0xff;
        b.post(qp, wrong);
        (void)b.transport.run();
        early = b.poll(qp) ? 1 : 0;
    };
    test.post();
    test.pair.settle();
    CHECK(test.was_busy);
    CHECK(early == 0);
    const auto failed = b.poll(qp);
    REQUIRE(failed);
    CHECK(failed->status == PIB_HCA_WC_LOC_PROT_ERR);
    const auto flushed = b.poll(qp);
    REQUIRE(flushed);
    CHECK(flushed->status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK_FALSE(b.poll(qp));
}

TEST_CASE("an invalidation in mid-pull, and later ones, complete after the switch has stopped") {
    Pulling test;
    Hca& b = test.pair.b;
    const QpConfig privileged{.flags = PIB_HCA_QP_PRIVILEGED};
    auto [near, other] = test.pair.rc_pair({}, privileged);
    Registration in{};
    in.pd = 1;
    in.flags = PIB_HCA_MR_FAST;
    in.pages.page_count = kBytes / 4096;
    const uint32_t free_key = b.mpt.create(in).value();
    const uint64_t table = b.host.alloc(4096);
    for (uint64_t i = 0; i < kBytes / 4096; ++i) {
        b.host.poke<uint64_t>(table + 8 * i, test.to.addr + 4096 * i);
    }
    const uint32_t key = next_key(free_key);
    b.post(other, reg_mr({.key = key,
                          .access = Hca::kAllAccess,
                          .iova = test.to.addr,
                          .length = kBytes,
                          .pages = {.root = table,
                                    .page_count = kBytes / 4096,
                                    .levels = 1,
                                    .log_page_size = 12,
                                    .reserved = 0},
                          .page_offset = 0,
                          .reserved = 0}));
    REQUIRE(b.poll(other)->status == PIB_HCA_WC_SUCCESS);
    unsigned early = 0;
    test.meanwhile = [&] {
        b.post(other, local_inv(key));
        b.post(other, local_inv(next_key(key)));
        (void)b.transport.run();
        early = b.poll(other) ? 1 : 0;
    };
    SendWr write = test.wr();
    write.rkey = key;
    test.pair.a.post(test.connection.a, write);
    test.pair.settle();
    CHECK(test.was_busy);
    CHECK(early == 0);
    CHECK(test.pair.offers_placed == 0);
    const auto done = b.poll(other);
    REQUIRE(done);
    CHECK(done->status == PIB_HCA_WC_SUCCESS);
    CHECK(done->opcode == PIB_HCA_CQE_LOCAL_INV);
    CHECK(b.poll(other).has_value());
}

TEST_CASE("unrelated commands do not affect a pull") {
    Pulling test;
    const Qp other = test.pair.b.create();
    const Buffer region = test.pair.b.make_buffer(8192);
    test.meanwhile = [&] {
        CHECK(test.pair.b.mpt.destroy(region.key) == CmdStatus::kOk);
        CHECK(test.pair.b.transport.verbs().destroy(other.qpn) == CmdStatus::kOk);
    };
    test.post();
    test.pair.settle();
    CHECK(test.link().cancels == 0);
    CHECK(test.pair.offers_placed == 1);
    CHECK(test.arrived());
}

TEST_CASE("the link of a switch that does not answer is closed") {
    Pulling test;
    test.meanwhile = [&] {
        (void)test.pair.b.mpt.destroy(test.to.key);
        wait_out(test.copy(), test.pair.b.host);
        CHECK(test.copy().settled());
        CHECK(test.link().given_up == 1);
    };
    test.post();
    test.pair.settle();
    CHECK_FALSE(test.meanwhile);
}

TEST_CASE("a new offer revokes the oldest READ response when all slots are taken") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer to = pair.a.make_buffer(kBytes);
    const Buffer from = pair.b.make_buffer(kBytes);
    pair.b.host.poke(from.addr + 5000, uint8_t{42});
    for (unsigned i = 0; i < link::kOfferSlots + 10; ++i) {
        pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_READ,
                         .sges = {to.all()},
                         .remote_addr = from.addr,
                         .rkey = from.key});
        pair.settle();
        REQUIRE(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    }
    CHECK(pair.offers_placed >= link::kOfferSlots + 10);
    CHECK(pair.a.host.peek<uint8_t>(to.addr + 5000) == 42);
    const auto& slots = pair.b.peer_copy->control().slots;
    CHECK(std::ranges::none_of(slots, [](const auto& slot) { return slot.load() == 0; }));
    (void)pair.b.transport.verbs().destroy(qb.qpn);
    CHECK(std::ranges::all_of(slots, [](const auto& slot) { return slot.load() == 0; }));
}

namespace {

struct Slots {
    struct alignas(64) Memory {
        uint8_t bytes[link::kBounceOffset]{};
    };
    const std::unique_ptr<Memory> memory = std::make_unique<Memory>();
    link::PeerCopyControl& control = *reinterpret_cast<link::PeerCopyControl*>(memory->bytes);
    OfferSlots offers{control};
};

}  // namespace

TEST_CASE("handles are unique, and as many are valid as there are slots") {
    Slots test;
    std::set<uint64_t> handles;
    for (unsigned i = 0; i < link::kOfferSlots; ++i) {
        handles.insert(test.offers.open({.qpn = 1}));
    }
    CHECK(handles.size() == link::kOfferSlots);
    CHECK(handles.count(0) == 0);
    CHECK(test.offers.open({.qpn = 1}) == 0);
    test.offers.end(17);
    const uint64_t next = test.offers.open({.qpn = 2, .response = true});
    CHECK((next % link::kOfferSlots == 17 && handles.count(next) == 0));
    // The READ response's offer is withdrawn when another offer needs its slot.
    const uint64_t newer = test.offers.open({.qpn = 3});
    CHECK((newer % link::kOfferSlots == 17 && newer > next));
    CHECK(test.control.slots[17].load() == newer);
}

TEST_CASE("the older one of two READ responses goes first") {
    Slots test;
    const uint64_t older = test.offers.open({.qpn = 1, .response = true});
    const uint64_t newer = test.offers.open({.qpn = 1, .response = true});
    for (unsigned i = 2; i < link::kOfferSlots; ++i) {
        REQUIRE(test.offers.open({.qpn = 2}) != 0);
    }
    REQUIRE(test.offers.open({.qpn = 2}) != 0);
    CHECK(test.control.slots[older % link::kOfferSlots].load() != older);
    CHECK(test.control.slots[newer % link::kOfferSlots].load() == newer);
}

TEST_CASE("a revoked offer is being read until the switch reads another one") {
    Slots test;
    const uint64_t handle = test.offers.open({.qpn = 1});
    const uint64_t other = test.offers.open({.qpn = 1});
    test.control.reading = handle;
    CHECK_FALSE(test.offers.being_read());
    test.offers.end(handle);
    CHECK(test.control.slots[handle].load() == 0);
    CHECK(test.offers.being_read());
    test.control.reading = other;
    CHECK_FALSE(test.offers.being_read());
    test.control.reading = handle;  // the slot was cleared long ago
    CHECK_FALSE(test.offers.being_read());
}

TEST_CASE("an offer that is being read keeps its memory busy") {
    Writing test;
    test.pair.a.port.capacity = 1000;
    test.post();
    REQUIRE(test.live() == 1);
    auto& control = test.pair.a.peer_copy->control();
    PeerCopy& copy = test.pair.a.peer_copy->core;
    control.reading = 1;
    CHECK(test.pair.a.mpt.destroy(test.from.key) == CmdStatus::kOk);
    CHECK(control.slots[1].load() == 0);
    CHECK(copy.is_busy());
    control.reading = 0;
    CHECK_FALSE(copy.is_busy());
}

TEST_CASE("held completions that overrun many CQs cause one search for their QPs") {
    constexpr uint32_t kMembers = 96;
    constexpr uint32_t kQkey = 5;
    Writing test;
    Hca& a = test.pair.a;
    pib_hca_mcast group{};
    group.mgid[0] = 0xff;
    group.mgid[1] = 0x12;
    group.mlid = 0xc001;
    const Buffer buffer = a.make_buffer(4096);
    for (uint32_t i = 0; i < kMembers; ++i) {
        Qp member = a.create({.type = PIB_HCA_QP_UD, .log_depth = 1, .log_cq_depth = 0});
        start_datagram(a, member, kQkey);
        a.post_recv(member, {buffer.all()});
        a.post_recv(member, {buffer.all()});
        REQUIRE(attach_mcast(a, member.qpn, group) == CmdStatus::kOk);
    }
    Qp sender = a.create({.type = PIB_HCA_QP_UD});
    start_datagram(a, sender, kQkey);
    SendWr wr{.dest_qpn = 0xffffff, .qkey = kQkey};
    wr.av.dlid = group.mlid;
    wr.av.port = 1;
    wr.av.flags = PIB_HCA_AV_GRH;
    std::ranges::copy(group.mgid, wr.av.dgid);
    a.post(sender, wr);  // fills the CQs
    (void)a.transport.run();
    REQUIRE(a.poll(sender));

    a.port.capacity = 1000;
    test.post();
    REQUIRE(test.live() == 1);
    auto& control = a.peer_copy->control();
    control.reading = 1;
    CHECK(a.mpt.destroy(test.from.key) == CmdStatus::kOk);
    REQUIRE(a.peer_copy->core.is_busy());
    a.post(sender, wr);
    (void)a.transport.run();
    CHECK(a.events().empty());
    control.reading = 0;
    a.transport.release_completions();
    const auto events = a.events();
    CHECK(std::ranges::count(events, PIB_HCA_EVENT_CQ_ERROR, &pib_hca_eqe::type) == kMembers);
    CHECK(std::ranges::count(events, PIB_HCA_EVENT_QP_FATAL, &pib_hca_eqe::type) == kMembers);
    REQUIRE(a.poll(sender));
    // After many searches a doorbell would wait for the next turn.
    a.post(sender, wr);
    CHECK(a.poll(sender));
}

TEST_CASE("a switch that does not answer is given up once") {
    Writing test;
    test.pair.a.port.capacity = 1000;
    test.post();
    REQUIRE(test.live() == 1);
    test.pair.a.peer_copy->control().reading = 1;
    PeerCopy& copy = test.pair.a.peer_copy->core;
    CHECK(test.pair.a.mpt.destroy(test.from.key) == CmdStatus::kOk);
    wait_out(copy, test.pair.a.host);
    CHECK(copy.settled());
    copy.revoke_all();
    CHECK(copy.settled());
}

TEST_CASE("the time that a switch took to answer does not count for its next answer") {
    Writing test;
    const Buffer other = test.pair.a.make_buffer(kBytes);
    test.pair.a.port.capacity = 1000;
    test.post();
    SendWr second = test.wr();
    second.sges = {other.all()};
    test.pair.a.post(test.connection.a, second);
    REQUIRE(test.live() == 2);
    auto& control = test.pair.a.peer_copy->control();
    PeerCopy& copy = test.pair.a.peer_copy->core;
    control.reading = 1;
    CHECK(test.pair.a.mpt.destroy(test.from.key) == CmdStatus::kOk);
    wait_out(copy, test.pair.a.host);
    control.reading = 0;
    // As at a doorbell: the command that waited completes, and the next one revokes the other
    // offer.
    CHECK_FALSE(copy.is_busy());
    control.reading = 2;
    CHECK(test.pair.a.mpt.destroy(other.key) == CmdStatus::kOk);
    wait_out(copy, test.pair.a.host);
    CHECK(copy.settled());
}

}  // namespace pib::hca::test
