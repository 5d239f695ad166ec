// SPDX-License-Identifier: GPL-2.0-or-later
// Random RC traffic between guests over HCAs, links and switch, with loss, duplication, reordering
// and corruption: every byte arrives, every request completes once, and the same seed gives the
// same run.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <random>
#include <string>

#include "mini_sm.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr uint32_t kSlots = 16;  // requests in flight in each direction
constexpr uint32_t kMaxBytes = 48 * 1024;
constexpr uint32_t kSlotBytes = 64 * 1024;
constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                             PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;

// A hash of all packets that the switch sees, which identifies the run.
class Trace final : public fabric::PacketTap {
  public:
    void packet_seen(std::span<const uint8_t> packet, const fabric::Arrival& arrival) override {
        mix(arrival.now_ns);
        mix(packet.size());
        for (const uint8_t byte : packet) {
            hash_ = (hash_ ^ byte) * 0x100000001b3;
        }
        ++packets_;
    }
    uint64_t hash() const { return hash_; }
    uint64_t packets() const { return packets_; }

  private:
    void mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3; }
    uint64_t hash_ = 0xcbf29ce484222325;
    uint64_t packets_ = 0;
};

// One guest's end of the connection and its memory, in slots by request.
struct End {
    Guest& guest;
    MiniMr out;       // data that this end sends and writes
    MiniMr in;        // data that the peer sends and writes
    MiniMr read_out;  // data that the peer reads
    MiniMr read_in;   // data that this end has read
    MiniMr counter;   // the peer's atomics add to it
    MiniMr old;       // results of this end's atomics
    MiniCq cq;
    MiniQp qp;
    uint64_t added = 0;  // sum that this end adds to the peer's counter

    explicit End(Guest& g) : guest(g) {
        MiniDriver& driver = guest.driver;
        for (MiniMr* mr : {&out, &in, &read_out, &read_in}) {
            *mr = driver.create_mr(guest.pd, kSlots * kSlotBytes, kAccess);
        }
        counter = driver.create_mr(guest.pd, 8, kAccess);
        old = driver.create_mr(guest.pd, kSlots * 8, kAccess);
        cq = driver.create_cq(driver.create_eq(3).eqn, 8);
        QpShape shape;
        shape.pd = guest.pd;
        shape.send_cq = shape.recv_cq = cq.cqn;
        shape.log_sq_depth = shape.log_rq_depth = 5;
        qp = driver.create_qp(shape);
    }
};

void connect(End& from, const End& to, uint16_t dlid) {
    RcPath path;
    path.av.dlid = dlid;
    path.dest_qpn = to.qp.qpn;
    path.timeout = 12;                     // 16 ms
    path.sq_psn = path.rq_psn = 0xfffff0;  // wraps at once
    from.guest.driver.connect_rc(from.qp, path);
}

constexpr pib_hca_wqe_opcode kOpcodes[] = {PIB_HCA_WQE_SEND,       PIB_HCA_WQE_SEND_WITH_IMM,
                                           PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM,
                                           PIB_HCA_WQE_RDMA_READ,  PIB_HCA_WQE_FETCH_ADD};

struct Transfer {
    pib_hca_wqe_opcode opcode;
    uint32_t slot;
    std::vector<uint8_t> data;
    uint64_t old = 0;  // result that an atomic must return

    bool is(pib_hca_wqe_opcode which) const { return opcode == which; }
    bool consumes_receive() const {
        return is(PIB_HCA_WQE_SEND) || is(PIB_HCA_WQE_SEND_WITH_IMM) ||
               is(PIB_HCA_WQE_RDMA_WRITE_WITH_IMM);
    }
    uint64_t offset() const { return uint64_t{slot} * kSlotBytes; }
    uint32_t bytes() const { return static_cast<uint32_t>(data.size()); }
};

class Traffic {
  public:
    Traffic(uint64_t seed, const fabric::FaultSpec& faults, const hca::Config& base = {})
        : random_(seed), subnet_(2, default_link_mode(), Subnet::kSmallRing, base) {
        MiniSm sm(subnet_, subnet_.guest(0));
        sm.tries = 4;
        sm.sweep();
        ends_.reserve(2);
        ends_.emplace_back(subnet_.guest(0));
        ends_.emplace_back(subnet_.guest(1));
        connect(ends_[0], ends_[1], sm.lid_of(1));
        connect(ends_[1], ends_[0], sm.lid_of(0));
        fabric::FaultSpec seeded = faults;
        seeded.seed = seed;
        subnet_.set_faults(seeded);
        subnet_.sw.set_tap(&trace_);
    }

    // Runs rounds of up to kSlots requests in both directions until `bytes` bytes have been moved.
    void run(uint64_t bytes) {
        while (moved_ < bytes) {
            round();
        }
        for (size_t side = 0; side < 2; ++side) {
            REQUIRE(ends_[side].counter.memory.peek<uint64_t>(0) == ends_[1 - side].added);
        }
    }
    const Trace& trace() const { return trace_; }
    Subnet& subnet() { return subnet_; }

  private:
    void round() {
        std::array<std::vector<Transfer>, 2> transfers;
        std::array<size_t, 2> expected{};
        for (size_t side = 0; side < 2; ++side) {
            transfers[side] = choose();
            for (Transfer& transfer : transfers[side]) {
                prepare(ends_[side], ends_[1 - side], transfer);
                ++expected[side];
                expected[1 - side] += transfer.consumes_receive();
            }
        }
        for (size_t side = 0; side < 2; ++side) {
            for (const Transfer& transfer : transfers[side]) {
                post(ends_[side], ends_[1 - side], transfer);
            }
        }
        await(expected);
        for (size_t side = 0; side < 2; ++side) {
            for (const Transfer& transfer : transfers[side]) {
                verify(ends_[side], ends_[1 - side], transfer);
            }
        }
    }

    void await(const std::array<size_t, 2>& expected) {
        std::array<size_t, 2> completed{};
        const auto done = [&] {
            for (size_t side = 0; side < 2; ++side) {
                while (const auto cqe = ends_[side].guest.driver.poll(ends_[side].cq)) {
                    REQUIRE(cqe->status == PIB_HCA_WC_SUCCESS);
                    ++completed[side];
                }
            }
            return completed == expected;
        };
        REQUIRE(subnet_.run_until(done));
    }

    std::vector<Transfer> choose() {
        std::vector<Transfer> transfers;
        const uint64_t count = 1 + random_() % kSlots;
        for (uint32_t slot = 0; slot < count; ++slot) {
            const uint64_t limit = random_() % 3 == 0 ? 300 : kMaxBytes;
            Transfer transfer{kOpcodes[random_() % std::size(kOpcodes)], slot, {}};
            transfer.data.resize(transfer.is(PIB_HCA_WQE_FETCH_ADD) ? 0 : random_() % (limit + 1));
            for (uint8_t& byte : transfer.data) {
                byte = static_cast<uint8_t>(random_());
            }
            moved_ += transfer.data.size();
            transfers.push_back(std::move(transfer));
        }
        return transfers;
    }

    static void prepare(End& from, End& to, Transfer& transfer) {
        MiniMr& source = transfer.is(PIB_HCA_WQE_RDMA_READ) ? to.read_out : from.out;
        source.memory.write(transfer.offset(), transfer.data);
        transfer.old = from.added;
        from.added += transfer.is(PIB_HCA_WQE_FETCH_ADD) ? transfer.slot + 1 : 0;
        if (transfer.consumes_receive()) {
            const pib_hca_sge sge = MiniDriver::sge(to.in, transfer.offset(), kMaxBytes);
            to.guest.driver.post_recv(to.qp, {&sge, 1});
        }
    }

    static void post(End& from, End& to, const Transfer& transfer) {
        SendWr request;
        request.opcode = transfer.opcode;
        const MiniMr* local = &from.out;
        const MiniMr* remote = &to.in;
        uint32_t bytes = transfer.bytes();
        uint64_t offset = transfer.offset();
        if (transfer.is(PIB_HCA_WQE_RDMA_READ)) {
            local = &from.read_in;
            remote = &to.read_out;
        } else if (transfer.is(PIB_HCA_WQE_FETCH_ADD)) {
            local = &from.old;
            remote = &to.counter;
            bytes = 8;
            offset = 0;
            request.swap_or_add = transfer.slot + 1;
        }
        const uint64_t at = transfer.is(PIB_HCA_WQE_FETCH_ADD) ? transfer.slot * 8 : offset;
        request.sges = {MiniDriver::sge(*local, at, bytes)};
        request.remote_addr = remote->addr + offset;
        request.rkey = remote->key;
        from.guest.driver.post_send(from.qp, request);
    }

    static void verify(End& from, End& to, const Transfer& transfer) {
        if (transfer.is(PIB_HCA_WQE_FETCH_ADD)) {
            REQUIRE(from.old.memory.peek<uint64_t>(transfer.slot * 8) == transfer.old);
            return;
        }
        const MiniMr& target = transfer.is(PIB_HCA_WQE_RDMA_READ) ? from.read_in : to.in;
        std::vector<uint8_t> got(transfer.data.size());
        target.memory.read(transfer.offset(), got);
        REQUIRE((got == transfer.data));
    }

    std::mt19937_64 random_;
    Subnet subnet_;
    Trace trace_;
    std::vector<End> ends_;
    uint64_t moved_ = 0;
};

fabric::FaultSpec every_fault() {
    fabric::FaultSpec faults;
    faults.drop = 0.01;
    faults.duplicate = 0.005;
    faults.reorder = 0.005;
    faults.corrupt = 0.002;
    return faults;
}

// MiB to move: PIB_TRAFFIC_MIB, by default 8. The guest tests move 1024.
uint64_t traffic_bytes() {
    const char* mib = std::getenv("PIB_TRAFFIC_MIB");
    return (mib != nullptr ? std::strtoull(mib, nullptr, 10) : 8) << 20;
}

// An adversarial device. It lacks the kind `ports`, with which requests would use up their retries,
// and the kind `commands`, whose waits would move the clock that the guests share.
hca::Config adversary(uint64_t seed) {
    hca::Config config;
    config.knobs.adversary =
        hca::AdversaryPlan::parse(std::to_string(seed) +
                                  ":interrupts+events+writes+fetches+numbers+retries+clock")
            .value();
    return config;
}

}  // namespace

TEST_CASE("random RC traffic over a fabric without faults needs no retry") {
    Traffic traffic(1, {});
    traffic.run(4 << 20);
    for (unsigned i = 0; i < 2; ++i) {
        Guest& guest = traffic.subnet().guest(i);
        CHECK(guest.counter(PIB_HCA_COUNTER_OUT_OF_SEQUENCE) == 0);
        CHECK(guest.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) == 0);
        CHECK(guest.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) == 0);
        CHECK(guest.counter(PIB_HCA_COUNTER_RX_DROPPED) == 0);
    }
}

TEST_CASE("random RC traffic with 1 % loss and worse arrives bit-exact") {
    Traffic traffic(2, every_fault());
    traffic.run(traffic_bytes());
    const auto faults = traffic.subnet().fault_counts();
    CHECK(faults.dropped > 0);
    CHECK(faults.duplicated > 0);
    CHECK(faults.reordered > 0);
    CHECK(faults.corrupted > 0);
}

TEST_CASE("random RC traffic between adversarial devices arrives bit-exact") {
    uint64_t repeated = 0, sequence = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        Traffic traffic(seed, {}, adversary(seed));
        traffic.run(2 << 20);
        for (unsigned i = 0; i < 2; ++i) {
            repeated += traffic.subnet().guest(i).counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST);
            sequence += traffic.subnet().guest(i).counter(PIB_HCA_COUNTER_PACKET_SEQ_ERR);
        }
    }
    CHECK(repeated > 0);
    CHECK(sequence > 0);
}

TEST_CASE("the ports of an adversarial device go down and come up after a reset") {
    unsigned down = 0;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        hca::Config config;
        config.knobs.adversary = hca::AdversaryPlan::parse(std::to_string(seed) + ":ports").value();
        Subnet subnet(2, default_link_mode(), Subnet::kSmallRing, config);
        MiniSm sm(subnet, subnet.guest(0));
        subnet.guest(1).device->reset(false);
        subnet.guest(1).start();
        sm.sweep();
        (void)subnet.guest(1).take_port_events();
        subnet.advance(hca::Adversary::kFlapsNs);
        down += (subnet.guest(1).take_port_events() & PIB_HCA_PORT_EVENT_ERROR) != 0 ? 1 : 0;
        sm.sweep();
        CHECK(subnet.guest(1).query_port().state == 4);
        subnet.advance(hca::Adversary::kFlapsNs);
        CHECK(subnet.guest(1).query_port().state == 4);
    }
    CHECK(down > 2);
}

// Doorbells fill the link while the peer does not poll. The rest is sent when there is room,
// without a timer.
TEST_CASE("a burst larger than the link's buffers is sent in one turn") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    End from(subnet.guest(0)), to(subnet.guest(1));
    connect(from, to, sm.lid_of(1));
    connect(to, from, sm.lid_of(0));
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
        SendWr request;
        request.opcode = PIB_HCA_WQE_RDMA_WRITE;
        request.sges = {MiniDriver::sge(from.out, uint64_t{slot} * kSlotBytes, kSlotBytes)};
        request.remote_addr = to.in.addr;
        request.rkey = to.in.key;
        from.guest.driver.post_send(from.qp, request);
    }
    const uint64_t before = subnet.now_ns();
    subnet.settle();
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const auto cqe = from.guest.driver.poll(from.cq);
        REQUIRE(cqe);
        CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
    }
    CHECK(subnet.now_ns() == before);
}

TEST_CASE("the same seed gives the same packets, and another seed gives others") {
    const auto run = [](uint64_t seed) {
        Traffic traffic(seed, every_fault());
        traffic.run(1 << 20);
        return std::pair(traffic.trace().hash(), traffic.trace().packets());
    };
    const auto first = run(7);
    CHECK(first.second > 1000);
    CHECK(run(7) == first);
    CHECK(run(8) != first);
}
