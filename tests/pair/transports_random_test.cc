// SPDX-License-Identifier: GPL-2.0-or-later
// Random operations over RC, XRC, UC and UD at once, on a wire with loss, duplication and
// reordering. Every WQE completes once and in order. Messages of reliable transports arrive once,
// in order and unchanged; messages that the others deliver are complete and were sent. No other
// memory changes. The same seed gives the same run.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <deque>

#include "random_drive.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kSlotBytes = 8192;
constexpr uint32_t kLargest = 5000;    // bytes: some packets
constexpr uint32_t kLargestUd = 4000;  // bytes: one packet
constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kCanaryBytes = 64;  // at the end of every slot, where no message reaches
constexpr uint8_t kCanary = 0xc5;
constexpr unsigned kLogDepth = 5;
constexpr uint32_t kSlots = 1u << kLogDepth;
constexpr uint32_t kQkey = 0x1234;
constexpr uint32_t kDomain = 7;

// The first bytes of a message. They determine its other bytes.
struct Header {
    uint32_t flow;
    uint32_t number;  // number of the message in its flow
    uint32_t length;
    uint32_t seed;
};

std::vector<uint8_t> contents(const Header& header) {
    std::vector<uint8_t> bytes(header.length);
    uint64_t state = uint64_t{header.seed} << 32 | header.number;
    for (size_t i = sizeof header; i < bytes.size(); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = static_cast<uint8_t>(state >> 56);
    }
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

struct Operation {
    uint8_t opcode = 0;
    bool signalled = false;
    Header header{};
};

bool is_message(uint8_t opcode) {
    return opcode == PIB_HCA_WQE_SEND || opcode == PIB_HCA_WQE_SEND_WITH_IMM;
}

// One direction: the posting end, the executing end, and the memory of receives.
struct Flow {
    pib_hca_qp_type type;
    Hca* from;
    Hca* to;
    Qp qp;
    Qp peer;
    Srq srq{};       // XRC: in place of the peer's own queue
    Buffer out{};    // slots by send WQE
    Buffer in{};     // slots: the target of WRITE, the source of READ
    Buffer inbox{};  // slots by receive WQE
    std::deque<Operation> posted{};
    uint32_t completed = 0;  // counter of the oldest in `posted`
    uint32_t messages = 0;   // sent so far
    uint32_t delivered = 0;
    uint32_t receives = 0;  // posted and not yet used
    uint32_t next_receive = 0;

    bool reliable() const { return type == PIB_HCA_QP_RC || type == PIB_HCA_QP_XRC_INI; }
    bool has_signalled() const {
        return std::ranges::any_of(posted, [](const Operation& op) { return op.signalled; });
    }
};

class AllTransports final : public RandomDrive<Flow> {
  public:
    AllTransports(uint64_t seed, const Faults& faults) : RandomDrive(seed, faults, kSlots) {
        sum_ = pair_.b.make_buffer(64);
        add_both_ways(PIB_HCA_QP_RC);
        add_both_ways(PIB_HCA_QP_UC);
        add_both_ways(PIB_HCA_QP_UD);
        add_xrc();
        for (Flow& flow : flows_) {
            flow.out = flow.from->make_buffer(kSlots * kSlotBytes);
            flow.in = flow.to->make_buffer(kSlots * kSlotBytes);
            flow.inbox = flow.to->make_buffer(kSlots * kSlotBytes);
            paint(flow);
        }
    }

    void run(uint64_t operations) {
        post_all(operations);
        finish();
    }

  private:
    void add_both_ways(pib_hca_qp_type type) {
        const QpConfig config{.type = type, .log_depth = kLogDepth, .log_sq_stride = 9};
        Qp a = pair_.a.create(config);
        Qp b = pair_.b.create(config);
        if (type == PIB_HCA_QP_UD) {
            start_datagram(pair_.a, a, kQkey);
            start_datagram(pair_.b, b, kQkey);
        } else {
            pair_.connect(a, b, {.timeout = 8});
        }
        flows_.push_back({.type = type, .from = &pair_.a, .to = &pair_.b, .qp = a, .peer = b});
        flows_.push_back({.type = type, .from = &pair_.b, .to = &pair_.a, .qp = b, .peer = a});
    }

    void add_xrc() {
        const Qp initiator = pair_.a.create(
            {.type = PIB_HCA_QP_XRC_INI, .log_depth = kLogDepth, .log_sq_stride = 9});
        const Qp target = pair_.b.create({.type = PIB_HCA_QP_XRC_TGT, .xrcd = kDomain});
        pair_.connect(initiator, target, {.timeout = 8});
        flows_.push_back({.type = PIB_HCA_QP_XRC_INI,
                          .from = &pair_.a,
                          .to = &pair_.b,
                          .qp = initiator,
                          .peer = target,
                          .srq = pair_.b.make_srq(kLogDepth, 1, kDomain)});
    }

    static void paint(Flow& flow) {
        const std::vector<uint8_t> canary(kCanaryBytes, kCanary);
        for (const Buffer* buffer : {&flow.in, &flow.inbox}) {
            for (uint32_t slot = 0; slot < kSlots; ++slot) {
                flow.to->host.poke_bytes(buffer->addr + (slot + 1) * kSlotBytes - kCanaryBytes,
                                         canary);
            }
        }
    }

    static void check_canaries(const Flow& flow) {
        std::vector<uint8_t> seen(kCanaryBytes);
        for (const Buffer* buffer : {&flow.in, &flow.inbox}) {
            for (uint32_t slot = 0; slot < kSlots; ++slot) {
                flow.to->host.peek_bytes(buffer->addr + (slot + 1) * kSlotBytes - kCanaryBytes,
                                         seen);
                REQUIRE(std::ranges::all_of(seen, [](uint8_t byte) { return byte == kCanary; }));
            }
        }
    }

    uint8_t choose(const Flow& flow) {
        static constexpr uint8_t kOpcodes[] = {PIB_HCA_WQE_SEND, PIB_HCA_WQE_SEND_WITH_IMM,
                                               PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ,
                                               PIB_HCA_WQE_FETCH_ADD};
        const unsigned count = flow.type == PIB_HCA_QP_UD ? 2 : flow.type == PIB_HCA_QP_UC ? 3 : 5;
        return kOpcodes[random_() % count];
    }

    void post(Flow& flow) override {
        const uint32_t limit = flow.type == PIB_HCA_QP_UD ? kLargestUd : kLargest;
        Operation op{.opcode = choose(flow),
                     .signalled = random_() % 2 == 0 || flow.qp.sq_producer % 8 == 7};
        op.header.flow = static_cast<uint32_t>(&flow - flows_.data());
        op.header.number = is_message(op.opcode) ? flow.messages++ : ~0u;
        op.header.length = sizeof(Header) + static_cast<uint32_t>(random_() % (limit - 15));
        op.header.seed = static_cast<uint32_t>(random_());
        const uint64_t slot = uint64_t{flow.qp.sq_producer % kSlots} * kSlotBytes;
        SendWr wr{.opcode = op.opcode,
                  .flags = static_cast<uint8_t>(op.signalled ? PIB_HCA_WQE_SIGNALED : 0),
                  .imm = op.header.seed,
                  .sges = {flow.out.sge(slot, op.header.length)},
                  .remote_addr = flow.in.addr + slot,
                  .rkey = flow.in.key};
        if (op.opcode == PIB_HCA_WQE_RDMA_READ) {
            flow.to->host.poke_bytes(flow.in.addr + slot, contents(op.header));
        } else {
            flow.from->host.poke_bytes(flow.out.addr + slot, contents(op.header));
        }
        if (op.opcode == PIB_HCA_WQE_FETCH_ADD) {
            add_to_sum(flow, wr, slot);
        }
        address(flow, wr);
        flow.posted.push_back(op);
        flow.from->post(flow.qp, wr);
    }

    void add_to_sum(const Flow& flow, SendWr& wr, uint64_t slot) {
        wr.sges = {flow.out.sge(slot, 8)};
        wr.swap_or_add = 1;
        if (flow.to == &pair_.b) {
            wr.remote_addr = sum_.addr;
            wr.rkey = sum_.key;
            ++adds_;
        }
    }

    static void address(const Flow& flow, SendWr& wr) {
        wr.srqn = flow.srq.srqn;
        if (flow.type == PIB_HCA_QP_UD) {
            wr.av = flow.from->av_to(*flow.to);
            wr.av.port = 1;
            wr.dest_qpn = flow.peer.qpn;
            wr.qkey = kQkey;
        }
    }

    // Posts receives late now and then, so that messages get RNR NAKs or find no receive WQE.
    void replenish(Flow& flow) override {
        for (auto count = random_() % 4; count != 0 && flow.receives < kSlots / 2; --count) {
            const uint32_t id = flow.next_receive++ % kSlots;
            const auto sge = flow.inbox.sge(uint64_t{id} * kSlotBytes, kSlotBytes - kCanaryBytes);
            if (flow.srq.srqn != 0) {
                flow.to->post_srq(flow.srq, id, {sge});
            } else {
                flow.to->post_recv(flow.peer, {sge});
            }
            ++flow.receives;
        }
    }

    static bool done(const Flow& flow) {
        return !flow.has_signalled() && (!flow.reliable() || flow.delivered == flow.messages);
    }

    void finish() {
        progress_until(done);
        pair_.run_until([] { return false; }, 1000);
        poll();
        for (const Flow& flow : flows_) {
            REQUIRE(done(flow));
            check_canaries(flow);
        }
        REQUIRE(pair_.b.host.peek<uint64_t>(sum_.addr) == adds_);
    }

    bool poll() override {
        bool any = false;
        for (Flow& flow : flows_) {
            while (const auto cqe = flow.from->poll(flow.qp)) {
                any = true;
                REQUIRE(cqe->status == PIB_HCA_WC_SUCCESS);
                if ((cqe->opcode & PIB_HCA_CQE_IS_RECV) != 0) {
                    received(inbound(flow), *cqe);
                } else {
                    sent(flow, *cqe);
                }
            }
            while (flow.srq.srqn != 0) {
                const auto cqe = flow.to->poll(flow.srq);
                if (!cqe) {
                    break;
                }
                any = true;
                REQUIRE(cqe->status == PIB_HCA_WC_SUCCESS);
                received(flow, *cqe);
            }
        }
        return any;
    }

    // The flow whose messages a QP receives.
    Flow& inbound(const Flow& flow) {
        return *std::ranges::find_if(flows_, [&](const Flow& other) {
            return other.to == flow.from && other.peer.qpn == flow.qp.qpn;
        });
    }

    void sent(Flow& flow, const pib_hca_cqe& cqe) {
        while (flow.completed != cqe.wqe_counter) {
            REQUIRE_FALSE(flow.posted.front().signalled);
            check_sent(flow);
        }
        REQUIRE(flow.posted.front().signalled);
        check_sent(flow);
    }

    void check_sent(Flow& flow) {
        REQUIRE_FALSE(flow.posted.empty());
        const Operation op = flow.posted.front();
        flow.posted.pop_front();
        const uint64_t slot = uint64_t{flow.completed++ % kSlots} * kSlotBytes;
        std::vector<uint8_t> seen(op.header.length);
        if (op.opcode == PIB_HCA_WQE_RDMA_READ) {
            flow.from->host.peek_bytes(flow.out.addr + slot, seen);
            REQUIRE(seen == contents(op.header));
        } else if (op.opcode == PIB_HCA_WQE_RDMA_WRITE && flow.reliable()) {
            flow.to->host.peek_bytes(flow.in.addr + slot, seen);
            REQUIRE(seen == contents(op.header));
        }
    }

    void received(Flow& flow, const pib_hca_cqe& cqe) {
        const uint32_t grh = flow.type == PIB_HCA_QP_UD ? kGrhBytes : 0;
        const uint64_t slot = uint64_t{cqe.wqe_counter % kSlots} * kSlotBytes + grh;
        REQUIRE(flow.receives-- != 0);
        REQUIRE(cqe.byte_count >= grh + sizeof(Header));
        std::vector<uint8_t> seen(cqe.byte_count - grh);
        flow.to->host.peek_bytes(flow.inbox.addr + slot, seen);
        Header header;
        std::memcpy(&header, seen.data(), sizeof header);
        REQUIRE(header.length == seen.size());
        REQUIRE(seen == contents(header));
        REQUIRE(&flows_[header.flow] == &flow);
        if ((cqe.flags & PIB_HCA_CQE_FLAG_IMM) != 0) {
            REQUIRE(cqe.imm_data == header.seed);
        }
        if (flow.reliable()) {
            REQUIRE(header.number == flow.delivered);
        } else {
            REQUIRE(header.number < flow.messages);
        }
        ++flow.delivered;
    }

    Buffer sum_;
    uint64_t adds_ = 0;
};

// Number of operations: PIB_RANDOM_OPERATIONS, or a default. Releases are tested with a million for
// each seed.
uint64_t operations() {
    const char* asked = std::getenv("PIB_RANDOM_OPERATIONS");
    return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 50'000;
}

}  // namespace

TEST_CASE("random traffic over all transports survives loss, duplication and reordering") {
    const uint64_t seed = GENERATE(uint64_t{1}, uint64_t{2}, new_seed());
    CAPTURE(seed);
    AllTransports traffic(seed, {.drop_percent = 3, .duplicate_percent = 2, .reorder_percent = 3});
    traffic.run(operations());
    for (const Flow& flow : traffic.flows()) {
        CHECK(flow.delivered > flow.messages / 4);
    }
    CHECK(traffic.pair().a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) != 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) != 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_RX_DROPPED) != 0);
    CHECK((traffic.pair().packets_joined != 0) == bursts_wanted());
    CHECK((traffic.pair().a.port.bursts_sent != 0) == bursts_wanted());
    CHECK((traffic.pair().offers_placed != 0) == peer_copy_wanted());
}

TEST_CASE("random traffic over all transports arrives over a perfect wire") {
    AllTransports traffic(9, {});
    traffic.run(20'000);
    CHECK(traffic.pair().a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) == 0);
    CHECK(traffic.pair().b.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) == 0);
}
