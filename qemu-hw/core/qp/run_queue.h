// SPDX-License-Identifier: GPL-2.0-or-later
// QPs that wait for a turn, by port and lane: a QP waits only for QPs of its own lane, so that a
// port can choose among the VLs with packets (IBA 7.6.9).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/config.h"
#include "base/ring.h"
#include "port/port.h"

namespace pib::hca {

class RunQueue {
  public:
    // Ports count from 1. The QP must not be in the queue yet.
    void push(uint32_t qpn, unsigned port, unsigned lane);
    [[nodiscard]] bool empty() const { return ports_ == 0; }
    // Whether a QP waits for the port's link in another lane, if `lane` is that of a data VL. False
    // for VL15, which goes before the data VLs, and for loopback, which does not use the link.
    [[nodiscard]] bool others_wait(unsigned port, unsigned lane) const;

    // The next port, round robin, among those whose QPs wait for a turn. The queue must not be
    // empty.
    unsigned next_port();
    // The next lane of the port: the only non-empty one, else VL15 if QPs wait in it, else
    // kLoopbackLane and a data VL by turns. No value: QPs wait in several data VLs, and the port
    // must arbitrate.
    [[nodiscard]] std::optional<unsigned> next_lane(unsigned port);
    // Data VLs of the port in which QPs wait.
    ib::VlMask data_vls(unsigned port) const { return at(port).lanes & kDataLanes; }
    // Removes and returns the QP that has waited longest in the lane, which must not be empty.
    uint32_t pop(unsigned port, unsigned lane);

    void remove(uint32_t qpn);
    void clear();

  private:
    static constexpr uint32_t kDataLanes = (1u << kVl15Lane) - 1;
    struct PortLanes {
        uint32_t lanes = 0;  // non-empty lanes, one bit per lane
        bool loopback_was_last = false;
        std::array<Ring<uint32_t>, kLanes> qpns;
    };
    PortLanes& at(unsigned port) { return by_port_[port - 1]; }
    const PortLanes& at(unsigned port) const { return by_port_[port - 1]; }
    void note_if_empty(unsigned port, unsigned lane);

    std::array<PortLanes, kMaxPorts> by_port_;
    uint32_t ports_ = 0;  // ports with a non-empty lane: bit (port - 1)
    unsigned last_port_ = kMaxPorts;
};

inline std::optional<unsigned> RunQueue::next_lane(unsigned port) {
    PortLanes& waiting = at(port);
    if (std::has_single_bit(waiting.lanes)) [[likely]] {
        return std::countr_zero(waiting.lanes);
    }
    if ((waiting.lanes >> kVl15Lane & 1) != 0) {
        return kVl15Lane;
    }
    const uint32_t data = waiting.lanes & kDataLanes;
    waiting.loopback_was_last = data != waiting.lanes && !waiting.loopback_was_last;
    if (waiting.loopback_was_last) {
        return kLoopbackLane;
    }
    return std::has_single_bit(data) ? std::optional<unsigned>(std::countr_zero(data))
                                     : std::nullopt;
}

}  // namespace pib::hca
