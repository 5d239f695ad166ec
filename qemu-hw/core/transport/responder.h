// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of an RC or UC connection (IBA vol. 1, 9.7.2, 9.7.4, 9.8.2.2): checks each request
// packet in the order of the specification, executes it, and owes an answer that is sent in the
// QP's next turn. One ACK answers all that has come in until then.
#pragma once

#include <optional>

#include "ib/wire/burst.h"
#include "qp/qp_services.h"
#include "transport/packet_out.h"

namespace pib::hca {

class Responder {
  public:
    explicit Responder(QpServices& services) : services_(services) {}

    // INIT to RTR.
    static void start(QueuePair& qp);
    // max_dest_rd_atomic has changed.
    static void resize_rd(QueuePair& qp);

    // Request packets for a QP that can receive; address and P_Key are checked. How many were
    // taken: see PortClient::burst_in().
    uint32_t request_in(QueuePair& qp, const ib::Burst& burst, ib::Placement& payload);

    // Likewise for a UC QP.
    uint32_t unreliable_in(QueuePair& qp, const ib::Burst& burst, ib::Placement& payload);

    // Sends READ responses, atomic results, and then the ACK or NAK.
    Turn run(QueuePair& qp, Budget& budget);
    // For a QP that is about to be reset or destroyed: sends the acknowledgement that it owes. The
    // guest has seen the message complete, so the peer must not be left to time out.
    void part(QueuePair& qp);

  private:
    // Why a request is not executed, and what follows from it (IBA 9.9.3.1, table 58).
    struct Refusal {
        AckKind kind = AckKind::kNak;  // kNone: the peer is told nothing
        uint8_t code = 0;
        pib_hca_event event = PIB_HCA_EVENT_COMPLETION;  // COMPLETION: none
        WqeError receive{PIB_HCA_WC_WR_FLUSH_ERR, VendorError::kNone};
        // Of several packets: not the first one, nor all, but some. Nothing has happened, and they
        // come singly.
        bool of_some = false;
    };
    using Check = std::optional<Refusal>;
    // What has come in.
    struct Request {
        const ib::Burst& burst;
        ib::Placement& payload;
        const ib::PacketView& packet = burst.first();

        bool starts() const { return packet.opcode().starts_message(); }
        bool ends() const { return burst.last().opcode().ends_message(); }
        uint32_t bytes() const { return static_cast<uint32_t>(burst.payload_bytes()); }
    };
    using CheckStep = Check (Responder::*)(QueuePair&, const Request&);

    void established(QueuePair& qp);
    void drop_message(QueuePair& qp, const WqeError& receive);

    Check check_sequence(QueuePair& qp, const Request& request);
    Check check_operation(QueuePair& qp, const Request& request);
    Check check_xrc_srq(QueuePair& qp, const Request& request);
    Check check_resources(QueuePair& qp, const Request& request);
    Check check_length(QueuePair& qp, const Request& request);
    Check check_rkey(QueuePair& qp, const Request& request);
    Check execute(QueuePair& qp, const Request& request);

    Check execute_send(QueuePair& qp, const Request& request);
    Check execute_write(QueuePair& qp, const Request& request);
    Check cannot_place(QueuePair& qp, const Request& request, const Refusal& error);
    // READ, atomics, FLUSH, ATOMIC WRITE: responder_rd.cc.
    static Check check_rd_operation(const ib::PacketView& packet);
    Check execute_rd(QueuePair& qp, const ib::PacketView& packet);
    Check execute_atomic(QueuePair& qp, const ib::PacketView& packet, RdResource& resource);
    Check execute_atomic_write(QueuePair& qp, const ib::PacketView& packet);
    void complete_message(QueuePair& qp, const Request& request);

    static Refusal not_ready(const QueuePair& qp);
    Refusal cannot_access(QueuePair& qp, const Refusal& error);
    static Refusal of_some();
    static Refusal invalid_request();
    static Refusal access_error();
    static Refusal invalidate_error();
    static Refusal operational_error(const WqeError& receive);
    void refuse(QueuePair& qp, const Refusal& refusal);
    void accepted(QueuePair& qp, const ib::Burst& burst);

    void out_of_order(QueuePair& qp, const ib::PacketView& packet, int32_t distance);
    void duplicate_in(QueuePair& qp, const ib::PacketView& packet);
    void duplicate_read(QueuePair& qp, const ib::PacketView& packet);
    void duplicate_other(QueuePair& qp, const ib::PacketView& packet);
    void owe(QueuePair& qp, const PendingAck& ack);

    Turn send_rd_responses(QueuePair& qp, Budget& budget);
    static Sent read_response_sent(RdResource& resource, uint32_t packets);
    Sent send_read_response(QueuePair& qp, RdResource& resource, Budget& budget);
    static KeyedRange response_range(const RdResource& resource, uint32_t mtu, uint32_t packets);
    bool can_offer(const QueuePair& qp, const RdResource& resource, const Budget& budget);
    uint32_t offer_response(QueuePair& qp, const RdResource& resource);
    ib::PacketHeaders read_response_headers(const QueuePair& qp, const RdResource& resource,
                                            uint32_t packet);
    Sent send_atomic_ack(QueuePair& qp, RdResource& resource);
    void read_failed(QueuePair& qp, const RdResource& resource);
    Sent send_ack(QueuePair& qp);

    QpServices& services_;
};

}  // namespace pib::hca
