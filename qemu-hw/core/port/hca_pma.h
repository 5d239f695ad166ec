// SPDX-License-Identifier: GPL-2.0-or-later
// The HCA's performance management agent (IBA vol. 1, 16.1): the counters of all ports, connected
// to ib/mgmt.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/host.h"
#include "ib/mgmt/perf_counters.h"

namespace pib::hca {

class HcaPma {
  public:
    explicit HcaPma(unsigned port_count) : ports_(port_count) {}

    ib::PortCounters& port(unsigned number) { return ports_[number - 1]; }
    void reset() {
        ports_.assign(ports_.size(), {});
        sampling_ = {};
    }

    // Returns the response, or nullopt if the request gets none.
    [[nodiscard]] std::optional<ib::Mad> answer(const ib::Mad& request, uint64_t now_ns) {
        return ib::pma_answer(node(), request, now_ns);
    }
    void advance(uint64_t now_ns) { ib::pma_advance(node(), now_ns); }
    uint64_t next_deadline() const { return sampling_.deadline_ns().value_or(kNever); }

  private:
    ib::PmaNode node() { return {.ports = ports_, .sampling = sampling_}; }

    std::vector<ib::PortCounters> ports_;
    ib::PortSampling sampling_;
};

// Whether a MAD at QP1 is for the PMA: a request of its class. Responses are for the guest.
[[nodiscard]] inline bool is_for_pma(const ib::Mad& mad) {
    return mad.mgmt_class() == ib::MgmtClass::kPerf && !mad.is_response();
}

}  // namespace pib::hca
