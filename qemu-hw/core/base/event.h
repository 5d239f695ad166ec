// SPDX-License-Identifier: GPL-2.0-or-later
// Events (IBA vol. 1, 11.6.3). The register interface has the same numbers
// (commands/interface_numbers.cc).
#pragma once

#include <cstdint>

namespace pib::hca {

enum class Event {
    kCompletion = 0,
    kPathMigrated = 1,
    kCommEstablished = 2,
    kSqDrained = 3,
    kCqError = 4,
    kQpFatal = 5,
    kQpRequestError = 6,
    kQpAccessError = 7,
    kPathMigFailed = 8,
    kPort = 9,
    kCommand = 10,
    kDeviceFatal = 11,
    kSrqLimitReached = 12,
    kSrqError = 13,
    kLastWqeReached = 14,
    kPageFault = 15,
};

// Changes at a port: an Event::kPort has one or more of these bits.
namespace port_event {
inline constexpr uint32_t kActive = 1u << 0;
inline constexpr uint32_t kError = 1u << 1;  // the port has left the state Active
inline constexpr uint32_t kLidChange = 1u << 2;
inline constexpr uint32_t kPkeyChange = 1u << 3;
inline constexpr uint32_t kSmChange = 1u << 4;
inline constexpr uint32_t kClientReregister = 1u << 5;
inline constexpr uint32_t kGidChange = 1u << 6;
}  // namespace port_event

// An event, with the fields of its EQE.
struct RaisedEvent {
    Event type = Event::kCompletion;
    uint32_t number = 0;  // number of the QP, CQ or SRQ; kCommand: the command's id
    uint32_t data = 0;    // kPort: port_event bits; kDeviceFatal: cause; kCqError: CqErrorSyndrome
    uint8_t port = 0;
};

// An interrupt, and the last event of its EQ. eqn 0: the driver has requested the interrupt by
// TEST_IRQ.
struct RaisedInterrupt {
    unsigned vector = 0;
    uint32_t eqn = 0;
    Event type = Event::kCompletion;
    uint32_t number = 0;
};

}  // namespace pib::hca
