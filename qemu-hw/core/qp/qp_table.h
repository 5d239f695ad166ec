// SPDX-License-Identifier: GPL-2.0-or-later
// The queue pairs of a device by number. SMI and GSI QPs have fixed numbers below kFirstQpn.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "base/config.h"
#include "base/table.h"
#include "ib/wire/types.h"
#include "qp/failed_cqs.h"
#include "qp/qp.h"

namespace pib::hca {

class QpTable {
  public:
    QpTable() : qps_(kFirstQpn, Limits::kQps) {}

    // nullptr: no QP has this number.
    QueuePair* find(uint32_t qpn) {
        return qpn < kSpecialQps ? special_[qpn].get() : qps_.find(qpn);
    }
    // The destination of a packet that arrives at `port`. QP numbers 0 and 1 in a packet name the
    // SMI and the GSI QP of that port. nullptr: there is no such QP.
    QueuePair* find_wire(unsigned port, ib::Qpn qpn) {
        if (qpn.value() <= ib::kQp1.value()) {
            return special_[special_qpn(port, qpn == ib::kQp1)].get();
        }
        return qps_.find(qpn.value());
    }

    // Whether insert() has room: BUSY when the port has such a special QP, NO_RESOURCES when the
    // table is full. Port 0: the QP is not special.
    Verdict check_room(unsigned special_port, QpType type) const;
    // Inserts the QP and gives it its number. Requires OK from check_room().
    QueuePair& insert(QueuePair&& qp);
    void erase(uint32_t qpn);
    void clear();
    void set_choice(NumberChoice choice) { qps_.set_choice(choice); }

    template <typename F>
    void for_each(F&& f) {
        for (const auto& qp : special_) {
            if (qp) {
                f(*qp);
            }
        }
        qps_.for_each([&](uint32_t, QueuePair& qp) { f(qp); });
    }
    // Number of QPs for which `matches` is true.
    template <typename F>
    uint32_t count_if(F&& matches) {
        uint32_t count = 0;
        for_each([&](const QueuePair& qp) { count += matches(qp) ? 1 : 0; });
        return count;
    }

    FailedCqs& failed_cqs() { return failed_cqs_; }

  private:
    static constexpr unsigned kSpecialQps = 2 * kMaxPorts;

    Table<QueuePair> qps_;
    std::array<std::unique_ptr<QueuePair>, kSpecialQps> special_;
    FailedCqs failed_cqs_;
};

}  // namespace pib::hca
