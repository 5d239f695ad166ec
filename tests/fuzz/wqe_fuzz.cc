// SPDX-License-Identifier: GPL-2.0-or-later
// Work requests: valid WQEs that are then corrupted, producers that jump, state changes at any
// moment, on one RC connection and one pair of datagram QPs. A WQE completes at most once and in
// order, and memory outside of regions does not change.
#include <array>
#include <cstring>

#include "fuzz_target.h"
#include "key_requests.h"
#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace pib::fuzz {

namespace {

constexpr size_t kMaxSteps = 300;
constexpr unsigned kStepKinds = 11;
constexpr uint64_t kGuard = 4096;
constexpr uint64_t kBuffer = 16384;
constexpr uint32_t kQkey = 0x33333333;

// A registered buffer between two pages that must not change.
struct Guarded {
    explicit Guarded(Hca& hca) : hca_(&hca), before_(hca.host.alloc(kGuard)) {
        buffer = hca.make_buffer(kBuffer, Hca::kAllAccess | PIB_HCA_ACCESS_MW_BIND);
        after_ = hca.host.alloc(kGuard);
    }
    void check() const {
        for (const uint64_t page : {before_, after_}) {
            std::array<uint8_t, kGuard> bytes;
            hca_->host.peek_bytes(page, bytes);
            require(bytes == std::array<uint8_t, kGuard>{}, "only registered memory is written");
        }
    }

    Buffer buffer;

  private:
    Hca* hca_;
    uint64_t before_;
    uint64_t after_ = 0;
};

// A QP, and the counters against which its completions are checked.
struct Watched {
    Hca* hca;
    Qp qp;
    uint32_t next_send = 0;
    uint32_t next_recv = 0;
    uint32_t highest_sent = 0;  // the producer's highest legal value so far

    void check_completions() {
        for (const auto& cqe : hca->poll_all(qp)) {
            const bool is_recv = (cqe.opcode & PIB_HCA_CQE_IS_RECV) != 0;
            uint32_t& next = is_recv ? next_recv : next_send;
            require(cqe.wqe_counter - next < 1u << 20, "completions are in order, each once");
            require(cqe.qpn == qp.qpn, "a completion names its QP");
            next = cqe.wqe_counter + 1;
        }
    }
};

class Program {
  public:
    explicit Program(std::span<const uint8_t> bytes)
        : in_(bytes), guard_a_(pair_.a), guard_b_(pair_.b) {
        for (size_t i = 0; i < windows_.size(); ++i) {
            WindowRequest in{};
            in.pd = 1;
            in.type = static_cast<uint8_t>(1 + i / 2);
            windows_[i] = (i % 2 == 0 ? pair_.a : pair_.b).mpt.alloc_window(in).value();
        }
        auto rc = pair_.rc_pair({.timeout = 5, .retry_cnt = 2, .rnr_retry = 2});
        watched_[0] = {.hca = &pair_.a, .qp = rc.a};
        watched_[1] = {.hca = &pair_.b, .qp = rc.b};
        for (size_t i = 2; i < 4; ++i) {
            Hca& hca = i == 2 ? pair_.a : pair_.b;
            watched_[i] = {.hca = &hca, .qp = hca.create({.type = PIB_HCA_QP_UD})};
            start_datagram(hca, watched_[i].qp, kQkey);
        }
    }

    void run() {
        for (size_t i = 0; i < kMaxSteps && !in_.empty(); ++i) {
            step(in_.byte());
        }
        pair_.settle();
        for (auto& watched : watched_) {
            watched.check_completions();
        }
        guard_a_.check();
        guard_b_.check();
    }

  private:
    uint32_t number() {
        uint32_t value = 0;
        const auto raw = in_.take(4);
        std::memcpy(&value, raw.data(), raw.size());
        return value;
    }

    void step(uint8_t what) {
        Watched& watched = watched_[what >> 6];
        switch (what % kStepKinds) {
            case 0:
            case 1:
            case 2:
                send(watched);
                break;
            case 3:
                receive(watched);
                break;
            case 4:
                watched.hca->ring(watched.qp);
                break;
            case 5:
                pair_.settle();
                break;
            case 6:
                pair_.step_clock();
                break;
            case 7:
                jump(watched);
                break;
            case 8:
                modify(watched);
                break;
            case 9:
                watched.check_completions();
                break;
            case 10:
                change_key(watched);
                break;
        }
    }

    void bend(std::vector<uint8_t>& wqe) {
        for (uint8_t n = in_.byte() % 8; n != 0; --n) {
            const uint8_t at = in_.byte();
            wqe[at % wqe.size()] ^= in_.byte();
        }
    }

    uint32_t remote_key(bool at_a, uint8_t choice) {
        const Buffer& remote = (at_a ? guard_b_ : guard_a_).buffer;
        return choice % 3 == 0 ? remote.key : windows_[(choice & 2u) | (at_a ? 1u : 0u)];
    }

    // Posts a valid WQE in which some bytes have been changed.
    void send(Watched& watched) {
        const bool at_a = watched.hca == &pair_.a;
        const Buffer& local = (at_a ? guard_a_ : guard_b_).buffer;
        const Buffer& remote = (at_a ? guard_b_ : guard_a_).buffer;
        const bool datagram = watched.qp.config.type != PIB_HCA_QP_RC;
        const uint8_t opcode = in_.byte() % 8;
        const bool atomic = opcode == PIB_HCA_WQE_CMP_SWAP || opcode == PIB_HCA_WQE_FETCH_ADD;
        SendWr wr{.opcode = opcode,
                  .flags = PIB_HCA_WQE_SIGNALED,
                  .sges = {local.sge(0, atomic ? 8 : in_.byte() * 16u)},
                  .remote_addr = remote.addr,
                  .rkey = remote_key(at_a, in_.byte())};
        if (datagram) {
            Watched& peer = watched_[at_a ? 3 : 2];
            wr.av.dlid = at_a ? 2 : 1;
            wr.av.port = 1;
            wr.dest_qpn = peer.qp.qpn;
            wr.qkey = kQkey;
        }
        auto wqe = encode(watched.qp, wr);
        bend(wqe);
        watched.hca->write_raw_send(watched.qp, wqe);
    }

    // Posts a request that changes a key: of a window of either type, or sometimes of the region.
    void change_key(Watched& watched) {
        const bool at_a = watched.hca == &pair_.a;
        const Buffer& local = (at_a ? guard_a_ : guard_b_).buffer;
        const uint8_t which = in_.byte();
        uint32_t& window = windows_[(which & 2u) | (at_a ? 0u : 1u)];
        const uint32_t key = (which & 4) != 0 ? local.key : window;
        SendWr wr;
        switch (which >> 4 & 3) {
            case 0:
                window = next_key(window);
                wr = bind_mw({.rkey = window,
                              .lkey = local.key,
                              .access = in_.byte(),
                              .reserved = 0,
                              .addr = local.addr + in_.byte() * 8u,
                              .length = in_.byte() * 64u});
                break;
            case 1:
                wr = local_inv(key);
                break;
            case 2:
                wr = send_with_inv(windows_[(which & 2u) | (at_a ? 1u : 0u)]);
                break;
            default:  // only for a privileged QP
                wr = reg_mr({});
                break;
        }
        auto wqe = encode(watched.qp, wr);
        bend(wqe);
        watched.hca->write_raw_send(watched.qp, wqe);
    }

    void receive(Watched& watched) {
        const Buffer& buffer = (watched.hca == &pair_.a ? guard_a_ : guard_b_).buffer;
        const uint32_t index = watched.qp.rq_producer & ((1u << watched.qp.config.log_depth) - 1);
        watched.hca->post_recv(watched.qp, {buffer.sge(in_.byte(), in_.byte() * 64u)});
        std::vector<uint8_t> bent(1u << watched.qp.config.log_rq_stride);
        const uint64_t at = watched.qp.addr + watched.qp.rq_offset +
                            (uint64_t{index} << watched.qp.config.log_rq_stride);
        watched.hca->host.peek_bytes(at, bent);
        bend(bent);
        watched.hca->host.poke_bytes(at, bent);
    }

    void jump(Watched& watched) {
        if ((in_.byte() & 1) != 0) {
            watched.hca->set_sq_producer(watched.qp, number());
        } else {
            watched.hca->set_rq_producer(watched.qp, number());
        }
    }

    void modify(Watched& watched) {
        pib_hca_modify_qp in{};
        in.attr_mask = number() | PIB_HCA_QP_ATTR_STATE;
        in.state = in_.byte() % 8;
        const auto raw = in_.take(in_.byte() % 32);
        std::memcpy(reinterpret_cast<uint8_t*>(&in) + 8, raw.data(), raw.size());
        const bool reset = in.state == PIB_HCA_QPS_RESET;
        if (modify_qp(*watched.hca, watched.qp.qpn, in) == CmdStatus::kOk && reset) {
            // Software starts anew, as the device does.
            watched.check_completions();
            watched.next_send = watched.next_recv = 0;
            watched.hca->set_sq_producer(watched.qp, 0);
            watched.hca->set_rq_producer(watched.qp, 0);
        }
    }

    Input in_;
    Pair pair_;
    Guarded guard_a_;
    Guarded guard_b_;
    std::array<Watched, 4> watched_;
    std::array<uint32_t, 4> windows_{};  // type 1 of A and B, type 2 of A and B
};

}  // namespace

// The input byte of a step of a QP: its top two bits select the QP, its remainder by kStepKinds the
// step.
uint8_t step_of(unsigned qp, unsigned what) {
    unsigned value = qp * 64u;
    while (value % kStepKinds != what) {
        ++value;
    }
    return static_cast<uint8_t>(value);
}

std::vector<Bytes> seeds() {
    std::vector<Bytes> seeds;
    // One of each operation on each QP: receive, send, ring, settle.
    for (uint8_t qp = 0; qp < 4; ++qp) {
        const auto select = [&](unsigned what) { return step_of(qp, what); };
        for (uint8_t opcode = 0; opcode < 8; ++opcode) {
            Bytes seed;
            for (unsigned i = 0; i < 4; ++i) {
                seed.insert(seed.end(), {step_of(qp ^ 1u, 3), 0, 200, 0});
                seed.insert(seed.end(), {select(0), opcode, static_cast<uint8_t>(i * 50), 0, 0});
            }
            seed.insert(seed.end(), {select(4), select(5), select(9)});
            seed.insert(seed.end(),
                        {select(0), opcode, 10, 0, 1, opcode, 0x80, select(4), select(5)});
            seed.insert(seed.end(), {select(6), select(6), select(6), select(6)});
            seeds.push_back(seed);
        }
        // These bind a window, let the peer use it, and invalidate it.
        for (const uint8_t type : {0, 2}) {
            seeds.push_back({select(10),
                             type,
                             0x0e,
                             0,
                             64,
                             0,
                             select(4),
                             select(5),
                             step_of(qp ^ 1u, 0),
                             2,
                             4,
                             static_cast<uint8_t>(1 + type),
                             0,
                             step_of(qp ^ 1u, 4),
                             select(5),
                             select(10),
                             static_cast<uint8_t>(0x10 | type),
                             0,
                             select(4),
                             select(5)});
        }
    }
    return seeds;
}

void run(std::span<const uint8_t> input) {
    Program(input).run();
}

}  // namespace pib::fuzz
