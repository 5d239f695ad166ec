// SPDX-License-Identifier: GPL-2.0-or-later
// Two HCAs on one wire, in one thread and on one clock. The wire can lose, duplicate, delay and
// reorder packets; the same seed gives the same run. With PIB_BURSTS=on the wire joins packets to
// bursts; with PIB_BURSTS=peer-copy it also copies the payload of offers from memory to memory.
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

    // Delivers packets and runs QPs until nothing is left to do at this instant.
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

    // Delivers a forged packet, with the caller's headers, as if it came from the wire.
    void inject(Hca& to, const ib::PacketHeaders& headers, std::span<const uint8_t> payload = {});

    // Passes packets to a transport; returns how many it took.
    static uint32_t give(Hca& to, const ib::Burst& burst);

    // Whether a packet passes; the default lets all pass. Called before the seeded faults.
    std::function<bool(const ib::PacketView&)> filter;
    // Sees every packet that is put on the wire.
    std::function<void(const ib::PacketView&)> tap;
    Faults faults;
    std::mt19937_64 random{1};
    uint64_t packets = 0;
    uint64_t packets_joined = 0;  // packets delivered as part of a burst
    uint64_t offers_placed = 0;
    // Called after the payload of an offer has been copied and before the receiver learns of it.
    std::function<void()> while_placing;

    Hca a;
    Hca b;

  private:
    struct InFlight {
        SentPacket bytes;
        unsigned delay = 0;  // number of later packets that still overtake the packet
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
