// SPDX-License-Identifier: GPL-2.0-or-later
// Page faults of on-demand regions, until the driver fetches them. Each half of a QP has at most
// one, which bounds their number.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "memory/on_demand.h"

namespace pib::hca {

// The half of the QP that made the access: the requester, for work requests and responses to them,
// or the responder, for inbound requests.
enum class QpHalf : uint8_t { kRequester, kResponder };

// A fault that the driver is to resolve; miss.length 0: there is none.
struct PageFault {
    uint32_t qpn = 0;
    QpHalf half = QpHalf::kRequester;
    PageMiss miss{};
};

// The wait of one half of a QP for a page.
struct PageWait {
    bool waiting = false;  // until QpVerbs::resume_page_fault()
    bool refused =
        false;        // the driver has refused the page of `miss`: another miss of it is an error
    PageMiss miss{};  // the newest miss that the driver was told of
};

class PageFaults {
  public:
    // Adds a fault. True: an event has to wake the driver.
    [[nodiscard]] bool add(uint32_t qpn, QpHalf half, const PageMiss& miss) {
        faults_.insert_or_assign({qpn, half}, miss);
        return !std::exchange(announced_, true);
    }
    // Removes and returns a fault; miss.length 0: there is none, and the next add() returns true.
    PageFault take();
    void forget(uint32_t qpn) {
        faults_.erase({qpn, QpHalf::kRequester});
        faults_.erase({qpn, QpHalf::kResponder});
    }
    void clear() {
        faults_.clear();
        announced_ = false;
    }

  private:
    std::map<std::pair<uint32_t, QpHalf>, PageMiss> faults_;
    bool announced_ = false;
};

}  // namespace pib::hca
