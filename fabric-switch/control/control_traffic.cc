// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/control_traffic.h"

#include <initializer_list>
#include <nlohmann/json.hpp>

namespace pib::fabric {
namespace {

using ib::Counter;
using nlohmann::json;

// Bits of a row's third number: the cable is not pulled, faults are set, the link has peer copy.
constexpr unsigned kPlugged = 1, kFaulty = 2, kCopies = 4;

uint64_t sum(const ib::PortCounters& counters, std::initializer_list<Counter> some) {
    uint64_t total = 0;
    for (const Counter counter : some) {
        total += counters.value(counter, ib::CounterView::kExtended);
    }
    return total;
}

unsigned conditions_of(SwitchPort& port) {
    const bool faulty = port.ingress_faults().spec().any() || port.egress_faults().spec().any();
    return (port.cable().is_plugged() ? kPlugged : 0) | (faulty ? kFaulty : 0) |
           (port.cable().copies() != nullptr ? kCopies : 0);
}

json row_of(SwitchPort& port, const ib::PortCounters& counters) {
    port.queues().count_wait();
    json row = {port.number(), static_cast<unsigned>(port.attrs().state()), conditions_of(port)};
    for (const Counter counter :
         {Counter::kPortXmitData, Counter::kPortRcvData, Counter::kPortXmitPkts,
          Counter::kPortRcvPkts, Counter::kPortXmitWait}) {
        row.push_back(sum(counters, {counter}));
    }
    row.push_back(sum(counters, {Counter::kPortXmitDiscards, Counter::kVl15Dropped,
                                 Counter::kPortRcvSwitchRelayErrors}));
    row.push_back(sum(counters, {Counter::kPortRcvErrors, Counter::kPortRcvRemotePhysicalErrors,
                                 Counter::kLocalLinkIntegrityErrors,
                                 Counter::kExcessiveBufferOverrunErrors, Counter::kSymbolErrors}));
    const VlData& data = port.queues().data_by_vl();
    for (unsigned vl = 0; vl < VlData::kVls; ++vl) {
        if (data.sent[vl] != 0 || data.received[vl] != 0) {
            row.push_back(vl);
            row.push_back(data.sent[vl]);
            row.push_back(data.received[vl]);
        }
    }
    return row;
}

}  // namespace

json traffic(Switch& sw, const json&) {
    json rows = json::array();
    for (unsigned number = 1; number <= sw.num_ports(); ++number) {
        if (sw.admission().neighbour(number) != nullptr) {
            rows.push_back(row_of(sw.port(number), sw.counters(number)));
        }
    }
    ib::PortAttrs& port0 = sw.node().port0();
    return {{"ok", true},
            {"changes", sw.journal().changes() + sw.node().lft.changes()},
            {"lid", port0.lid().value()},
            {"sm_lid", port0.sm_lid().value()},
            {"rows", std::move(rows)}};
}

}  // namespace pib::fabric
