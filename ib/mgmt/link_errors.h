// SPDX-License-Identifier: GPL-2.0-or-later
// Errors of a link that are reported above a threshold (IBA 7.12.2): counts packets that the link
// drops, and decides when trap 129 or 130 is due.
#pragma once

#include <cstdint>
#include <optional>

#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/port_attrs.h"
#include "ib/wire/link_frame.h"

namespace pib::ib {

// Errors that traps 129, 130 and 131 report.
enum class LinkError : uint8_t { kLocalIntegrity, kBufferOverrun, kFlowControlUpdate };

// IBA counts overruns in update periods of flow control. Links here have no such periods, because
// ports grant credits when buffers become free. So a period is the longest interval that IBA 7.9.4
// permits between two flow control packets: 65,536 symbol times of 4 ns, at 2.5 Gb/s.
inline constexpr uint64_t kFlowControlPeriodNs = 65'536 * 4;

// Counts the errors of one link; each new link has a new object.
struct LinkErrors {
    uint8_t physical = 0;         // packets with local physical errors, minus good ones
    uint8_t overrun_periods = 0;  // consecutive periods with an overrun
    uint64_t last_overrun = 0;    // number of the last period with an overrun, from 1; 0: none

    bool operator==(const LinkErrors&) const = default;

    // Counts packets received without a local physical error.
    void good(uint32_t packets) {
        physical = static_cast<uint8_t>(packets < physical ? physical - packets : 0);
    }
    // Counts a dropped packet in PortRcvErrors and its details. Returns the error that has reached
    // its threshold of PortInfo (LocalPhyErrors, OverrunErrors).
    [[nodiscard]] std::optional<LinkError> dropped(link::PacketFault fault, const PortAttrs& port,
                                                   PortCounters& counters, uint64_t now_ns);

  private:
    [[nodiscard]] bool one_more_physical(uint64_t threshold);
    [[nodiscard]] bool one_more_overrun(uint64_t threshold, uint64_t now_ns);
};

// Counts the error; kFlowControlUpdate, whose counters are by VL, is counted for VL 0.
void count_link_error(LinkError error, PortCounters& counters);
// Queues the error's trap at `sender`: the port with the error, or port 0 of its switch. No trap if
// `sender` is not Active: the SM reads all attributes when it brings a port up.
void tell_link_error(LinkError error, uint8_t port_number, PortAttrs& sender, uint64_t now_ns);
// The LinkError that a trap reports; nullopt for other traps.
[[nodiscard]] std::optional<LinkError> link_error_of(uint16_t trap_number);

}  // namespace pib::ib
