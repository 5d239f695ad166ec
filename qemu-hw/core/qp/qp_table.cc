// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_table.h"

namespace pib::hca {

Verdict QpTable::check_room(unsigned special_port, QpType type) const {
    if (special_port != 0) {
        const auto& qp = special_[special_qpn(special_port, type == QpType::kGsi)];
        return qp ? refuse(Rule::kQpSpecial, special_port) : CmdStatus::kOk;
    }
    return qps_.count() == qps_.capacity() ? refuse(Rule::kObjectLimit, 0, qps_.capacity())
                                           : CmdStatus::kOk;
}

QueuePair& QpTable::insert(QueuePair&& qp) {
    if (qp.is_special()) {
        qp.qpn = special_qpn(qp.special_port, qp.type == QpType::kGsi);
        auto& place = special_[qp.qpn];
        place = std::make_unique<QueuePair>(std::move(qp));
        return *place;
    }
    const uint32_t qpn = qps_.insert(std::move(qp));
    QueuePair& placed = *qps_.find(qpn);
    placed.qpn = qpn;
    return placed;
}

void QpTable::erase(uint32_t qpn) {
    if (qpn < kSpecialQps) {
        special_[qpn].reset();
    } else {
        qps_.erase(qpn);
    }
}

void QpTable::clear() {
    qps_.clear();
    for (auto& qp : special_) {
        qp.reset();
    }
    failed_cqs_ = {};
}

}  // namespace pib::hca
