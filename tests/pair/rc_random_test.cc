// SPDX-License-Identifier: GPL-2.0-or-later
// Random operations of every kind, in both directions, on a wire with loss, duplication and
// reordering: every signalled WQE completes once and in order, every byte is right, atomics execute
// once. The same seed gives the same run.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <deque>

#include "random_drive.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kSlotBytes = 8192;
constexpr unsigned kLogDepth = 5;
constexpr uint32_t kSlots = 1u << kLogDepth;

struct Operation {
    uint8_t opcode = 0;
    bool signalled = false;
    uint32_t length = 0;
    uint32_t imm = 0;
    std::vector<uint8_t> data;
};

// One direction of one connection: the posting end and the executing end.
struct Flow {
    Hca* from;
    Hca* to;
    Qp* qp;
    Qp* peer;
    Buffer local;                    // a slot for each send WQE
    Buffer remote;                   // a slot for each: target of WRITE, source of READ
    Buffer receive;                  // at the executing side: a slot for each receive WQE
    std::deque<Operation> posted;    // oldest first; not yet known to be complete
    std::deque<Operation> expected;  // messages that take a receive WQE
    uint32_t receives_posted = 0;
    uint32_t receives_done = 0;
    uint32_t completed = 0;  // counter of the oldest in `posted`
};

class RandomTraffic final : public RandomDrive<Flow> {
  public:
    RandomTraffic(uint64_t seed, const Faults& faults, unsigned connections)
        : RandomDrive(seed, faults, kSlots) {
        word_ = pair_.b.make_buffer(64);
        flows_.reserve(connections * 2);
        for (unsigned i = 0; i < connections; ++i) {
            const RcAttributes attr{.path_mtu = static_cast<uint8_t>(1 + i % 3),
                                    .psn = 0xffff00u + i,
                                    .timeout = 8,
                                    .max_rd_atomic = static_cast<uint8_t>(1 + i * 3),
                                    .max_dest_rd_atomic = static_cast<uint8_t>(1 + i * 3)};
            connections_.push_back(
                pair_.rc_pair(attr, {.log_depth = kLogDepth, .log_sq_stride = 9}));
        }
        for (auto& connection : connections_) {
            add_flow(pair_.a, pair_.b, connection.a, connection.b);
            add_flow(pair_.b, pair_.a, connection.b, connection.a);
        }
    }

    void run(unsigned operations) {
        post_all(operations);
        finish();
    }

  private:
    void add_flow(Hca& from, Hca& to, Qp& qp, Qp& peer) {
        flows_.push_back({.from = &from,
                          .to = &to,
                          .qp = &qp,
                          .peer = &peer,
                          .local = from.make_buffer(kSlots * kSlotBytes),
                          .remote = to.make_buffer(kSlots * kSlotBytes),
                          .receive = to.make_buffer(kSlots * kSlotBytes),
                          .posted = {},
                          .expected = {}});
    }

    std::vector<uint8_t> random_bytes(uint32_t length) {
        std::vector<uint8_t> data(length);
        uint64_t bits = random_();
        for (auto& byte : data) {
            byte = static_cast<uint8_t>(bits >> 56);
            bits = bits * 6364136223846793005u + 1442695040888963407u;
        }
        return data;
    }

    uint32_t random_length() {
        switch (random_() % 4) {
            case 0:
                return static_cast<uint32_t>(random_() % 16);
            case 1:
                return static_cast<uint32_t>(256 * (random_() % 8));
            default:
                return static_cast<uint32_t>(random_() % 5000);
        }
    }

    std::vector<pib_hca_sge> split(const Buffer& buffer, uint64_t offset, uint32_t length) {
        std::vector<pib_hca_sge> sges;
        while (length != 0 && sges.size() < 4) {
            const auto part = static_cast<uint32_t>(1 + random_() % length);
            sges.push_back(buffer.sge(offset, part));
            offset += part;
            length -= part;
        }
        if (length != 0) {
            sges.push_back(buffer.sge(offset, length));
        }
        return sges;
    }

    void post(Flow& flow) override {
        Operation op;
        op.opcode = static_cast<uint8_t>(random_() % 7);
        // CMP_SWAP would disturb the sums of the others; FETCH_ADD stands for both.
        if (op.opcode == PIB_HCA_WQE_CMP_SWAP) {
            op.opcode = PIB_HCA_WQE_FETCH_ADD;
        }
        const bool atomic = op.opcode == PIB_HCA_WQE_FETCH_ADD;
        // At least every eighth request is signalled, so that the poster learns of free places.
        op.signalled = random_() % 2 == 0 || flow.qp->sq_producer % 8 == 7;
        op.length = atomic ? 8 : random_length();
        op.imm = static_cast<uint32_t>(random_());
        op.data = random_bytes(op.length);
        const uint64_t slot = uint64_t{flow.qp->sq_producer % kSlots} * kSlotBytes;
        SendWr wr{.opcode = op.opcode,
                  .flags = static_cast<uint8_t>((op.signalled ? PIB_HCA_WQE_SIGNALED : 0) |
                                                (random_() % 8 == 0 ? PIB_HCA_WQE_FENCE : 0)),
                  .imm = op.imm,
                  .sges = split(flow.local, slot, op.length),
                  .remote_addr = flow.remote.addr + slot,
                  .rkey = flow.remote.key};
        if (atomic) {
            wr.sges = {flow.local.sge(slot, 8)};
            const bool shared = flow.to == &pair_.b;
            wr.remote_addr = shared ? word_.addr : flow.remote.addr + slot;
            wr.rkey = shared ? word_.key : flow.remote.key;
            wr.swap_or_add = 1;
            adds_ += shared ? 1 : 0;
        } else if (op.opcode == PIB_HCA_WQE_RDMA_READ) {
            flow.to->host.poke_bytes(flow.remote.addr + slot, op.data);
        } else {
            flow.from->host.poke_bytes(flow.local.addr + slot, op.data);
            if (op.length != 0 && op.length <= 256 && random_() % 2 == 0) {
                wr.inline_data = op.data;
            }
        }
        if (op.opcode <= PIB_HCA_WQE_SEND_WITH_IMM ||
            op.opcode == PIB_HCA_WQE_RDMA_WRITE_WITH_IMM) {
            flow.expected.push_back(op);
        }
        flow.posted.push_back(std::move(op));
        flow.from->post(*flow.qp, wr);
    }

    // Receives are posted late now and then, so that RNR NAKs occur.
    void replenish(Flow& flow) override {
        unsigned count = static_cast<unsigned>(random_() % 4);
        while (count-- != 0 && flow.receives_posted - flow.receives_done < kSlots) {
            const uint64_t slot = uint64_t{flow.receives_posted % kSlots} * kSlotBytes;
            flow.to->post_recv(*flow.peer, split(flow.receive, slot, kSlotBytes));
            ++flow.receives_posted;
        }
    }

    // Whether all signalled requests are complete; nothing reports the unsignalled ones at the end.
    static bool done(const Flow& flow) {
        return flow.expected.empty() &&
               std::ranges::none_of(flow.posted, [](const Operation& op) { return op.signalled; });
    }

    void finish() {
        progress_until(done);
        for (const Flow& flow : flows_) {
            REQUIRE(done(flow));
        }
        pair_.run_until([] { return false; }, 1000);
        poll();
        REQUIRE(pair_.b.host.peek<uint64_t>(word_.addr) == adds_);
    }

    bool poll() override {
        bool any = false;
        for (Flow& flow : flows_) {
            while (const auto cqe = flow.from->poll(*flow.qp)) {
                any = true;
                completed(flow, *cqe);
            }
        }
        return any;
    }

    // Each QP completes both its sends and its receives in one CQ.
    void completed(Flow& flow, const pib_hca_cqe& cqe) {
        INFO("status " << unsigned{cqe.status} << " opcode " << unsigned{cqe.opcode} << " wqe "
                       << cqe.wqe_counter);
        REQUIRE(cqe.status == PIB_HCA_WC_SUCCESS);
        if ((cqe.opcode & PIB_HCA_CQE_IS_RECV) != 0) {
            Flow& inbound = *std::ranges::find_if(
                flows_, [&](const Flow& other) { return other.peer == flow.qp; });
            received(inbound, cqe);
            return;
        }
        // All requests before this one are complete, too, and none of them was signalled.
        while (flow.completed != cqe.wqe_counter) {
            REQUIRE(!flow.posted.front().signalled);
            check_sent(flow);
        }
        REQUIRE(flow.posted.front().signalled);
        check_sent(flow);
    }

    void check_sent(Flow& flow) {
        REQUIRE(!flow.posted.empty());
        const Operation op = std::move(flow.posted.front());
        flow.posted.pop_front();
        const uint64_t slot = uint64_t{flow.completed % kSlots} * kSlotBytes;
        ++flow.completed;
        std::vector<uint8_t> seen(op.length);
        if (op.opcode == PIB_HCA_WQE_RDMA_READ) {
            flow.from->host.peek_bytes(flow.local.addr + slot, seen);
            REQUIRE(seen == op.data);
        } else if (op.opcode == PIB_HCA_WQE_RDMA_WRITE ||
                   op.opcode == PIB_HCA_WQE_RDMA_WRITE_WITH_IMM) {
            flow.to->host.peek_bytes(flow.remote.addr + slot, seen);
            REQUIRE(seen == op.data);
        } else if (op.opcode == PIB_HCA_WQE_FETCH_ADD && flow.to == &pair_.b) {
            const auto old = flow.from->host.peek<uint64_t>(flow.local.addr + slot);
            REQUIRE(old < adds_);
            returned_.resize(std::max<size_t>(returned_.size(), old + 1));
            REQUIRE(!returned_[old]);
            returned_[old] = true;
        }
    }

    void received(Flow& flow, const pib_hca_cqe& cqe) {
        REQUIRE(!flow.expected.empty());
        const Operation op = std::move(flow.expected.front());
        flow.expected.pop_front();
        REQUIRE(cqe.wqe_counter == flow.receives_done);
        const uint64_t slot = uint64_t{flow.receives_done++ % kSlots} * kSlotBytes;
        REQUIRE(cqe.byte_count == op.length);
        const bool with_imm = op.opcode != PIB_HCA_WQE_SEND;
        REQUIRE(((cqe.flags & PIB_HCA_CQE_FLAG_IMM) != 0) == with_imm);
        REQUIRE((!with_imm || cqe.imm_data == op.imm));
        if (op.opcode == PIB_HCA_WQE_RDMA_WRITE_WITH_IMM) {
            REQUIRE(cqe.opcode == PIB_HCA_CQE_RECV_RDMA_WITH_IMM);
            return;
        }
        std::vector<uint8_t> seen(op.length);
        flow.to->host.peek_bytes(flow.receive.addr + slot, seen);
        REQUIRE(seen == op.data);
    }

    std::vector<Pair::Connection> connections_;
    Buffer word_;
    uint64_t adds_ = 0;
    std::vector<bool> returned_;
};

}  // namespace

TEST_CASE("random RC traffic on a perfect wire needs no retry") {
    RandomTraffic traffic(7, {}, 3);
    traffic.run(20'000);
    CHECK(traffic.pair().a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) == 0);
    CHECK(traffic.pair().a.counter(PIB_HCA_COUNTER_OUT_OF_SEQUENCE) == 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_PACKET_SEQ_ERR) == 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) == 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) != 0);
    CHECK((traffic.pair().packets_joined != 0) == bursts_wanted());
    CHECK((traffic.pair().a.port.bursts_sent != 0) == bursts_wanted());
    CHECK((traffic.pair().offers_placed != 0) == peer_copy_wanted());
}

TEST_CASE("random RC traffic survives loss, duplication and reordering") {
    const uint64_t seed = GENERATE(uint64_t{1}, uint64_t{2}, new_seed());
    CAPTURE(seed);
    RandomTraffic traffic(seed, {.drop_percent = 3, .duplicate_percent = 2, .reorder_percent = 3},
                          4);
    traffic.run(100'000);
    CHECK(traffic.pair().a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) != 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) != 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_OUT_OF_SEQUENCE) != 0);
    CHECK((traffic.pair().packets_joined != 0) == bursts_wanted());
    CHECK((traffic.pair().a.port.bursts_sent != 0) == bursts_wanted());
    CHECK((traffic.pair().offers_placed != 0) == peer_copy_wanted());
}
