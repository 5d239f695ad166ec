// SPDX-License-Identifier: GPL-2.0-or-later
// Counters of a port and the performance management agent that reports them (IBA chapter 16.1).
// Every event is counted once in a 64-bit total. The attributes report these totals in fields of
// their own widths. PortCountersExtended has its own starting points, so that a Set of it does not
// clear the counters of other attributes, nor the other way round.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "ib/mgmt/counter_set.h"
#include "ib/mgmt/lazy.h"
#include "ib/mgmt/nonzero_counters.h"
#include "ib/wire/headers.h"
#include "ib/wire/mad.h"
#include "ib/wire/perf_mad.h"

namespace pib::ib {

// The two values of a counter: PortCountersExtended shows kExtended, all other attributes show
// kClassic. A Set changes only the value that its attribute shows.
enum class CounterView : uint8_t { kClassic = 0, kExtended = 1 };

struct PortCounters {
    CounterSet total;
    // `base` has an element for each CounterView. A Get returns the total minus the base; a Set
    // stores as the base the total at that time minus the written value.
    std::array<Lazy<NonzeroCounters>, 2> base;

    bool operator==(const PortCounters&) const = default;

    void add(Counter counter, uint64_t amount = 1) { total.add(counter, amount); }
    // Count packets sent or received with this LRH, VL15 included; `words` is the sum of their
    // PktLen.
    void count_sent(const Lrh& lrh, uint64_t words, uint32_t packets);
    void count_received(const Lrh& lrh, uint64_t words, uint32_t packets);
    // Count one packet.
    void count_sent(const Lrh& lrh) { count_sent(lrh, lrh.pkt_len, 1); }
    void count_received(const Lrh& lrh) { count_received(lrh, lrh.pkt_len, 1); }

    [[nodiscard]] uint64_t value(Counter counter, CounterView view = CounterView::kClassic) const {
        return total[counter] - (*base[static_cast<size_t>(view)])[counter];
    }
    void write(Counter counter, CounterView view, uint64_t written) {
        if (value(counter, view) != written) {
            base[static_cast<size_t>(view)].make().set(counter, total[counter] - written);
        }
    }
};

// The tick of PortSamplesControl:Tick and PortXmitWait.
inline constexpr uint64_t kPmaTickNs = 1000;

// A measurement by PortSamplesControl (IBA 16.1.3.2); an agent runs one at a time.
struct PortSampling {
    enum class Status : uint8_t { kDone = 0, kStarted = 1, kRunning = 2 };

    std::array<uint8_t, kGmpDataSize> control{};  // the attribute as it was set
    Status status = Status::kDone;
    uint64_t begin_ns = 0;  // start of the interval
    uint64_t end_ns = 0;
    // While the interval runs, the totals at its start; then the difference.
    std::array<uint64_t, port_samples_control::kCounterCount> counts{};

    // Time in ns at which pma_advance() has to read the counters next; nullopt: never.
    [[nodiscard]] std::optional<uint64_t> deadline_ns() const {
        switch (status) {
            case Status::kStarted:
                return begin_ns;
            case Status::kRunning:
                return end_ns;
            default:
                return std::nullopt;
        }
    }
    bool operator==(const PortSampling&) const = default;
};

// The node whose counters are requested. `ports[i]` belongs to port number `first_port + i`;
// `first_port` is 1 at a channel adapter, 0 at a switch.
struct PmaNode {
    std::span<PortCounters> ports;
    PortSampling& sampling;
    uint8_t first_port = 1;
    bool all_port_select = false;  // PortSelect 0xFF is supported (switches)
    uint8_t resp_time_value = 16;  // ClassPortInfo:RespTimeValue, 4.096 us * 2^n

    [[nodiscard]] PortCounters* port(unsigned number) const {
        const unsigned index = number - first_port;
        return index < ports.size() ? &ports[index] : nullptr;
    }
};

// Answers a MAD of the performance class. nullopt for MADs without an answer: a response, another
// class, or another base version (IBA 13.4.5, 16.1.2).
[[nodiscard]] std::optional<Mad> pma_answer(const PmaNode& node, const Mad& request,
                                            uint64_t now_ns);

// Sampling reads the counters at the start and the end of an interval: call this at
// PortSampling::deadline_ns().
void pma_advance(const PmaNode& node, uint64_t now_ns);

}  // namespace pib::ib
