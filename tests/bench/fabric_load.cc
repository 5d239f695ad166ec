// SPDX-License-Identifier: GPL-2.0-or-later
// Load for a running pib-switch: RDMA WRITEs between two HCAs at the same switch, over sockets; and
// once a second a subnet management packet along each given directed route, so that packets pass
// all links of a large fabric. Ten times a second it prints the numbers of completed WRITEs and of
// answered packets as JSON. It ends when its output is closed, or when all WRITEs are done.
// usage: fabric-load SOCKET BYTES WRITES_PER_SECOND SECONDS [ROUTES]
//   Rate 0: as fast as possible. SECONDS 0: without end. ROUTES: a file with a directed route of
//   the second HCA in each line: the output ports, from the HCA's own port on.
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/address.h"
#include "ib/mgmt/smi.h"
#include "live_subnet.h"
#include "mini_sm.h"
#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

using Path = MiniSm::Path;

constexpr uint32_t kDepth = 16;
constexpr uint32_t kMaxBytes = 1 << 20;
constexpr size_t kMostSmps = 24;  // limit of SMPs that wait for an answer

double seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + double(now.tv_nsec) / 1e9;
}

// ---- the WRITEs

class Writes {
  public:
    Writes(LiveSubnet& subnet, const MiniSm& sm, uint32_t bytes)
        : ends_(subnet.guest(0), subnet.guest(1), kMaxBytes),
          wqe_(encode_send(PIB_HCA_QP_RC,
                           remote_request(PIB_HCA_WQE_RDMA_WRITE, ends_.a.mr, ends_.b.mr, bytes))) {
        RcPath path;
        path.path_mtu = 5;
        path.timeout = 20;
        ends_.connect(sm, path);
    }

    // Posts WRITEs up to this total.
    void post(uint64_t most) {
        const uint64_t count = std::min(most, done_ + kDepth) - std::min(most, posted_);
        for (uint64_t i = 0; i < count; ++i) {
            ends_.a.guest.driver.post_send_bytes(ends_.a.qp, wqe_);
        }
        posted_ += count;
    }
    void take_completions() {
        while (const auto cqe = ends_.a.guest.driver.poll(ends_.a.cq)) {
            if (cqe->status != PIB_HCA_WC_SUCCESS) {
                throw std::runtime_error("a WRITE failed");
            }
            ++done_;
        }
    }
    uint64_t posted() const { return posted_; }
    uint64_t done() const { return done_; }

  private:
    RcEnds ends_;
    std::vector<uint8_t> wqe_;
    uint64_t posted_ = 0, done_ = 0;
};

// ---- the subnet management packets

std::vector<Path> routes_in(const char* file) {
    std::vector<Path> routes;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream numbers(line);
        Path path;
        for (unsigned port = 0; numbers >> port;) {
            path.push_back(static_cast<uint8_t>(port));
        }
        routes.push_back(path);
    }
    return routes;
}

ib::Mad get_node_info(const Path& path, uint64_t transaction) {
    ib::Mad mad;
    mad.set(ib::mad_header::kBaseVersion, 1);
    mad.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(ib::MgmtClass::kSubnDirectedRoute));
    mad.set(ib::mad_header::kClassVersion, 1);
    mad.set(ib::mad_header::kMethod, static_cast<unsigned>(ib::Method::kGet));
    mad.set(ib::mad_header::kTransactionId, transaction);
    mad.set(ib::mad_header::kAttributeId, ib::attr::kNodeInfo);
    mad.set(ib::smp::kDrSlid, 0xffff);
    mad.set(ib::smp::kDrDlid, 0xffff);
    mad.set(ib::smp::kHopCount, path.size());
    std::ranges::copy(path, initial_path(mad).begin() + 1);
    (void)ib::smi_send(mad, {.num_ports = 1}, 1);
    return mad;
}

class Smps {
  public:
    Smps(Guest& home, std::vector<Path> routes)
        : qp_(home, PIB_HCA_QP_SMI), routes_(std::move(routes)), next_(routes_.size()) {}

    // Begins a round each second. Lost answers of the last round do not count against the new one.
    void advance(double now) {
        answers_ += qp_.receive().size();
        if (now >= round_ + 1) {
            round_ = now;
            next_ = 0;
            sent_ = answers_;
        }
        for (; next_ < routes_.size() && sent_ < answers_ + kMostSmps; ++next_, ++sent_) {
            qp_.send(get_node_info(routes_[next_], sent_), ib::Lid::kPermissiveValue, 0);
        }
    }
    uint64_t answers() const { return answers_; }

  private:
    MadQp qp_;
    std::vector<Path> routes_;
    size_t next_;
    double round_ = 0;
    uint64_t sent_ = 0, answers_ = 0;
};

// ---- the program

bool print(double now, const Writes& writes, const Smps& smps) {
    const int printed = std::printf("{\"seconds\": %.6f, \"writes\": %llu, \"smps\": %llu}\n", now,
                                    static_cast<unsigned long long>(writes.done()),
                                    static_cast<unsigned long long>(smps.answers()));
    return printed > 0 && std::fflush(stdout) == 0;
}

std::vector<fabric::UniqueFd> connect_twice(const char* socket) {
    std::vector<fabric::UniqueFd> sockets;
    for (unsigned i = 0; i < 2; ++i) {
        auto connected = fabric::connect_unix(socket);
        if (!connected) {
            throw std::runtime_error(connected.error());
        }
        sockets.push_back(std::move(*connected));
    }
    return sockets;
}

struct Wanted {
    uint32_t bytes;
    double rate;     // WRITEs a second; 0: as many as possible
    double seconds;  // 0: without end
    std::vector<Path> routes;

    // Number of WRITEs due this long after the start.
    [[nodiscard]] uint64_t due(double since) const {
        return rate == 0 ? UINT64_MAX : static_cast<uint64_t>(rate * since);
    }
    [[nodiscard]] bool is_over(double since) const { return seconds != 0 && since > seconds; }
};

void run(const char* socket, Wanted wanted) {
    LiveSubnet subnet(connect_twice(socket));
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    Writes writes(subnet, sm, wanted.bytes);
    Smps smps(subnet.guest(1), std::move(wanted.routes));
    const double begin = seconds();
    double printed = begin;
    for (double now = begin; now < printed + 0.1 || print(printed = now, writes, smps);
         now = seconds()) {
        const bool over = wanted.is_over(now - begin);
        if (over && writes.posted() == writes.done()) {
            print(now, writes, smps);
            return;
        }
        writes.post(over ? writes.posted() : wanted.due(now - begin));
        smps.advance(now);
        subnet.settle();
        writes.take_completions();
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) {
        std::fprintf(stderr,
                     "usage: fabric-load SOCKET BYTES WRITES_PER_SECOND SECONDS [ROUTES]\n");
        return 2;
    }
    ::signal(SIGPIPE, SIG_IGN);
    try {
        run(argv[1], {.bytes = static_cast<uint32_t>(std::atoi(argv[2])),
                      .rate = std::atof(argv[3]),
                      .seconds = std::atof(argv[4]),
                      .routes = argc > 5 ? routes_in(argv[5]) : std::vector<Path>()});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fabric-load: %s\n", error.what());
        return 1;
    }
    return 0;
}
