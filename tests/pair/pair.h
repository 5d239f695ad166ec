// SPDX-License-Identifier: GPL-2.0-or-later
// Two HCAs on one wire, in one thread and on one clock. The wire may be told to lose, double, delay
// and reorder; with the same seed it does the same. With PIB_BURSTS=on it joins what makes a burst,
// with PIB_BURSTS=peer-copy it also moves the payload of offers from one memory to the other.
#pragma once

#include <functional>
#include <random>

#include "hca.h"

namespace pib::hca::test {

struct Faults {
    unsigned drop_percent = 0;
    unsigned duplicate_percent = 0;
    unsigned reorder_percent = 0;  // a packet waits until up to 8 later ones have passed it
};

class Pair {
  public:
    Pair() : a(1), b(2) {}

    // Lets packets through and QPs work until nothing is left to do at this instant.
    void settle();
    // Moves the clock to the next timer and settles; false when there is no timer.
    bool step_clock();
    // Settles, with all timers, until `done` or nothing can happen any more.
    bool run_until(const std::function<bool()>& done, unsigned max_steps = 100000);
    uint64_t now() const { return a.host.clock_ns; }

    // Connects two RC QPs.
    void connect(const Qp& qa, const Qp& qb, const RcAttributes& attr = {});
    void connect(const Qp& qa, const Qp& qb, const pib_hca_av& to_b, const pib_hca_av& to_a,
                 const RcAttributes& attr = {});
    struct Connection {
        Qp a;
        Qp b;
    };
    Connection rc_pair(const RcAttributes& attr = {}, const QpConfig& config = {});

    // A packet that nobody sent, as if it came from the wire. LRH, destination and PSN are the
    // caller's.
    void inject(Hca& to, const ib::PacketHeaders& headers, std::span<const uint8_t> payload = {});

    // Hands packets to a transport; how many it took.
    static uint32_t give(Hca& to, const ib::Burst& burst);

    // Whether a packet passes; the default lets all pass. Called before the seeded faults.
    std::function<bool(const ib::PacketView&)> filter;
    // Sees every packet that is put on the wire.
    std::function<void(const ib::PacketView&)> tap;
    Faults faults;
    std::mt19937_64 random{1};
    uint64_t packets = 0;
    uint64_t packets_joined = 0;  // that were taken in one piece with others
    uint64_t offers_placed = 0;
    // Called while a payload has been placed, and its receiver does not know yet.
    std::function<void()> while_placing;

    Hca a;
    Hca b;

  private:
    struct InFlight {
        SentPacket bytes;
        unsigned delay = 0;  // packets that pass it
    };
    bool percent(unsigned p) { return p != 0 && random() % 100 < p; }
    void carry(Hca& from);
    void put(SentPacket bytes);
    bool deliver_one();
    void arrive(const std::vector<uint8_t>& bytes);
    bool deliver_offer();
    bool place(const SentOffer& offer, std::span<const uint8_t> body, Hca& to);
    bool deliver_burst();
    void arrive(const ib::Burst& burst);

    std::deque<InFlight> wire_;
    const bool joins_ = bursts_wanted();
};

}  // namespace pib::hca::test
