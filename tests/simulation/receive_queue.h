// SPDX-License-Identifier: GPL-2.0-or-later
// The model of a receive queue to which several senders may send: the own queue of a UD or UC QP,
// or an SRQ. Each of its work requests has a slot of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "content.h"
#include "subnet.h"

namespace pib::simulation {

class ReceiveQueue {
  public:
    static constexpr uint8_t kLogDepth = 4;
    static constexpr uint32_t kDepth = 1u << kLogDepth;
    static constexpr uint32_t kSlotBytes = 4096;
    static constexpr uint32_t kGrhBytes = 40;

    enum class Kind {
        kDatagrams,  // in order; each slot begins with room for a GRH
        kMessages,   // in order; a dropped message may leave bytes in the slot of the next one
        kShared,     // completions in any order
    };
    ReceiveQueue(test::Guest& guest, uint32_t pd, Kind kind, std::string name);

    // Posts a work request with these SGEs. `id`: the number that its completion has.
    using Post = std::function<void(std::span<const pib_hca_sge> sges, uint32_t id)>;
    void post(uint32_t count, const Post& post);
    // Handles a successful completion: checks the slot and returns the message.
    Bytes take(const pib_hca_cqe& cqe);
    // Handles a completion with an error.
    void drop(const pib_hca_cqe& cqe);
    // Forgets all work requests, because the queue has been destroyed.
    void restart();
    // The device was reset: as restart(), with a new key.
    void restore(uint32_t pd);
    void destroy_key();
    // Checks that the slots of waiting work requests are as they were posted. Call it when nothing
    // is in flight.
    void check_untouched() const;

    uint32_t waiting() const { return static_cast<uint32_t>(slots_.size()); }
    // Messages that are on their way, on fabrics without hazards.
    uint32_t in_flight = 0;

  private:
    unsigned slot_of(const pib_hca_cqe& cqe);
    void check_rest(unsigned slot, uint32_t from, uint32_t to) const;

    test::Guest& guest_;
    const Kind kind_;
    const std::string name_;
    hca::test::MiniMr mr_;
    std::map<uint32_t, unsigned> slots_;  // by id of the waiting work request
    std::vector<unsigned> free_;
    uint32_t next_id_ = 0;
};

}  // namespace pib::simulation
