// SPDX-License-Identifier: GPL-2.0-or-later
// Sampling: SampleStart ticks after a Set the PMA records the counters. SampleInterval ticks later
// it computes the differences, which a Get returns.
#include "ib/mgmt/port_sampling.h"

#include <algorithm>

namespace pib::ib {
namespace {

namespace psc = port_samples_control;
namespace psr = port_samples_result;

using Status = PortSampling::Status;
using Data = std::span<uint8_t, kGmpDataSize>;

// A range of CounterSelect values, and the counter that the first one selects (IBA table 220).
struct Selectable {
    uint16_t select;
    Counter first;
    uint16_t count;
    uint16_t step = 1;
};
constexpr uint16_t kEachVl = 0x100;  // bits 8 to 11 of CounterSelect are the VL
constexpr Selectable kSelectable[] = {
    {0x0001, Counter::kPortXmitData, 5},  // the mandatory counters
    // the counters of PortRcvErrorDetails, then of PortXmitDiscardDetails
    {0x4005, Counter::kPortLocalPhysicalErrors, 10},
    {0x4015, Counter::kPortVlXmitFlowCtlUpdateErrors, kPerPriority, kEachVl},
    {0x4016, Counter::kPortVlXmitWait, kPerPriority, kEachVl}};
constexpr size_t kImplementedCounters = 5;
constexpr uint64_t kMandatoryAndOptional = 3;  // CounterMask: may count both kinds
// The counters of SLs and of extended speeds exist, but cannot be sampled.
constexpr uint64_t kOptionMask = psc::kOptionRcvErrorDetails | psc::kOptionXmitDiscardDetails |
                                 psc::kOptionVlXmitFlowCtlUpdateErrors | psc::kOptionVlXmitWait |
                                 psc::kOptionExtendedSpeeds | psc::kOptionXmitDataSl |
                                 psc::kOptionRcvDataSl;
constexpr uint64_t kCounterWidth32 = 4;
constexpr uint64_t kTickCode = kPmaTickNs / 4 - 1;  // in units of 4 ns, less one

uint16_t selected(const PortSampling& sampling, size_t index) {
    return load_be<uint16_t>(&sampling.control[psc::kCounterSelect0Offset + 2 * index]);
}

std::optional<Counter> counter_selected_by(uint16_t select) {
    for (const Selectable& range : kSelectable) {
        const unsigned ahead = static_cast<unsigned>(select) - range.select;
        if (select >= range.select && ahead % range.step == 0 && ahead / range.step < range.count) {
            return counter_of(range.first, ahead / range.step);
        }
    }
    return std::nullopt;
}

uint64_t total_of(const PmaNode& node, size_t index) {
    const auto counter = counter_selected_by(selected(node.sampling, index));
    const PortCounters* port =
        node.port(static_cast<unsigned>(get(node.sampling.control, psc::kPortSelect)));
    if (port == nullptr || !counter) {
        return 0;
    }
    return port->total[*counter];
}

// Subtracts each count from its total. At the start of the interval, when counts are 0, this
// records the totals; at the end, it leaves the differences.
void difference_to_totals(const PmaNode& node) {
    for (size_t i = 0; i < kImplementedCounters; ++i) {
        node.sampling.counts[i] = total_of(node, i) - node.sampling.counts[i];
    }
}

bool request_is_valid(const PmaNode& node, std::span<const uint8_t, kGmpDataSize> data) {
    if (node.port(static_cast<unsigned>(get(data, psc::kPortSelect))) == nullptr) {
        return false;
    }
    for (size_t i = 0; i < psc::kCounterCount; ++i) {
        const auto select = load_be<uint16_t>(&data[psc::kCounterSelect0Offset + 2 * i]);
        if (select != 0 && (i >= kImplementedCounters || !counter_selected_by(select))) {
            return false;
        }
    }
    return true;
}

void start(PortSampling& sampling, std::span<const uint8_t, kGmpDataSize> data, uint64_t now_ns) {
    std::ranges::copy(data, sampling.control.begin());
    sampling.counts.fill(0);
    sampling.status = Status::kStarted;
    sampling.begin_ns = now_ns + get(data, psc::kSampleStart) * kPmaTickNs;
    sampling.end_ns = sampling.begin_ns + get(data, psc::kSampleInterval) * kPmaTickNs;
}

}  // namespace

void pma_advance(const PmaNode& node, uint64_t now_ns) {
    PortSampling& sampling = node.sampling;
    if (sampling.status == Status::kStarted && now_ns >= sampling.begin_ns) {
        difference_to_totals(node);
        sampling.status = Status::kRunning;
    }
    if (sampling.status == Status::kRunning && now_ns >= sampling.end_ns) {
        difference_to_totals(node);
        sampling.status = Status::kDone;
    }
}

uint16_t answer_samples_control(const PmaNode& node, const Mad& request, uint64_t now_ns,
                                Mad& reply) {
    PortSampling& sampling = node.sampling;
    pma_advance(node, now_ns);
    const auto port_select = get(request.gmp_data(), psc::kPortSelect);
    if (node.port(static_cast<unsigned>(port_select)) == nullptr) {
        return mad_status::kBadField;
    }
    uint16_t status = mad_status::kOk;
    // A Set does not disturb a running measurement (16.1.3.2): the reply has its status.
    if (request.method() == Method::kSet && sampling.status == Status::kDone) {
        if (!request_is_valid(node, request.gmp_data())) {
            status = mad_status::kBadField;
        } else {
            start(sampling, request.gmp_data(), now_ns);
            pma_advance(node, now_ns);
        }
    }
    const Data data = reply.gmp_data();
    std::ranges::copy(sampling.control, data.begin());
    if (sampling.end_ns == 0) {
        set(data, psc::kPortSelect, port_select);  // no measurement has begun yet
    }
    set(data, psc::kTick, kTickCode);
    set(data, psc::kCounterWidth, kCounterWidth32);
    set(data, psc::kCounterMask0, kMandatoryAndOptional);
    // Counters 1 to 9, three bits each from the left: the first four exist.
    set(data, psc::kCounterMasks1To9, 0b011'011'011'011 << 15);
    set(data, psc::kCounterMasks10To14, 0);
    set(data, psc::kSampleMechanisms, 0);  // one mechanism
    set(data, psc::kSampleStatus, static_cast<unsigned>(sampling.status));
    set(data, psc::kOptionMask, kOptionMask);
    set(data, psc::kVendorMask, 0);
    return status;
}

uint16_t answer_samples_result(const PmaNode& node, const Mad& request, uint64_t now_ns,
                               Mad& reply) {
    if (request.method() != Method::kGet) {
        return mad_status::kBadMethodAttribute;
    }
    pma_advance(node, now_ns);
    const PortSampling& sampling = node.sampling;
    const bool extended = request.attribute_id() == attr::kPortSamplesResultExtended;
    const Data data = reply.gmp_data();
    std::ranges::fill(data, uint8_t{0});
    set(data, psr::kTag, get(sampling.control, psc::kTag));
    set(data, psr::kSampleStatus, static_cast<unsigned>(sampling.status));
    if (extended) {
        set(data, psr::kExtendedWidth, 2);  // 64 bits
    }
    for (size_t i = 0; i < kImplementedCounters && sampling.status == Status::kDone; ++i) {
        const uint64_t count = sampling.counts[i];
        if (extended) {
            store_be(&data[psr::kExtendedCounter0Offset + 8 * i], count);
        } else {
            store_be(&data[psr::kCounter0Offset + 4 * i],
                     static_cast<uint32_t>(std::min<uint64_t>(count, 0xFFFFFFFF)));
        }
    }
    return mad_status::kOk;
}

}  // namespace pib::ib
