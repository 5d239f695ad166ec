// SPDX-License-Identifier: GPL-2.0-or-later
// The state of one object of the device as a hash. A mark of a recording has an entry for each
// object, so that a replay can name an object that differs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace pib::hca::record {

enum class StateKind : uint8_t {
    kDevice,    // health, command queue, and how many PDs, UARs and XRC domains exist
    kCounters,  // row of a port in Counters
    kJournal,   // failed work requests and asynchronous events
    kPort,      // attributes of a port that subnet management sets
    kPortCounters,
    kLink,  // state of the link, and credits
    kEq,
    kCq,
    kSrq,
    kQp,         // its attributes and queues
    kRequester,  // the requester of a QP
    kResponder,  // the responder of a QP
    kMr,         // a region or window
};
inline constexpr uint8_t kStateKinds = static_cast<uint8_t>(StateKind::kMr) + 1;

struct StateEntry {
    StateKind kind{};
    uint64_t number = 0;  // port, EQN, CQN, SRQN, QPN or key, by kind; else 0
    uint64_t hash = 0;

    auto operator<=>(const StateEntry&) const = default;
};

// The entries of all objects, sorted.
using State = std::vector<StateEntry>;

// The name of an object for reports: "qp 0x41 (requester)" and so on.
std::string to_string(StateKind kind, uint64_t number);
// Names the objects that differ, or that only one of the states has; at most `most` objects.
std::string differences(const State& recorded, const State& replayed, unsigned most = 8);

}  // namespace pib::hca::record
