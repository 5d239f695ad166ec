// SPDX-License-Identifier: GPL-2.0-or-later
// Passes doorbells of send and receive queues on to the transport. An adversarial device delays
// some doorbells, and reads some send queues before their doorbell is rung.
#pragma once

#include <array>
#include <cstdint>

#include "base/adversary.h"
#include "base/host.h"
#include "base/timers.h"
#include "transport/transport.h"

namespace pib::hca {

class Doorbells {
  public:
    Doorbells(Host& host, Transport& transport, Adversary* adversary)
        : host_(host), transport_(transport), adversary_(adversary) {}

    // False when the QP does not exist or belongs to another UAR.
    [[nodiscard]] bool send(uint32_t uar, uint32_t qpn) {
        return (adversary_ != nullptr && waits(uar, qpn, true)) ||
               transport_.send_doorbell(uar, qpn);
    }
    [[nodiscard]] bool recv(uint32_t uar, uint32_t qpn) {
        return (adversary_ != nullptr && waits(uar, qpn, false)) ||
               transport_.recv_doorbell(uar, qpn);
    }
    // Sometimes handles one of the last QPs with send doorbells as if its doorbell were rung again.
    void look_early();
    // Rings the delayed doorbells that are due.
    void timer(uint64_t now_ns);
    uint64_t next_deadline() const { return late_.next(); }
    void clear() {
        late_.clear();
        rung_ = {};
    }

  private:
    static constexpr size_t kRemembered = 16;

    [[nodiscard]] bool waits(uint32_t uar, uint32_t qpn, bool send);

    Host& host_;
    Transport& transport_;
    Adversary* const adversary_;                // nullptr: no doorbell waits
    Timers late_;                               // id: 2 * QPN, + 1 for the send queue
    std::array<uint32_t, kRemembered> rung_{};  // QPNs of the last send doorbells; 0 until then
    size_t next_ = 0;
};

}  // namespace pib::hca
