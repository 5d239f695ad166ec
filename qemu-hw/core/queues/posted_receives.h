// SPDX-License-Identifier: GPL-2.0-or-later
// Reads the receive WQEs that software has posted and the device has not copied yet, for dumps of
// objects. The read changes no state: the device reads these WQEs again when it needs them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/host.h"
#include "memory/guest_buffer.h"
#include "queues/work_queue.h"

namespace pib::hca {

struct PostedReceive {
    uint32_t counter;  // counter of the WQE; of an SRQ: the WQE's id
    uint32_t bytes;
    uint8_t num_sge;
    bool valid;  // false: the WQE breaks a rule, and the other members except counter are 0
};

struct PostedReceives {
    uint32_t count = 0;                  // number of all posted WQEs
    std::vector<PostedReceive> entries;  // the oldest of these WQEs
};

enum class ReceiveRing : uint8_t {
    kOwn,     // a QP's receive queue
    kShared,  // an SRQ
};

// Returns at most `most` entries. nullopt: the ring's memory cannot be read, or its producer is
// impossible.
[[nodiscard]] std::optional<PostedReceives> posted_receives(Host& host, const GuestBuffer& buffer,
                                                            const WorkQueue& queue,
                                                            ReceiveRing ring, uint32_t most);

}  // namespace pib::hca
