// SPDX-License-Identifier: GPL-2.0-or-later
// VL arbitration from end to end: tables of an SM, QPs of an HCA on two VLs, and their shares at
// the switch. A static rate below the link's rate makes the HCA's port the bottleneck. If the next
// port's credits were the bottleneck, arbitration would have no choice, because each VL has credits
// of its own.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <deque>

#include "mini_sm.h"
#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr uint8_t kRate2_5 = 2;
constexpr uint32_t kMessage = 256 * 1024;
// A packet with 1024 bytes of payload is 17 units of 64 bytes, with a RETH or without.
constexpr uint8_t kPacketWeight = 17;
constexpr uint32_t kHigh = 3;  // VLArbitrationTable's blocks
constexpr uint32_t kLow = 1;

// Data packets to one LID, by VL.
class Lanes final : public fabric::PacketTap {
  public:
    explicit Lanes(uint16_t dlid) : dlid_(dlid) {}
    void packet_seen(std::span<const uint8_t> packet, const fabric::Arrival&) override {
        const auto lrh = ib::Lrh::parse(packet.first<ib::Lrh::kSize>());
        if (lrh.dlid.value() == dlid_ && packet.size() > 1024 && ++seen_ > first && seen_ <= last) {
            ++packets[lrh.vl.value()];
        }
    }
    uint64_t all() const { return packets[0] + packets[1]; }

    std::array<uint64_t, 16> packets{};  // packets after `first`, up to `last`
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;

  private:
    uint16_t dlid_;
    uint64_t seen_ = 0;
};

// RC QPs of guest 0 that write to guest 1 without end.
struct Flows {
    explicit Flows(Subnet& net) : subnet(net), sm(net, net.guest(0)) {
        sm.sweep();
        lanes = std::make_unique<Lanes>(sm.lid_of(1));
        subnet.sw.set_tap(lanes.get());
        for (unsigned i = 0; i < 2; ++i) {
            Guest& guest = subnet.guest(i);
            mr[i] = guest.driver.create_mr(
                guest.pd, kMessage, PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE);
        }
    }

    ~Flows() { subnet.sw.set_tap(nullptr); }

    void set_table(uint32_t block, std::initializer_list<ib::VlArbEntry> entries) {
        std::array<uint8_t, ib::kSmpDataSize> data{};
        size_t at = 0;
        for (const ib::VlArbEntry& entry : entries) {
            data[at++] = entry.vl;
            data[at++] = entry.weight;
        }
        const auto answer =
            sm.ask(ib::Method::kSet, ib::attr::kVlArbitrationTable, block << 16 | 1, {}, data);
        REQUIRE(answer.has_value());
        REQUIRE(answer->status() == 0);
    }

    MiniQp create(unsigned guest) {
        QpShape shape;
        shape.pd = subnet.guest(guest).pd;
        shape.send_cq = shape.recv_cq = subnet.guest(guest).cq.cqn;
        shape.log_sq_depth = 6;
        return subnet.guest(guest).driver.create_qp(shape);
    }
    // Adds a QP with this SL. The HCA maps SL n to VL n.
    void add(uint8_t sl, uint8_t static_rate = kRate2_5) {
        const std::array<MiniQp, 2> qps = {create(0), create(1)};
        for (unsigned i = 0; i < 2; ++i) {
            RcPath path;
            path.av.dlid = sm.lid_of(1 - i);
            path.av.sl = sl;
            path.av.static_rate = static_rate;
            path.dest_qpn = qps[1 - i].qpn;
            path.timeout = 20;  // 4 s, longer than the test
            subnet.guest(i).driver.connect_rc(qps[i], path);
        }
        senders.push_back(qps[0]);
    }
    void post() {
        SendWr request = remote_request(PIB_HCA_WQE_RDMA_WRITE, mr[0], mr[1], kMessage);
        request.flags = 0;
        for (MiniQp& qp : senders) {
            for (unsigned i = 0; i < 32; ++i) {
                subnet.guest(0).driver.post_send(qp, request);
            }
        }
    }
    void start() {
        post();
        (void)run(300);  // passes packets sent before the second QP started
    }
    // Counts by VL of the next `packets` packets, or a few more.
    std::array<uint64_t, 16> run(uint64_t packets) {
        lanes->packets = {};
        REQUIRE(subnet.run_until([&] { return lanes->all() >= packets; }));
        return lanes->packets;
    }

    Subnet& subnet;
    MiniSm sm;
    std::unique_ptr<Lanes> lanes;
    std::array<MiniMr, 2> mr;
    std::deque<MiniQp> senders;
};

// Whether two counts differ by no more than `slack`, such as a round of the table.
bool is_near(uint64_t a, uint64_t b, uint64_t slack) {
    return a <= b + slack && b <= a + slack;
}

}  // namespace

TEST_CASE("two VLs of an HCA share a path by the weights that the SM has set") {
    Subnet subnet(2);
    Flows flows(subnet);
    flows.set_table(kHigh, {});
    flows.set_table(kLow, {{0, 2 * kPacketWeight}, {1, 6 * kPacketWeight}});
    flows.add(0);
    flows.add(1);
    flows.start();
    const auto first = flows.run(4000);
    CHECK(is_near(3 * first[0], first[1], 50));

    flows.set_table(kLow, {{0, 5 * kPacketWeight}, {1, kPacketWeight}});
    const auto second = flows.run(4000);
    CHECK(is_near(second[0], 5 * second[1], 150));
}

TEST_CASE("two VLs of an HCA share a link's ring that has less room than either has credit") {
    Subnet subnet(2, LinkMode::kShared, Subnet::kSmallRing);
    Flows flows(subnet);
    flows.set_table(kHigh, {});
    flows.set_table(kLow, {{0, 2 * kPacketWeight}, {1, 6 * kPacketWeight}});
    flows.add(0, 0);
    flows.add(1, 0);
    flows.lanes->first = 500;
    flows.lanes->last = 4500;  // out of 16384, while both have data to send
    flows.post();
    subnet.settle();
    CHECK(flows.lanes->all() == 4000);
    CHECK(is_near(3 * flows.lanes->packets[0], flows.lanes->packets[1], 50));
}

TEST_CASE("QPs of a VL share the VL's bandwidth") {
    Subnet subnet(2);
    Flows flows(subnet);
    flows.set_table(kHigh, {});
    flows.set_table(kLow, {{0, 4 * kPacketWeight}, {1, 4 * kPacketWeight}});
    flows.add(0);
    flows.add(0);
    flows.add(0);
    flows.add(1);
    flows.start();
    const auto sent = flows.run(4000);
    CHECK(is_near(sent[0], sent[1], 50));
}

TEST_CASE("a VL of the high-priority table without a limit takes all bandwidth") {
    Subnet subnet(2);
    Flows flows(subnet);
    flows.set_table(kHigh, {{1, 1}});
    flows.set_table(kLow, {{0, 255}});
    flows.sm.set_high_limit({}, 255);
    flows.add(0);
    flows.add(1);
    flows.start();
    CHECK(flows.run(4000)[0] == 0);

    flows.sm.set_high_limit({}, 1);  // 4096 bytes: four packets, then one of low priority
    const auto limited = flows.run(4000);
    CHECK(is_near(4 * limited[0], limited[1], 150));
}
