// SPDX-License-Identifier: GPL-2.0-or-later
// Measures packets that one core switches per second: the switch between rings in shared memory, as
// the program drives it; adapters write batches and read them again. Only the switch's turns are
// timed. There are no sockets, wake-ups or other threads.
// Prints one JSON object a line. usage: switch-bench [SECONDS_PER_FIGURE]
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench_clock.h"
#include "ring_hca.h"

using namespace pib;
using namespace pib::test;
using pib::bench::cpu_ns;

namespace {

constexpr size_t kLrhBthDeth = 28;
constexpr uint16_t kFirstMulticastLid = 0xC000;

void must(bool fine, const char* what) {
    if (!fine) {
        std::fprintf(stderr, "switch-bench: %s\n", what);
        std::exit(1);
    }
}

fabric::SwitchConfig config(unsigned ports) {
    auto made = TestFabric::default_config();
    made.num_ports = static_cast<uint8_t>(ports);
    return made;
}

class Bench {
  public:
    // `ports` adapters at a switch of `configured` ports.
    Bench(unsigned ports, unsigned configured, size_t bytes) : fabric_(0, config(configured)) {
        for (unsigned i = 0; i < ports; ++i) {
            auto hca =
                std::make_unique<RingHca>(fabric_.sw.admission(), i, link::kFeatureSharedMemory);
            hcas_.push_back(hca.get());
            fabric_.add(std::move(hca));
        }
        fabric_.make_active();
        for (unsigned i = 0; i < ports; ++i) {
            hcas_[i]->counting = true;
            packets_.push_back(make_packet(0, TestFabric::lid_of((i + 1) % ports),
                                           bytes - kLrhBthDeth, TestFabric::lid_of(i)));
        }
    }

    void set_batch(unsigned packets) { batch_ = packets; }

    // Nanoseconds of the switch for one copy of a multicast packet from one port to all others.
    double measure_fan_out(double seconds) {
        std::array<uint8_t, 64> block{};
        hcas_[0]->counting = false;  // keeps the answers, which query() reads
        for (size_t position = 0; position < 3; ++position) {
            ib::store_be(block.data(), static_cast<uint16_t>(members() >> (16 * position)));
            must(fabric_
                     .query(ib::Method::kSet, ib::attr::kMulticastForwardingTable,
                            static_cast<uint32_t>(position << 28), block)
                     .has_value(),
                 "no multicast forwarding");
        }
        hcas_[0]->counting = true;
        const auto to_all = make_packet(0, kFirstMulticastLid, packets_[0].size() - kLrhBthDeth,
                                        TestFabric::lid_of(0));
        packets_.assign(packets_.size(), Bytes());
        packets_[0] = to_all;
        return measure(seconds);
    }

    // Nanoseconds of the switch for a packet, in each direction of every port.
    double measure(double seconds) {
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        uint64_t packets = 0, ns = 0;
        turn(ns);
        for (ns = 0; std::chrono::steady_clock::now() < until;) {
            packets += turn(ns);
        }
        must(packets != 0, "no packet arrives");
        return double(ns) / double(packets);
    }

  private:
    // Port mask of all adapters.
    [[nodiscard]] uint64_t members() const { return ((uint64_t{1} << hcas_.size()) - 1) << 1; }

    size_t turn(uint64_t& ns) {
        for (size_t i = 0; i < hcas_.size(); ++i) {
            for (unsigned n = 0;
                 !packets_[i].empty() && n < batch_ && hcas_[i]->send_packet(packets_[i]); ++n) {
            }
            (void)hcas_[i]->own_end().channel().publish();
        }
        now_ns_ += kTurnNs;
        const uint64_t before = cpu_ns();
        fabric_.sw.advance(now_ns_);
        for (RingHca* hca : hcas_) {
            hca->serve();
        }
        for (RingHca* hca : hcas_) {
            hca->publish();
        }
        next_deadline_ns_ = fabric_.sw.next_deadline();  // the program reads it, too
        ns += cpu_ns() - before;
        size_t arrived = 0;
        for (RingHca* hca : hcas_) {
            arrived += hca->drain();
        }
        return arrived;
    }

    static constexpr uint64_t kTurnNs = 10'000;
    TestFabric fabric_;
    uint64_t now_ns_ = fabric_.now_ns();
    uint64_t next_deadline_ns_ = 0;
    std::vector<RingHca*> hcas_;
    std::vector<Bytes> packets_;
    unsigned batch_ = 256;  // packets of an adapter in a turn
};

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
    constexpr struct {
        unsigned ports, configured;
        size_t bytes;
        unsigned batch;
    } kFigures[] = {{2, 2, 64, 256},
                    {8, 8, 64, 256},
                    {32, 32, 64, 256},
                    {2, 2, 4096, 256},
                    // A packet a turn, as in a ping-pong: what a turn costs besides packets.
                    {2, 2, 64, 1},
                    {2, 36, 64, 1}};
    for (const auto& figure : kFigures) {
        Bench bench(figure.ports, figure.configured, figure.bytes);
        bench.set_batch(figure.batch);
        std::printf("{\"figure\": \"switch_%uof%uports_%zu_%u\", \"cpu_ns\": %.1f}\n", figure.ports,
                    figure.configured, figure.bytes, figure.batch, bench.measure(seconds));
        std::fflush(stdout);
    }
    for (const unsigned copies : {1U, 8U, 31U}) {
        const double ns = Bench(copies + 1, copies + 1, 256).measure_fan_out(seconds);
        std::printf("{\"figure\": \"multicast_%ucopies_256\", \"cpu_ns\": %.1f}\n", copies, ns);
        std::fflush(stdout);
    }
    return 0;
}
