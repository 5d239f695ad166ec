// SPDX-License-Identifier: GPL-2.0-or-later
// Sampling: SampleStart ticks after a Set the counters are remembered, SampleInterval ticks later
// the difference is taken, and the result waits to be fetched.
#include "ib/mgmt/port_sampling.h"

#include <algorithm>

namespace pib::ib {
namespace {

namespace psc = port_samples_control;
namespace psr = port_samples_result;

using Status = PortSampling::Status;
using Data = std::span<std::uint8_t, kGmpDataSize>;

// Counters that can be selected, the mandatory ones (IBA table 220).
constexpr Counter kSelectable[] = {Counter::kPortXmitData, Counter::kPortRcvData,
                                   Counter::kPortXmitPkts, Counter::kPortRcvPkts,
                                   Counter::kPortXmitWait};
constexpr std::size_t kImplementedCounters = std::size(kSelectable);
constexpr std::uint64_t kMandatoryOnly = 1;  // CounterMask of a counter that counts these
constexpr std::uint64_t kCounterWidth32 = 4;
constexpr std::uint64_t kTickCode = kPmaTickNs / 4 - 1;  // in units of 4 ns, less one

std::uint16_t selected(const PortSampling& sampling, std::size_t index) {
    return load_be<std::uint16_t>(&sampling.control[psc::kCounterSelect0Offset + 2 * index]);
}

bool is_selectable(std::uint16_t select) {
    return select >= 1 && select <= kImplementedCounters;
}

std::uint64_t total_of(const PmaNode& node, std::size_t index) {
    const std::uint16_t select = selected(node.sampling, index);
    const PortCounters* port =
        node.port(static_cast<unsigned>(get(node.sampling.control, psc::kPortSelect)));
    if (port == nullptr || !is_selectable(select)) {
        return 0;
    }
    return port->total[static_cast<std::size_t>(kSelectable[select - 1])];
}

// Turns remembered totals into differences, or the other way round.
void difference_to_totals(const PmaNode& node) {
    for (std::size_t i = 0; i < kImplementedCounters; ++i) {
        node.sampling.counts[i] = total_of(node, i) - node.sampling.counts[i];
    }
}

bool request_is_valid(const PmaNode& node, std::span<const std::uint8_t, kGmpDataSize> data) {
    if (node.port(static_cast<unsigned>(get(data, psc::kPortSelect))) == nullptr) {
        return false;
    }
    for (std::size_t i = 0; i < psc::kCounterCount; ++i) {
        const auto select = load_be<std::uint16_t>(&data[psc::kCounterSelect0Offset + 2 * i]);
        if (select != 0 && (i >= kImplementedCounters || !is_selectable(select))) {
            return false;
        }
    }
    return true;
}

void start(PortSampling& sampling, std::span<const std::uint8_t, kGmpDataSize> data,
           std::uint64_t now_ns) {
    std::ranges::copy(data, sampling.control.begin());
    sampling.counts.fill(0);
    sampling.status = Status::kStarted;
    sampling.begin_ns = now_ns + get(data, psc::kSampleStart) * kPmaTickNs;
    sampling.end_ns = sampling.begin_ns + get(data, psc::kSampleInterval) * kPmaTickNs;
}

}  // namespace

std::optional<std::uint64_t> pma_next_deadline_ns(const PortSampling& sampling) {
    switch (sampling.status) {
        case Status::kStarted:
            return sampling.begin_ns;
        case Status::kRunning:
            return sampling.end_ns;
        default:
            return std::nullopt;
    }
}

void pma_advance(const PmaNode& node, std::uint64_t now_ns) {
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

std::uint16_t answer_samples_control(const PmaNode& node, const Mad& request, std::uint64_t now_ns,
                                     Mad& reply) {
    PortSampling& sampling = node.sampling;
    pma_advance(node, now_ns);
    const auto port_select = get(request.gmp_data(), psc::kPortSelect);
    if (node.port(static_cast<unsigned>(port_select)) == nullptr) {
        return mad_status::kBadField;
    }
    std::uint16_t status = mad_status::kOk;
    // A measurement that runs is not disturbed (16.1.3.2): the reply shows that it is not done.
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
    if (get(sampling.control, psc::kPortSelect) == 0) {
        set(data, psc::kPortSelect, port_select);  // nothing was measured yet
    }
    set(data, psc::kTick, kTickCode);
    set(data, psc::kCounterWidth, kCounterWidth32);
    set(data, psc::kCounterMask0, kMandatoryOnly);
    // Counters 1 to 9, three bits each from the left: the first four are there.
    set(data, psc::kCounterMasks1To9, 0b001'001'001'001 << 15);
    set(data, psc::kCounterMasks10To14, 0);
    set(data, psc::kSampleMechanisms, 0);  // one
    set(data, psc::kSampleStatus, static_cast<unsigned>(sampling.status));
    set(data, psc::kOptionMask, 0);
    set(data, psc::kVendorMask, 0);
    return status;
}

std::uint16_t answer_samples_result(const PmaNode& node, const Mad& request, std::uint64_t now_ns,
                                    Mad& reply) {
    if (request.method() != Method::kGet) {
        return mad_status::kBadMethodAttribute;
    }
    pma_advance(node, now_ns);
    const PortSampling& sampling = node.sampling;
    const bool extended = request.attribute_id() == attr::kPortSamplesResultExtended;
    const Data data = reply.gmp_data();
    std::ranges::fill(data, std::uint8_t{0});
    set(data, psr::kTag, get(sampling.control, psc::kTag));
    set(data, psr::kSampleStatus, static_cast<unsigned>(sampling.status));
    if (extended) {
        set(data, psr::kExtendedWidth, 2);  // 64 bits
    }
    for (std::size_t i = 0; i < kImplementedCounters && sampling.status == Status::kDone; ++i) {
        const std::uint64_t count = sampling.counts[i];
        if (extended) {
            store_be(&data[psr::kExtendedCounter0Offset + 8 * i], count);
        } else {
            store_be(&data[psr::kCounter0Offset + 4 * i],
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 0xFFFFFFFF)));
        }
    }
    return mad_status::kOk;
}

}  // namespace pib::ib
