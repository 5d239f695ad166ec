// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/run_queue.h"

namespace pib::hca {

void RunQueue::push(uint32_t qpn, unsigned port, unsigned lane) {
    PortLanes& waiting = at(port);
    waiting.qpns[lane].push(qpn);
    waiting.lanes |= 1u << lane;
    ports_ |= 1u << (port - 1);
}

bool RunQueue::others_wait(unsigned port, unsigned lane) const {
    constexpr uint32_t kOnLink = kDataLanes | 1u << kVl15Lane;
    return lane < kVl15Lane && (at(port).lanes & kOnLink & ~(1u << lane)) != 0;
}

unsigned RunQueue::next_port() {
    const uint32_t later = last_port_ < kMaxPorts ? ports_ >> last_port_ << last_port_ : 0;
    last_port_ = static_cast<unsigned>(std::countr_zero(later != 0 ? later : ports_)) + 1;
    return last_port_;
}

uint32_t RunQueue::pop(unsigned port, unsigned lane) {
    const uint32_t qpn = at(port).qpns[lane].pop();
    note_if_empty(port, lane);
    return qpn;
}

void RunQueue::note_if_empty(unsigned port, unsigned lane) {
    PortLanes& waiting = at(port);
    if (waiting.qpns[lane].empty()) {
        waiting.lanes &= ~(1u << lane);
        if (waiting.lanes == 0) {
            ports_ &= ~(1u << (port - 1));
        }
    }
}

void RunQueue::remove(uint32_t qpn) {
    for (unsigned port = 1; port <= by_port_.size(); ++port) {
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            at(port).qpns[lane].remove(qpn);
            note_if_empty(port, lane);
        }
    }
}

void RunQueue::clear() {
    for (PortLanes& waiting : by_port_) {
        for (Ring<uint32_t>& qpns : waiting.qpns) {
            qpns.clear();
        }
        waiting.lanes = 0;
    }
    ports_ = 0;
}

}  // namespace pib::hca
