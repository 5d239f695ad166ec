// SPDX-License-Identifier: GPL-2.0-or-later
// Errors of a link that are told when there are too many of them (IBA 7.12.2): what a port counts
// of the packets that its link drops, and when that makes trap 129 or 130 due.
#pragma once

#include <cstdint>
#include <optional>

#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/port_attrs.h"
#include "ib/wire/link_frame.h"

namespace pib::ib {

// Errors that traps 129, 130 and 131 report.
enum class LinkError : std::uint8_t { kLocalIntegrity, kBufferOverrun, kFlowControlUpdate };

// Credits are told when buffers become free and not in regular periods, so that overruns are
// counted in periods of the longest that 7.9.4 lets two flow control packets be apart: 65,536
// symbol times, of 4 ns at 2.5 Gb/s.
inline constexpr std::uint64_t kFlowControlPeriodNs = 65'536 * 4;

// Counts the errors of one link; each new link has a new object.
struct LinkErrors {
    std::uint8_t physical = 0;         // packets with local physical errors, less good ones
    std::uint8_t overrun_periods = 0;  // in succession, until they are too many
    std::uint64_t last_overrun = 0;    // the last such period; counted from 1, 0: none

    bool operator==(const LinkErrors&) const = default;

    // So many packets came in without a local physical error.
    void good(std::uint32_t packets) {
        physical = static_cast<std::uint8_t>(packets < physical ? physical - packets : 0);
    }
    // Counts a packet that was dropped in PortRcvErrors and its details, and what has reached the
    // threshold in PortInfo:LocalPhyErrors or OverrunErrors.
    [[nodiscard]] std::optional<LinkError> dropped(link::PacketFault fault, const Port& port,
                                                   PortCounters& counters, std::uint64_t now_ns);

  private:
    [[nodiscard]] bool one_more_physical(std::uint64_t threshold);
    [[nodiscard]] bool one_more_overrun(std::uint64_t threshold, std::uint64_t now_ns);
};

// Counts the error, of VL 0 if it is one of a VL.
void count_link_error(LinkError error, PortCounters& counters);
// Queues its trap at the port that sends it: the port that has the error, or port 0 of its switch.
// Nothing if that is not Active: the SM looks at everything when it brings a port up.
void tell_link_error(LinkError error, std::uint8_t port_number, Port& sender, std::uint64_t now_ns);
// The error that a trap tells; nothing for another trap.
[[nodiscard]] std::optional<LinkError> link_error_of(std::uint16_t trap_number);

}  // namespace pib::ib
