// SPDX-License-Identifier: GPL-2.0-or-later
// Injected faults of one direction of a link: loss, duplication, reordering, corruption, delay. The
// same seed and packets give the same faults.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "base/packet_pool.h"
#include "ib/mgmt/lazy.h"

namespace pib::fabric {

// Probabilities are 0..1 per packet and independent of each other.
struct FaultSpec {
    double drop = 0;
    double duplicate = 0;
    double reorder = 0;          // a packet is held back until some later ones have passed it
    double corrupt = 0;          // one bit is flipped after the checksums were computed
    unsigned reorder_depth = 4;  // at most this many packets pass one that is held back
    uint64_t delay_ns = 0;       // delay of every packet
    uint64_t jitter_ns = 0;      // maximum random delay, added to delay_ns
    uint64_t seed = 1;
    bool vl15 = false;                                 // packets on VL15 as well
    std::optional<uint8_t> opcode = std::nullopt;      // only packets with this BTH opcode
    bool mads_only = false;                            // only packets to QP0 or QP1
    std::optional<uint16_t> attribute = std::nullopt;  // only MADs with this AttributeID

    [[nodiscard]] bool any() const {
        return drop > 0 || duplicate > 0 || reorder > 0 || corrupt > 0 || delay_ns != 0 ||
               jitter_ns != 0;
    }
};

struct FaultCounts {
    uint64_t seen = 0;  // packets to which the specification applied
    uint64_t dropped = 0;
    uint64_t duplicated = 0;
    uint64_t reordered = 0;
    uint64_t corrupted = 0;
    uint64_t delayed = 0;
};

// Receives packets after the stage. `vl` is the argument of pass(). `damage`: the packet's bit,
// counted from bit 0 of its first byte, to flip after the checksums are computed; nullopt: none.
class FaultSink {
  public:
    virtual ~FaultSink() = default;
    virtual void deliver(Transit& packet, unsigned vl, const std::optional<uint32_t>& damage) = 0;
};

class FaultStage {
  public:
    FaultStage(PacketPool& pool, FaultSink& sink) : pool_(pool), sink_(sink) {}

    // Replaces the specification, and restarts the random sequence and the counts. Delayed packets
    // keep their release times.
    void set(const FaultSpec& spec);
    [[nodiscard]] const FaultSpec& spec() const { return state_->spec; }
    [[nodiscard]] const FaultCounts& counts() const { return state_->counts; }
    // Whether packets have to pass this stage.
    [[nodiscard]] bool in_use() const { return state_ && (state_->active || holds()); }
    // Whether packets wait in this stage.
    [[nodiscard]] bool holds() const {
        return state_ && !(state_->held_back.empty() && state_->delayed.empty());
    }

    // Applies the faults to a packet, and delivers, holds or drops it.
    void pass(Transit& packet, unsigned vl, uint64_t now_ns);
    // Delivers packets whose release time has come.
    void advance(uint64_t now_ns);
    [[nodiscard]] uint64_t next_deadline() const;  // UINT64_MAX: none
    // Drops the packets that wait in this stage.
    void clear();

  private:
    struct Held {
        PacketRef packet;
        uint64_t due_ns = 0;
        uint64_t serial = 0;  // keeps packets of one due time in order
        unsigned vl = 0;
        unsigned passes_left = 0;  // reordering: packets that still have to pass this one
        std::optional<uint32_t> damage;
    };
    struct Later {
        [[nodiscard]] bool operator()(const Held& a, const Held& b) const {
            return a.due_ns != b.due_ns ? a.due_ns > b.due_ns : a.serial > b.serial;
        }
    };

    struct State {
        FaultSpec spec;
        FaultCounts counts;
        uint64_t random = 1;
        uint64_t serial = 0;
        bool active = false;
        std::vector<Held> held_back;
        std::priority_queue<Held, std::vector<Held>, Later> delayed;
    };

    [[nodiscard]] bool applies(std::span<const uint8_t> bytes, unsigned vl) const;
    [[nodiscard]] bool chance(double probability);
    uint64_t random();
    void send_on(Transit& packet, unsigned vl, const std::optional<uint32_t>& damage,
                 uint64_t now_ns);
    void let_pass_held_back(uint64_t now_ns);
    void deliver(Held held);

    PacketPool& pool_;
    FaultSink& sink_;
    ib::Lazy<State> state_;  // most links never have faults
};

}  // namespace pib::fabric
