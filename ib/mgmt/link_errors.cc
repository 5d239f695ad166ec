// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/link_errors.h"

#include <algorithm>

namespace pib::ib {
namespace {

using link::PacketFault;

// Counter of PortRcvErrorDetails for each PacketFault (IBA 16.1.4.1).
constexpr Counter kDetails[] = {
    Counter::kPortMalformedPacketErrors, Counter::kPortMalformedPacketErrors,
    Counter::kPortLocalPhysicalErrors,   Counter::kPortLocalPhysicalErrors,
    Counter::kPortBufferOverrunErrors,
};

struct Row {
    Counter counter;
    uint16_t trap_number;
};
// One row for each LinkError.
constexpr Row kRows[] = {
    {Counter::kLocalLinkIntegrityErrors, trap::kLocalLinkIntegrity},
    {Counter::kExcessiveBufferOverrunErrors, trap::kExcessiveBufferOverrun},
    {Counter::kPortVlXmitFlowCtlUpdateErrors, trap::kFlowControlUpdate},
};

const Row& row_of(LinkError error) {
    return kRows[static_cast<size_t>(error)];
}

}  // namespace

// Counts an error, and returns whether there are more than LocalPhyErrors (7.12.2).
bool LinkErrors::one_more_physical(uint64_t threshold) {
    if (++physical <= threshold) {
        return false;
    }
    physical = 0;
    return true;
}

// Counts an overrun, and returns whether OverrunErrors consecutive periods have had one (16.1.3.5).
// Threshold 0 acts as 1.
bool LinkErrors::one_more_overrun(uint64_t threshold, uint64_t now_ns) {
    const uint64_t period = now_ns / kFlowControlPeriodNs + 1;
    if (period == last_overrun) {
        return false;
    }
    overrun_periods = static_cast<uint8_t>(period == last_overrun + 1 ? overrun_periods + 1 : 1);
    last_overrun = period;
    if (overrun_periods < threshold) {
        return false;
    }
    overrun_periods = 0;
    return true;
}

std::optional<LinkError> LinkErrors::dropped(PacketFault fault, const PortAttrs& port,
                                             PortCounters& counters, uint64_t now_ns) {
    const Counter detail = kDetails[static_cast<size_t>(fault)];
    counters.add(Counter::kPortRcvErrors);
    counters.add(detail);
    std::optional<LinkError> error;
    if (detail == Counter::kPortLocalPhysicalErrors &&
        one_more_physical(port.get(port_info::kLocalPhyErrors))) {
        error = LinkError::kLocalIntegrity;
    }
    if (detail == Counter::kPortBufferOverrunErrors &&
        one_more_overrun(port.get(port_info::kOverrunErrors), now_ns)) {
        error = LinkError::kBufferOverrun;
    }
    if (error) {
        count_link_error(*error, counters);
    }
    return error;
}

void count_link_error(LinkError error, PortCounters& counters) {
    counters.add(row_of(error).counter);
}

void tell_link_error(LinkError error, uint8_t port_number, PortAttrs& sender, uint64_t now_ns) {
    if (sender.state() == PortState::kActive) {
        sender.traps.add(threshold_notice(row_of(error).trap_number, sender.lid(), port_number),
                         now_ns);
    }
}

std::optional<LinkError> link_error_of(uint16_t trap_number) {
    const auto row = std::ranges::find(kRows, trap_number, &Row::trap_number);
    return row == std::end(kRows) ? std::nullopt
                                  : std::optional(static_cast<LinkError>(row - kRows));
}

}  // namespace pib::ib
