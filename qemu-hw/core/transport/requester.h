// SPDX-License-Identifier: GPL-2.0-or-later
// The requester of an RC connection (IBA vol. 1, 9.7.3 and 9.7.5): turns send WQEs into request
// packets, and sends them again when the completer says so.
#pragma once

#include "qp/qp_services.h"
#include "queues/segments.h"
#include "transport/packet_out.h"

namespace pib::hca {

class Requester {
  public:
    explicit Requester(QpServices& services) : services_(services) {}

    // The state of a requester that has sent nothing: RTR to RTS.
    static void start(QueuePair& qp);
    // SQE to RTS of a QP whose send queue has been flushed: PSNs go on from the last one sent.
    static void resume(QueuePair& qp);

    // Sends until nothing may be sent, the budget is spent, or the port has no room.
    Turn run(QueuePair& qp, Budget& budget);

    // Everything from `una` on is to be sent again.
    void rewind(QueuePair& qp);
    void stop_timer(QueuePair& qp);
    // (Re)starts the Local ACK Timeout if anything is unacknowledged (IBA 9.7.6.1.3), else stops
    // it.
    void restart_ack_timer(QueuePair& qp);
    void start_rnr_timer(QueuePair& qp, uint64_t duration_ns);

  private:
    // Packets of SENDs and WRITEs that may be unacknowledged: enough for 2 MiB at MTU 4096.
    static constexpr uint32_t kWindowPackets = 512;
    // Of what is sent again. All that follows one more loss goes for nothing: on a wire that loses
    // packets a larger window only makes more of that.
    static constexpr uint32_t kRetryWindow = 128;
    // With one copy, where a round trip has two more wake-ups, and what is under way takes no room.
    static constexpr uint32_t kReferenceWindow = 2048;
    // An ACK is asked for at the end of every message and after this many packets within one, so
    // that the window never closes without an answer under way.
    static constexpr uint8_t kAckInterval = 32;

    uint32_t window_packets(const QueuePair& qp) {
        if (qp.req.cursor != qp.req.sent_end) [[unlikely]] {
            return kRetryWindow;
        }
        return services_.one_copy() == nullptr ? kWindowPackets : reference_window(qp);
    }
    uint32_t reference_window(const QueuePair& qp);
    // Packets that may go before an answer comes.
    uint32_t window_left(const QueuePair& qp) {
        const uint32_t window = window_packets(qp);
        return window - std::min(psn_distance(qp.req.cursor, qp.req.una), window);
    }
    static SegmentView segments_of(const QueuePair& qp, const SendRequest& request);
    SendRequest* current(QueuePair& qp);
    [[nodiscard]] static bool has_more(const QueuePair& qp);
    SendRequest* fetch(QueuePair& qp);
    WqeError prepare(QueuePair& qp, SendRequest& request, uint32_t slot);
    bool may_start(const QueuePair& qp, const SendRequest& request) const;
    void execute_local(QueuePair& qp, SendRequest& request);
    Sent send_one(QueuePair& qp, SendRequest& request, Budget& budget);
    // `packets`: how many have gone.
    Sent send_data(QueuePair& qp, const SendRequest& request, Budget& budget, uint32_t& packets);
    bool can_offer(QueuePair& qp, const SendRequest& request, const Budget& budget);
    uint32_t offer_data(QueuePair& qp, const SendRequest& request, Budget& budget);
    ib::PacketHeaders data_headers(QueuePair& qp, const SendRequest& request, uint32_t ahead);
    void data_sent(QueuePair& qp, bool ack_req, uint32_t packets, uint32_t bytes, Budget& budget);
    Sent send_read(QueuePair& qp, const SendRequest& request);
    Sent send_atomic(QueuePair& qp, const SendRequest& request);
    Sent send_flush(QueuePair& qp, const SendRequest& request);
    Sent send_atomic_write(QueuePair& qp, const SendRequest& request);
    ib::PacketHeaders headers(QueuePair& qp, const SendRequest& request, uint8_t operation,
                              bool ack_req, uint32_t ahead = 0);
    void sent(QueuePair& qp, SendRequest& request, ib::Psn cursor);
    void sent_unreliably(QueuePair& qp, SendRequest& request, ib::Psn cursor);

    QpServices& services_;
};

}  // namespace pib::hca
