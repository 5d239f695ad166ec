// SPDX-License-Identifier: GPL-2.0-or-later
// The part of the requester that handles responses (IBA vol. 1, 9.7.5.1, 9.7.6.1, 9.9.2): completes
// or repeats requests when responses arrive or timers expire.
#pragma once

#include "ib/wire/burst.h"
#include "ib/wire/placement.h"
#include "qp/qp_services.h"

namespace pib::hca {

class Completer {
  public:
    explicit Completer(QpServices& services) : services_(services) {}

    // Takes an ACK, NAK, READ responses or an atomic ACK, or drops them if the QP cannot send. The
    // caller has checked address and P_Key. Returns how many packets were taken, as
    // PortClient::burst_in().
    uint32_t response_in(QueuePair& qp, const ib::Burst& burst, ib::Placement& payload);
    // Handles the QP's timer, which has expired.
    void timer(QueuePair& qp);

  private:
    void acknowledge_in(QueuePair& qp, ib::Psn psn, const ib::Aeth& aeth);
    void nak_in(QueuePair& qp, ib::Psn psn, uint8_t code);
    void rnr_nak_in(QueuePair& qp, ib::Psn psn, uint8_t timer_code);
    // cannot_scatter() and bad_response() return 1, as they take a single response. If its target
    // is not accessible, cannot_scatter() waits for an absent page, or fails the request.
    uint32_t cannot_scatter(QueuePair& qp);
    // Fails the oldest request, because the response does not match the request.
    uint32_t bad_response(QueuePair& qp);
    uint32_t read_response_in(QueuePair& qp, const ib::Burst& burst, ib::Placement& payload);
    void atomic_ack_in(QueuePair& qp, const ib::PacketView& packet);

    [[nodiscard]] bool acknowledge_before(QueuePair& qp, ib::Psn end);
    [[nodiscard]] bool expect_response(QueuePair& qp, ib::Psn psn);
    void advance(QueuePair& qp, ib::Psn una);
    void complete_front(QueuePair& qp);
    void retry(QueuePair& qp);
    void sequence_error(QueuePair& qp);
    void fail(QueuePair& qp, const WqeError& error);
    [[nodiscard]] bool set_back(QueuePair& qp);
    void settle(QueuePair& qp);
    void ghost_in(QueuePair& qp, const ib::PacketView& packet);

    QpServices& services_;
};

}  // namespace pib::hca
