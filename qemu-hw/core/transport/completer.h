// SPDX-License-Identifier: GPL-2.0-or-later
// The other half of the requester (IBA vol. 1, 9.7.5.1, 9.7.6.1, 9.9.2): what responses and
// timeouts mean for the requests that are under way.
#pragma once

#include "ib/wire/packet.h"
#include "qp/qp_services.h"
#include "transport/requester.h"

namespace pib::hca {

class Completer {
  public:
    Completer(QpServices& services, Requester& requester)
        : services_(services), requester_(requester) {}

    // An ACK, NAK, READ response or atomic ACK for a QP that can send; address and P_Key are
    // checked.
    void response_in(QueuePair& qp, const ib::PacketView& packet);
    // As Responder::middles_in(), of a READ response.
    bool middles_in(QueuePair& qp, const ib::PacketRun& run, uint32_t from, uint32_t count);
    // As Responder's of these names.
    bool locate_middles(QueuePair& qp, const ib::PacketRun& run, Located& out);
    void middles_placed(QueuePair& qp, const ib::PacketRun& run);
    // The QP's timer has expired.
    void timer(QueuePair& qp);

  private:
    void acknowledge_in(QueuePair& qp, ib::Psn psn, const ib::Aeth& aeth);
    void nak_in(QueuePair& qp, ib::Psn psn, uint8_t code);
    void rnr_nak_in(QueuePair& qp, ib::Psn psn, uint8_t timer_code);
    void cannot_scatter(QueuePair& qp);
    void read_response_in(QueuePair& qp, const ib::PacketView& packet);
    void atomic_ack_in(QueuePair& qp, const ib::PacketView& packet);

    bool middles_fit(const QueuePair& qp, const ib::PacketRun& run, uint32_t from, uint32_t count);
    void middles_done(QueuePair& qp, ib::Psn end);
    bool acknowledge_before(QueuePair& qp, ib::Psn end);
    bool expect_response(QueuePair& qp, ib::Psn psn);
    void advance(QueuePair& qp, ib::Psn una);
    void complete_front(QueuePair& qp);
    void retry(QueuePair& qp);
    void sequence_error(QueuePair& qp);
    void fail(QueuePair& qp, WcStatus status, VendorError detail = VendorError::kNone);
    void settle(QueuePair& qp);

    QpServices& services_;
    Requester& requester_;
};

}  // namespace pib::hca
