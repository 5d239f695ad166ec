// SPDX-License-Identifier: GPL-2.0-or-later
// The performance management agent: one table row for each counter of each attribute. Sampling is
// in port_sampling.cc.
#include "ib/mgmt/perf_counters.h"

#include <algorithm>
#include <limits>

#include "ib/mgmt/port_sampling.h"

namespace pib::ib {
namespace {

using Data = std::span<uint8_t, kGmpDataSize>;
using ConstData = std::span<const uint8_t, kGmpDataSize>;

// One counter of an attribute, and its bit in the attribute's selection: CounterSelect in bits 0 to
// 15, CounterSelect2 above.
struct Row {
    Counter counter{};
    Field field{0, 1};
    uint8_t select_bit = 0;
};

namespace pc = port_counters;
constexpr Row kPortCountersRows[] = {
    {Counter::kSymbolErrors, pc::kSymbolErrors, 0},
    {Counter::kLinkErrorRecovery, pc::kLinkErrorRecovery, 1},
    {Counter::kLinkDowned, pc::kLinkDowned, 2},
    {Counter::kPortRcvErrors, pc::kPortRcvErrors, 3},
    {Counter::kPortRcvRemotePhysicalErrors, pc::kPortRcvRemotePhysicalErrors, 4},
    {Counter::kPortRcvSwitchRelayErrors, pc::kPortRcvSwitchRelayErrors, 5},
    {Counter::kPortXmitDiscards, pc::kPortXmitDiscards, 6},
    {Counter::kPortXmitConstraintErrors, pc::kPortXmitConstraintErrors, 7},
    {Counter::kPortRcvConstraintErrors, pc::kPortRcvConstraintErrors, 8},
    {Counter::kLocalLinkIntegrityErrors, pc::kLocalLinkIntegrityErrors, 9},
    {Counter::kExcessiveBufferOverrunErrors, pc::kExcessiveBufferOverrunErrors, 10},
    {Counter::kVl15Dropped, pc::kVl15Dropped, 11},
    {Counter::kPortXmitData, pc::kPortXmitData, 12},
    {Counter::kPortRcvData, pc::kPortRcvData, 13},
    {Counter::kPortXmitPkts, pc::kPortXmitPkts, 14},
    {Counter::kPortRcvPkts, pc::kPortRcvPkts, 15},
    {Counter::kPortXmitWait, pc::kPortXmitWait, 16},
    {Counter::kQp1Dropped, pc::kQp1Dropped, 17},
};

namespace px = port_counters_ext;
constexpr Row kExtendedRows[] = {
    {Counter::kPortXmitData, px::kPortXmitData, 0},
    {Counter::kPortRcvData, px::kPortRcvData, 1},
    {Counter::kPortXmitPkts, px::kPortXmitPkts, 2},
    {Counter::kPortRcvPkts, px::kPortRcvPkts, 3},
    {Counter::kPortUnicastXmitPkts, px::kPortUnicastXmitPkts, 4},
    {Counter::kPortUnicastRcvPkts, px::kPortUnicastRcvPkts, 5},
    {Counter::kPortMulticastXmitPkts, px::kPortMulticastXmitPkts, 6},
    {Counter::kPortMulticastRcvPkts, px::kPortMulticastRcvPkts, 7},
    {Counter::kSymbolErrors, px::kSymbolErrors, 16},
    {Counter::kLinkErrorRecovery, px::kLinkErrorRecovery, 17},
    {Counter::kLinkDowned, px::kLinkDowned, 18},
    {Counter::kPortRcvErrors, px::kPortRcvErrors, 19},
    {Counter::kPortRcvRemotePhysicalErrors, px::kPortRcvRemotePhysicalErrors, 20},
    {Counter::kPortRcvSwitchRelayErrors, px::kPortRcvSwitchRelayErrors, 21},
    {Counter::kPortXmitDiscards, px::kPortXmitDiscards, 22},
    {Counter::kPortXmitConstraintErrors, px::kPortXmitConstraintErrors, 23},
    {Counter::kPortRcvConstraintErrors, px::kPortRcvConstraintErrors, 24},
    {Counter::kLocalLinkIntegrityErrors, px::kLocalLinkIntegrityErrors, 25},
    {Counter::kExcessiveBufferOverrunErrors, px::kExcessiveBufferOverrunErrors, 26},
    {Counter::kVl15Dropped, px::kVl15Dropped, 27},
    {Counter::kPortXmitWait, px::kPortXmitWait, 28},
    {Counter::kQp1Dropped, px::kQp1Dropped, 29},
};

namespace re = port_rcv_error_details;
constexpr Row kRcvErrorRows[] = {
    {Counter::kPortLocalPhysicalErrors, re::kPortLocalPhysicalErrors, 0},
    {Counter::kPortMalformedPacketErrors, re::kPortMalformedPacketErrors, 1},
    {Counter::kPortBufferOverrunErrors, re::kPortBufferOverrunErrors, 2},
    {Counter::kPortDlidMappingErrors, re::kPortDlidMappingErrors, 3},
    {Counter::kPortVlMappingErrors, re::kPortVlMappingErrors, 4},
    {Counter::kPortLoopingErrors, re::kPortLoopingErrors, 5},
};

namespace xd = port_xmit_discard_details;
constexpr Row kXmitDiscardRows[] = {
    {Counter::kPortInactiveDiscards, xd::kPortInactiveDiscards, 0},
    {Counter::kPortNeighborMtuDiscards, xd::kPortNeighborMtuDiscards, 1},
    {Counter::kPortSwLifetimeLimitDiscards, xd::kPortSwLifetimeLimitDiscards, 2},
    {Counter::kPortSwHoqLifetimeLimitDiscards, xd::kPortSwHoqLifetimeLimitDiscards, 3},
};

// `count` counters whose fields and bits of selection follow each other.
struct Block {
    Counter first;
    Field field;
    unsigned count;
};

template <size_t kRows, size_t kBlocks>
consteval std::array<Row, kRows> rows_of(const Block (&blocks)[kBlocks]) {
    std::array<Row, kRows> rows{};
    uint8_t row = 0;
    for (const Block& block : blocks) {
        for (unsigned i = 0; i < block.count; ++i, ++row) {
            rows[row] = {counter_of(block.first, i), block.field.next(i), row};
        }
    }
    return rows;
}

template <size_t kCount>
consteval std::array<Row, kCount> rows_of(Counter first, Field field) {
    return rows_of<kCount>({{first, field, kCount}});
}

constexpr auto kXmitDataSlRows =
    rows_of<kPerPriority>(Counter::kPortXmitDataSl, port_data_sl::kFirst);
constexpr auto kRcvDataSlRows =
    rows_of<kPerPriority>(Counter::kPortRcvDataSl, port_data_sl::kFirst);
constexpr auto kVlXmitWaitRows =
    rows_of<kPerPriority>(Counter::kPortVlXmitWait, port_vl_xmit_wait_counters::kFirst);
constexpr auto kVlUpdateErrorRows = rows_of<kPerPriority>(
    Counter::kPortVlXmitFlowCtlUpdateErrors, port_vl_xmit_flow_ctl_update_errors::kFirst);

namespace es = port_extended_speeds;
// Bits of CounterSelect in the order of these blocks: 0, 1, 2 to 13, 14 to 25, 26 to 37, as in ibis
// of ibutils2.
constexpr auto kExtendedSpeedsRows = rows_of<2 + 3 * es::kLanes>(
    {{Counter::kSyncHeaderErrors, es::kSyncHeaderErrors, 1},
     {Counter::kUnknownBlocks, es::kUnknownBlocks, 1},
     {Counter::kErrorDetectionLane, es::kErrorDetectionLane0, es::kLanes},
     {Counter::kFecCorrectableBlocksLane, es::kFecCorrectableBlocksLane0, es::kLanes},
     {Counter::kFecUncorrectableBlocksLane, es::kFecUncorrectableBlocksLane0, es::kLanes}});

// The fields that select counters, the one with bit 0 first.
constexpr Field kSelect[] = {pma::kCounterSelect};
constexpr Field kSelectWith2[] = {pma::kCounterSelect, pc::kCounterSelect2};
constexpr Field kSelectWithExtended2[] = {pma::kCounterSelect, px::kCounterSelect2};
constexpr Field kSelectExtendedSpeeds[] = {es::kCounterSelect};

struct CounterAttribute {
    uint16_t attribute_id;
    CounterView view;
    std::span<const Row> rows;
    std::span<const Field> select = kSelect;
};
constexpr CounterAttribute kCounterAttributes[] = {
    {attr::kPortCounters, CounterView::kClassic, kPortCountersRows, kSelectWith2},
    {attr::kPortCountersExtended, CounterView::kExtended, kExtendedRows, kSelectWithExtended2},
    {attr::kPortRcvErrorDetails, CounterView::kClassic, kRcvErrorRows},
    {attr::kPortXmitDiscardDetails, CounterView::kClassic, kXmitDiscardRows},
    {attr::kPortXmitDataSl, CounterView::kClassic, kXmitDataSlRows},
    {attr::kPortRcvDataSl, CounterView::kClassic, kRcvDataSlRows},
    {attr::kPortVlXmitWaitCounters, CounterView::kClassic, kVlXmitWaitRows},
    // Links of this project have neither deadlines of flow control packets nor blocks, lanes and
    // forward error correction: the following counters count injected errors only.
    {attr::kPortVlXmitFlowCtlUpdateErrors, CounterView::kClassic, kVlUpdateErrorRows},
    {attr::kPortExtendedSpeedsCounters, CounterView::kClassic, kExtendedSpeedsRows,
     kSelectExtendedSpeeds},
};

// The ports that PortSelect names; empty if there are none.
std::span<PortCounters> selected_ports(const PmaNode& node, uint64_t port_select) {
    if (port_select == pma::kAllPorts && node.all_port_select) {
        return node.ports;
    }
    PortCounters* port = node.port(static_cast<unsigned>(port_select));
    return port == nullptr ? std::span<PortCounters>{} : std::span(port, 1);
}

uint64_t saturating_add(uint64_t a, uint64_t b) {
    const uint64_t sum = a + b;
    return sum < a ? std::numeric_limits<uint64_t>::max() : sum;
}

uint64_t selection(const CounterAttribute& attribute, ConstData data) {
    uint64_t selected = 0;
    unsigned bits = 0;
    for (const Field& field : attribute.select) {
        selected |= get(data, field) << bits;
        bits += field.width_bits;
    }
    return selected;
}

// Sums the ports into the attribute. A counter that its field cannot hold stands at the field's
// maximum until it is cleared (IBA 16.1.3.5).
void read_counters(std::span<const PortCounters> ports, const CounterAttribute& attribute,
                   Data data) {
    for (const Row& row : attribute.rows) {
        uint64_t sum = 0;
        for (const PortCounters& port : ports) {
            sum = saturating_add(sum, port.value(row.counter, attribute.view));
        }
        set(data, row.field, std::min(sum, row.field.max()));
    }
}

void write_counters(std::span<PortCounters> ports, const CounterAttribute& attribute,
                    ConstData data) {
    const uint64_t selected = selection(attribute, data);
    for (const Row& row : attribute.rows) {
        if ((selected >> row.select_bit & 1) == 0) {
            continue;
        }
        for (PortCounters& port : ports) {
            port.write(row.counter, attribute.view, get(data, row.field));
        }
    }
}

uint16_t answer_counters(const PmaNode& node, const CounterAttribute& attribute, const Mad& request,
                         Mad& reply) {
    const auto ports = selected_ports(node, get(request.gmp_data(), pma::kPortSelect));
    if (ports.empty()) {
        return mad_status::kBadField;
    }
    if (request.method() == Method::kSet) {
        write_counters(ports, attribute, request.gmp_data());
    }
    std::ranges::fill(reply.gmp_data(), uint8_t{0});
    set(reply.gmp_data(), pma::kPortSelect, get(request.gmp_data(), pma::kPortSelect));
    for (const Field& field : attribute.select) {
        set(reply.gmp_data(), field, get(request.gmp_data(), field));
    }
    read_counters(ports, attribute, reply.gmp_data());
    return mad_status::kOk;
}

uint16_t answer_class_port_info(const PmaNode& node, const Mad& request, uint64_t, Mad& reply) {
    namespace cpi = class_port_info;
    if (request.method() == Method::kSet) {
        // Only the destination of traps could be set, and the PMA sends no traps.
        return mad_status::kBadMethodAttribute;
    }
    const Data data = reply.gmp_data();
    std::ranges::fill(data, uint8_t{0});
    set(data, cpi::kBaseVersion, kMadBaseVersion);
    set(data, cpi::kClassVersion, kPerfClassVersion);
    set(data, cpi::kCapabilityMask,
        pma::kCapExtendedWidth | pma::kCapPortCountersXmitWait | pma::kCapQp1Dropped |
            (node.all_port_select ? pma::kCapAllPortSelect : 0U));
    set(data, cpi::kCapabilityMask2, pma::kCap2AdditionalExtended);
    set(data, cpi::kRespTimeValue, node.resp_time_value);
    return mad_status::kOk;
}

// The attributes without counters, and the functions that answer them.
struct OtherAttribute {
    uint16_t attribute_id;
    uint16_t (*answer)(const PmaNode&, const Mad& request, uint64_t now_ns, Mad& reply);
};
constexpr OtherAttribute kOtherAttributes[] = {
    {attr::kClassPortInfo, answer_class_port_info},
    {attr::kPortSamplesControl, answer_samples_control},
    {attr::kPortSamplesResult, answer_samples_result},
    {attr::kPortSamplesResultExtended, answer_samples_result},
};

uint16_t answer_attribute(const PmaNode& node, const Mad& request, uint64_t now_ns, Mad& reply) {
    const uint16_t id = request.attribute_id();
    const auto counters =
        std::ranges::find(kCounterAttributes, id, &CounterAttribute::attribute_id);
    const auto other = std::ranges::find(kOtherAttributes, id, &OtherAttribute::attribute_id);
    const bool counts = counters != std::end(kCounterAttributes);
    if (!counts && other == std::end(kOtherAttributes)) {
        return mad_status::kBadMethodAttribute;
    }
    // No attribute has a modifier.
    if (request.attribute_modifier() != 0) {
        return mad_status::kBadField;
    }
    return counts ? answer_counters(node, *counters, request, reply)
                  : other->answer(node, request, now_ns, reply);
}

}  // namespace

void PortCounters::count_sent(const Lrh& lrh, uint64_t words, uint32_t packets) {
    const bool multicast = lrh.dlid.is_multicast();
    add(Counter::kPortXmitData, words);
    add(Counter::kPortXmitPkts, packets);
    add(multicast ? Counter::kPortMulticastXmitPkts : Counter::kPortUnicastXmitPkts, packets);
    total.add(Counter::kPortXmitDataSl, lrh.sl.value(), words);
}

void PortCounters::count_received(const Lrh& lrh, uint64_t words, uint32_t packets) {
    const bool multicast = lrh.dlid.is_multicast();
    add(Counter::kPortRcvData, words);
    add(Counter::kPortRcvPkts, packets);
    add(multicast ? Counter::kPortMulticastRcvPkts : Counter::kPortUnicastRcvPkts, packets);
    total.add(Counter::kPortRcvDataSl, lrh.sl.value(), words);
}

std::optional<Mad> pma_answer(const PmaNode& node, const Mad& request, uint64_t now_ns) {
    const bool other_base = request.base_version() != kMadBaseVersion;
    if (other_base || request.mgmt_class() != MgmtClass::kPerf || request.is_response()) {
        return std::nullopt;
    }
    Mad reply = request;
    reply.set(mad_header::kMethod, static_cast<unsigned>(Method::kGetResp));
    uint16_t status = mad_status::kOk;
    if (request.class_version() != kPerfClassVersion) {
        status = mad_status::kBadVersion;
    } else if (request.method() != Method::kGet && request.method() != Method::kSet) {
        status = mad_status::kBadMethod;
    } else {
        status = answer_attribute(node, request, now_ns, reply);
    }
    reply.set_status(status);
    return reply;
}

}  // namespace pib::ib
