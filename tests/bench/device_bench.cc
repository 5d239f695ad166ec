// SPDX-License-Identifier: GPL-2.0-or-later
// Measures messages without a virtual machine: two HCAs on fake hosts and the real switch in one
// thread, so that the time is the work of both ends and of the fabric, without wake-ups.
// Prints one JSON object a line. usage: device-bench [SECONDS_PER_FIGURE] [NAME_PART]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench_clock.h"
#include "mini_sm.h"
#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr unsigned kLogRing = 19;  // as in pib-switch
constexpr uint32_t kDepth = 16;
constexpr uint32_t kMaxBytes = 1 << 20;

struct Figure {
    const char* name;
    pib_hca_wqe_opcode opcode;
    uint32_t bytes;
    uint32_t depth;
    uint32_t receives = 0;  // receive requests that are posted before the SENDs
};

constexpr Figure kFigures[] = {
    {"write_8", PIB_HCA_WQE_RDMA_WRITE, 8, kDepth},
    {"write_8_one", PIB_HCA_WQE_RDMA_WRITE, 8, 1},
    {"send_64_scarce", PIB_HCA_WQE_SEND, 64, kDepth, kDepth},
    {"send_64", PIB_HCA_WQE_SEND, 64, kDepth, 2 * kDepth},
    {"write_4096", PIB_HCA_WQE_RDMA_WRITE, 4096, kDepth},
    {"write_64k", PIB_HCA_WQE_RDMA_WRITE, 65536, kDepth},
    {"send_64k", PIB_HCA_WQE_SEND, 65536, kDepth, 2 * kDepth},
    {"read_64k", PIB_HCA_WQE_RDMA_READ, 65536, kDepth},
    {"write_1m", PIB_HCA_WQE_RDMA_WRITE, 1 << 20, 4},
    {"fetch_add", PIB_HCA_WQE_FETCH_ADD, 8, kDepth},
};

class Pair {
  public:
    Pair()
        : subnet_(2, default_link_mode(), kLogRing),
          ends_(subnet_.guest(0), subnet_.guest(1), kMaxBytes) {
        MiniSm sm(subnet_, subnet_.guest(0));
        sm.sweep();
        RcPath path;
        path.path_mtu = 5;
        path.timeout = 20;
        path.max_rd_atomic = path.max_dest_rd_atomic = kDepth;
        ends_.connect(sm, path);
    }

    // Nanoseconds of processor time per message.
    double measure(const Figure& figure, double seconds) {
        const std::vector<uint8_t> wqe = encode(figure);
        round(figure, wqe);
        return bench::ns_per_unit(seconds, [&] {
            round(figure, wqe);
            return figure.depth;
        });
    }

  private:
    std::vector<uint8_t> encode(const Figure& figure) {
        SendWr request = remote_request(figure.opcode, ends_.a.mr, ends_.b.mr, figure.bytes);
        request.swap_or_add = 1;
        return encode_send(PIB_HCA_QP_RC, request);
    }

    void round(const Figure& figure, std::span<const uint8_t> wqe) {
        MiniDriver& sender = ends_.a.guest.driver;
        MiniDriver& receiver = ends_.b.guest.driver;
        const pib_hca_sge sge = MiniDriver::sge(ends_.b.mr, 0, kMaxBytes);
        for (; receives_ < figure.receives; ++receives_) {
            receiver.post_recv(ends_.b.qp, {&sge, 1});
        }
        for (uint32_t i = 0; i < figure.depth; ++i) {
            sender.post_send_bytes(ends_.a.qp, wqe);
        }
        subnet_.settle();
        expect(ends_.a, figure.depth);
        if (figure.receives != 0) {
            expect(ends_.b, figure.depth);
            receives_ -= figure.depth;
        }
    }

    static void expect(RcEnd& end, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            const auto cqe = end.guest.driver.poll(end.cq);
            if (!cqe || cqe->status != PIB_HCA_WC_SUCCESS) {
                std::fprintf(stderr, "a completion is missing or bad\n");
                std::exit(1);
            }
        }
    }

    Subnet subnet_;
    RcEnds ends_;
    uint32_t receives_ = 0;  // receive requests posted so far
};

double memcpy_ns(uint32_t bytes, double seconds) {
    std::vector<uint8_t> from(bytes, 1), to(bytes);
    return bench::ns_per_unit(seconds, [&] {
        constexpr unsigned kCopies = 16;
        for (unsigned i = 0; i < kCopies; ++i) {
            std::memcpy(to.data(), from.data(), bytes);
            asm volatile("" : : "r"(to.data()) : "memory");
        }
        return kCopies;
    });
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
    const std::string_view part = argc > 2 ? argv[2] : "";
    Pair pair;
    for (const Figure& figure : kFigures) {
        if (std::string_view(figure.name).find(part) == std::string_view::npos) {
            continue;
        }
        const double ns = pair.measure(figure, seconds);
        const double copy = memcpy_ns(figure.bytes, seconds / 10);
        std::printf(
            "{\"figure\": \"%s\", \"bytes\": %u, \"cpu_ns\": %.1f, \"mib_s\": %.1f, "
            "\"memcpy_ns\": %.1f}\n",
            figure.name, figure.bytes, ns, figure.bytes / ns * 1e9 / 1048576, copy);
        std::fflush(stdout);
    }
    return 0;
}
