// SPDX-License-Identifier: GPL-2.0-or-later
// Measures the cost of one object among many: creates MRs, CQs and connected QPs of two HCAs on
// fake hosts, then uses the QPs in turn, so that no cache has the next QP. One thread, no wake-ups.
// Prints one JSON object a line.
// usage: scale-bench [SECONDS_PER_FIGURE]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench_clock.h"
#include "mini_sm.h"
#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr uint32_t kCounts[] = {1, 100, 1000, 10'000};
constexpr uint32_t kBatch = 16;  // WRITEs between two looks at completions
constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE;
// Creating a few objects takes too little time to measure, so it is repeated.
constexpr uint32_t kMade = 2000;
constexpr uint32_t kMostRepetitions = 20;

struct Cost {
    double mr_ns, cq_ns, qp_ns;
};

struct Member {
    MiniMr mr;
    MiniCq cq;
    MiniQp qp;
};

// Processor time of one of `count` calls. Each command raises an event, which this driver consumes
// before the queue overruns.
template <typename Make>
double each_ns(Guest& guest, uint32_t count, Make&& make) {
    const uint64_t before = bench::cpu_ns();
    for (uint32_t i = 0; i < count; ++i) {
        make(i);
        (void)guest.take_port_events();
    }
    return double(bench::cpu_ns() - before) / count;
}

class Crowd {
  public:
    explicit Crowd(uint32_t pairs) : subnet_(2), sm_(subnet_, subnet_.guest(0)) {
        sm_.sweep();
        for (unsigned side = 0; side < 2; ++side) {
            members_[side].resize(pairs);
            eqn_[side] = subnet_.guest(side).driver.create_eq(3).eqn;
        }
        cost_ = make(0);
        make(1);
        connect();
    }

    // Costs of the first HCA's objects, including the fake driver's share, which writes page lists.
    Cost cost() const { return cost_; }

    // Nanoseconds of processor time of a WRITE of 8 bytes.
    double measure(double seconds) {
        for (uint32_t i = 0; i < members_[0].size(); i += kBatch) {
            round();  // setup of each connection
        }
        return bench::ns_per_unit(seconds, [this] {
            round();
            return kBatch;
        });
    }

  private:
    Cost make(unsigned side) {
        Guest& guest = subnet_.guest(side);
        auto& members = members_[side];
        const auto count = static_cast<uint32_t>(members.size());
        Cost cost{};
        cost.mr_ns = each_ns(guest, count, [&](uint32_t i) {
            members[i].mr = guest.driver.create_mr(guest.pd, 64, kAccess);
        });
        cost.cq_ns = each_ns(guest, count, [&](uint32_t i) {
            members[i].cq = guest.driver.create_cq(eqn_[side], 6);
        });
        cost.qp_ns = each_ns(guest, count, [&](uint32_t i) {
            QpShape shape;
            shape.pd = guest.pd;
            shape.send_cq = shape.recv_cq = members[i].cq.cqn;
            shape.log_sq_depth = shape.log_rq_depth = 5;
            members[i].qp = guest.driver.create_qp(shape);
        });
        return cost;
    }

    void connect() {
        const auto count = static_cast<uint32_t>(members_[0].size());
        for (unsigned side = 0; side < 2; ++side) {
            RcPath path;
            path.av.dlid = sm_.lid_of(1 - side);
            path.path_mtu = 5;
            path.timeout = 20;
            const double ns = each_ns(subnet_.guest(side), count, [&](uint32_t i) {
                path.dest_qpn = members_[1 - side][i].qp.qpn;
                subnet_.guest(side).driver.connect_rc(members_[side][i].qp, path);
            });
            cost_.qp_ns += side == 0 ? ns : 0;
        }
    }

    void round() {
        MiniDriver& sender = subnet_.guest(0).driver;
        for (uint32_t i = 0; i < kBatch; ++i) {
            const uint32_t n = next(i);
            const SendWr request =
                remote_request(PIB_HCA_WQE_RDMA_WRITE, members_[0][n].mr, members_[1][n].mr, 8);
            MiniQp& qp = members_[0][n].qp;
            sender.post_send_bytes(qp, encode_send(qp.shape.type, request));
        }
        subnet_.settle();
        for (uint32_t i = 0; i < kBatch; ++i) {
            const auto cqe = sender.poll(members_[0][next(i)].cq);
            if (!cqe || cqe->status != PIB_HCA_WC_SUCCESS) {
                std::fprintf(stderr, "scale-bench: a completion is missing or bad\n");
                std::exit(1);
            }
        }
        next_ = next(kBatch);
    }

    uint32_t next(uint32_t i) const {
        return (next_ + i) % static_cast<uint32_t>(members_[0].size());
    }

    Subnet subnet_;
    MiniSm sm_;
    std::vector<Member> members_[2];
    uint32_t eqn_[2] = {};
    uint32_t next_ = 0;
    Cost cost_{};
};

// The lower value of each cost: the least disturbed repetition counts.
Cost cheapest(const Cost& a, const Cost& b) {
    return {std::min(a.mr_ns, b.mr_ns), std::min(a.cq_ns, b.cq_ns), std::min(a.qp_ns, b.qp_ns)};
}

void measure(uint32_t pairs, double seconds) {
    Crowd crowd(pairs);
    Cost cost = crowd.cost();
    for (uint32_t i = std::min(kMostRepetitions, kMade / pairs); i > 1; --i) {
        cost = cheapest(cost, Crowd(pairs).cost());
    }
    std::printf(
        "{\"figure\": \"scale_%u\", \"pairs\": %u, \"write_ns\": %.1f, \"mr_ns\": %.1f, "
        "\"cq_ns\": %.1f, \"qp_ns\": %.1f}\n",
        pairs, pairs, crowd.measure(seconds), cost.mr_ns, cost.cq_ns, cost.qp_ns);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
    for (const uint32_t pairs : kCounts) {
        measure(pairs, seconds);
    }
    return 0;
}
