// SPDX-License-Identifier: GPL-2.0-or-later
// Measures the cost of one object among many: creates MRs, CQs and connected QPs of two HCAs on
// fake hosts, then uses them in turn, so that no cache has the next one. One thread, no wake-ups.
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

constexpr uint32_t kCounts[] = {1, 8, 64, 256, 1024, 2048, 16'384};
constexpr uint32_t kRegionCounts[] = {1, 1000, 100'000};  // with one pair of QPs
constexpr uint32_t kBatch = 16;                           // WRITEs between two looks at completions
constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE;
// Creating a few objects takes too little time to measure, so it is repeated.
constexpr uint32_t kMade = 2000;
constexpr uint32_t kMostRepetitions = 20;

struct Cost {
    double mr_ns, cq_ns, qp_ns;
};

struct Member {
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
    // regions: MRs of each HCA, each with a key of its own.
    Crowd(uint32_t pairs, uint32_t regions) : subnet_(2), sm_(subnet_, subnet_.guest(0)) {
        sm_.sweep();
        for (unsigned side = 0; side < 2; ++side) {
            members_[side].resize(pairs);
            regions_[side].resize(regions);
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
        const size_t objects = std::max(members_[0].size(), regions_[0].size());
        for (size_t i = 0; i < objects; i += kBatch) {
            round();  // setup of each connection, first use of each key
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
        auto& regions = regions_[side];
        const MrShape shape{.pd = guest.pd, .access = kAccess, .bytes = 64};
        // All regions lie on the same page: the device keeps keys, not pages, apart.
        const MiniMr first = guest.driver.create_mr(guest.pd, 64, kAccess);
        cost.mr_ns = each_ns(guest, static_cast<uint32_t>(regions.size()), [&](uint32_t i) {
            regions[i] = first;
            guest.driver.register_mr(regions[i], shape);
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
            const size_t region = (next_ + i) % regions_[0].size();
            const SendWr request =
                remote_request(PIB_HCA_WQE_RDMA_WRITE, regions_[0][region], regions_[1][region], 8);
            MiniQp& qp = member(i).qp;
            sender.post_send_bytes(qp, encode_send(qp.shape.type, request));
        }
        subnet_.settle();
        for (uint32_t i = 0; i < kBatch; ++i) {
            const auto cqe = sender.poll(member(i).cq);
            if (!cqe || cqe->status != PIB_HCA_WC_SUCCESS) {
                std::fprintf(stderr, "scale-bench: a completion is missing or bad\n");
                std::exit(1);
            }
        }
        next_ += kBatch;
    }

    // The sender's member whose turn comes after i others.
    Member& member(size_t i) { return members_[0][(next_ + i) % members_[0].size()]; }

    Subnet subnet_;
    MiniSm sm_;
    std::vector<Member> members_[2];
    std::vector<MiniMr> regions_[2];
    uint32_t eqn_[2] = {};
    size_t next_ = 0;  // WRITEs so far
    Cost cost_{};
};

// The lower value of each cost: the least disturbed repetition counts.
Cost cheapest(const Cost& a, const Cost& b) {
    return {std::min(a.mr_ns, b.mr_ns), std::min(a.cq_ns, b.cq_ns), std::min(a.qp_ns, b.qp_ns)};
}

void measure(const char* what, uint32_t pairs, uint32_t regions, double seconds) {
    Crowd crowd(pairs, regions);
    Cost cost = crowd.cost();
    const uint32_t count = std::max(pairs, regions);
    for (uint32_t i = std::min(kMostRepetitions, kMade / count); i > 1; --i) {
        cost = cheapest(cost, Crowd(pairs, regions).cost());
    }
    std::printf(
        "{\"figure\": \"%s_%u\", \"count\": %u, \"write_ns\": %.1f, \"mr_ns\": %.1f, "
        "\"cq_ns\": %.1f, \"qp_ns\": %.1f}\n",
        what, count, count, crowd.measure(seconds), cost.mr_ns, cost.cq_ns, cost.qp_ns);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
    for (const uint32_t pairs : kCounts) {
        measure("qps", pairs, pairs, seconds);
    }
    for (const uint32_t regions : kRegionCounts) {
        measure("regions", 1, regions, seconds);
    }
    return 0;
}
