// SPDX-License-Identifier: GPL-2.0-or-later
// CQs that fail during one step of the transport, so that one search finds the QPs of all of them:
// a multicast packet may overrun the CQ of each of its receivers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace pib::hca {

class FailedCqs {
  public:
    // From collect() until take(), add() keeps CQs.
    void collect() { collects_ = true; }
    // False: the caller searches now.
    [[nodiscard]] bool add(uint32_t cqn) {
        if (collects_) {
            cqns_.push_back(cqn);
        }
        return collects_;
    }
    // The numbers of the CQs, in order.
    std::vector<uint32_t> take() {
        collects_ = false;
        std::ranges::sort(cqns_);
        return std::exchange(cqns_, {});
    }

  private:
    std::vector<uint32_t> cqns_;
    bool collects_ = false;
};

}  // namespace pib::hca
