// SPDX-License-Identifier: GPL-2.0-or-later
// The context of a queue pair (IBA vol. 1, 10.2.4): plain data, which can be copied and compared.
// requester.h, completer.h, responder.h and datagram.h work on it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "ib/wire/opcode.h"
#include "ib/wire/types.h"
#include "memory/guest_buffer.h"
#include "memory/mpt.h"
#include "qp/page_faults.h"
#include "qp/qp_attributes.h"
#include "qp/send_window.h"
#include "queues/work_queue.h"

namespace pib::hca {

enum class QpTimer : uint8_t { kNone, kAck, kRnr };

// A completed send WQE as the device has copied it. Only a strict device keeps such copies.
struct CompletedWqe {
    uint32_t counter = 0;
    std::vector<uint8_t> bytes;  // empty: there is no such WQE
    uint32_t found = 0;          // in `suspect`: producer in guest memory when the entry differed
};

// The requester of a QP (IBA 9.7.3 to 9.7.5); UC and datagram QPs use only PSNs and cursor_wqe.
//
//     una            cursor            sent_end          next
//      | unacknowledged | to be sent again | not sent yet  |
//
// Without a retry, cursor equals sent_end. Distances are at most 2^23 (IBA 9.7.1) and unsigned.
struct RequesterState {
    ib::Psn una;              // the oldest PSN that is not acknowledged
    ib::Psn cursor;           // the next PSN to send
    ib::Psn sent_end;         // the first PSN that was never sent
    ib::Psn next;             // the first PSN that no copied WQE uses
    uint32_t cursor_wqe = 0;  // counter of the WQE that `cursor` belongs to
    uint8_t retries_left = 0;
    uint8_t rnr_retries_left = 0;
    // Number of READs, atomics, FLUSHes and ATOMIC WRITEs that were sent and have not completed.
    uint8_t rd_atomic_outstanding = 0;
    uint8_t packets_since_ack_req = 0;
    // End-to-end credits (receive_credits.h), modulo 2^24.
    uint32_t ssn = 0;         // number of the newest message
    uint32_t lsn = 0;         // messages up to this number find a receive WQE
    bool no_credits = false;  // the responder gives no credits: messages are not limited
    bool offers = false;      // offers (peer copy) of requests may be valid
    // A NAK or implied NAK for `una` has started a retry; later ones for `una` start none.
    bool retry_started = false;
    QpTimer timer = QpTimer::kNone;
    CompletedWqe completed;  // the send WQE that was completed last
    CompletedWqe suspect;    // an earlier one whose entry differs from its copy
};

// The receive WQE that a message is being written to.
struct ReceiveRequest {
    bool valid = false;
    uint32_t srqn = 0;     // the shared receive queue that it was taken from; 0: the QP's own
    uint32_t counter = 0;  // counter in the QP's own queue; from an SRQ: the WQE's id
    uint32_t cqn = 0;      // CQ of its completion
    KeyUser user{};        // user of the keys in its SGEs
    DataSegment data;
    std::vector<uint8_t> bytes;  // the copied WQE, one stride of its queue

    SegmentView segments() const { return {.wqe = bytes, .data = data, .user = user}; }
};

enum class InboundMessage : uint8_t { kNone, kSend, kRdmaWrite };

// Pending acknowledgement of the responder: none, an ACK of all packets before expected_psn, or a
// NAK.
enum class AckKind : uint8_t { kNone, kAck, kRnrNak, kNak };

struct PendingAck {
    AckKind kind = AckKind::kNone;
    uint8_t code = 0;  // NAK code or RNR timer
    ib::Psn psn = {};  // PSN of a NAK; send_ack() chooses the PSN of an ACK
};

// How a ResponderResource is answered: a READ's data, an atomic's old value, or an empty READ
// response (FLUSH, ATOMIC WRITE).
enum class ResponseKind : uint8_t { kRead, kAtomic, kEmpty };

// A READ, atomic, FLUSH or ATOMIC WRITE that the responder has accepted. The last
// max_dest_rd_atomic of them are kept, because the requester may ask for their responses again
// (IBA 9.4.5, 9.7.5.1.4).
struct ResponderResource {
    ib::Psn psn_first = {};
    uint32_t packets = 0;
    // The response being sent, as indexes of packets from psn_first on. It starts after packet 0
    // when part of a READ is repeated.
    uint32_t next_packet = 0;   // the next packet to send
    uint32_t first_packet = 0;  // the first packet of the response
    uint32_t end_packet = 0;    // one more than the last packet of the response
    uint32_t end_bytes = 0;     // end of the response's data, as an offset from `va`
    uint32_t rkey = 0;
    uint32_t length = 0;
    uint32_t msn = 0;  // MSN of the response: number of messages up to this request
    uint64_t va = 0;
    uint64_t original_data = 0;  // the atomic's result
    KeyUser user{};              // user of the R_Key
    ResponseKind kind = ResponseKind::kRead;
    bool valid = false;
    bool pending = false;  // its response has not been sent completely
    bool replay = false;   // pending because of a duplicate request
};

// The responder of a QP (IBA 9.7.2, 9.7.4); datagram QPs use only `recv`.
struct ResponderState {
    ib::Psn expected_psn;
    uint32_t msn = 0;  // 24 bits
    InboundMessage message = InboundMessage::kNone;
    uint32_t received = 0;  // bytes of the message in progress
    // Address, R_Key and length in bytes of the RDMA WRITE in progress, from its RETH.
    uint64_t write_va = 0;
    uint32_t write_rkey = 0;
    uint32_t write_length = 0;

    ReceiveRequest recv;
    PendingAck ack;
    bool nak_sent = false;  // expected_psn was answered by a NAK: later packets are dropped
    // A ring of max_dest_rd_atomic entries, oldest at resource_head. After a decrease of that
    // number it has more entries until all responses have been sent.
    std::vector<ResponderResource> resources;
    uint32_t resource_head = 0;
    bool response_pending = false;  // a response of `resources` may be pending
    bool communication_established = false;
    // XRC target: the SRQ that the current packet names (IBA annex A14), and that SRQ's PD.
    uint32_t xrc_srqn = 0;
    uint32_t xrc_pd = 0;
};

// Absent pages that the QP waits for.
struct PagingState {
    PageWait send;
    PageWait recv;
    // A response was dropped because its target page is absent. Later responses are dropped until
    // the wait `send` has ended.
    bool response_lost = false;
    bool read_waits = false;  // a READ response and all later answers wait for the end of `recv`
};

// Automatic path migration (IBA 17.2.8).
struct MigrationState {
    bool alternate_loaded = false;  // attr.alt_* have an alternate path
    bool error_reported = false;    // PATH_MIG_FAILED was raised since the last MODIFY_QP
};

// State of the QP in the Scheduler.
struct SchedulingState {
    bool queued = false;   // in the run queue
    bool blocked = false;  // the port has no room for the QP's packet, until port_ready()
    bool parked = false;   // in the Scheduler's list of QPs that wait for room at the port
    // Destination of the last datagram. It gives the lane while the next destination is unknown.
    uint16_t last_dlid = 0;
    uint8_t last_sl = 0;
};

// Events that are raised at most once until the QP is reset.
struct ReportedEvents {
    bool fatal = false;     // QP_FATAL
    bool last_wqe = false;  // LAST_WQE_REACHED
};

struct QueuePair {
    uint32_t qpn = 0;
    QpType type = QpType::kRc;
    QpState state = QpState::kReset;
    uint32_t pd = 0;
    uint32_t send_cq = 0;
    uint32_t recv_cq = 0;
    uint32_t uar = 0;
    uint32_t srq = 0;   // 0: none
    uint32_t xrcd = 0;  // XRC domain of an XRC target
    uint32_t max_inline = 0;
    uint32_t mcast_groups = 0;  // number of multicast groups that the QP is attached to
    uint8_t special_port = 0;   // port of an SMI or GSI QP; 0: others
    bool signal_all = false;
    bool privileged = false;

    GuestBuffer buffer;
    WorkQueue sq;
    WorkQueue rq;
    QpAttributes attr{};  // as set by MODIFY_QP; states and mask unused

    SendWindow window;
    RequesterState req;
    ResponderState resp;

    PagingState paging;
    MigrationState migration;
    SchedulingState scheduling;
    ReportedEvents reported;
    bool sq_draining = false;  // the state is SQD, and a request of `window` has not completed

    PageWait& page_wait(QpHalf half) {
        return half == QpHalf::kRequester ? paging.send : paging.recv;
    }
    [[nodiscard]] bool is_xrc() const { return type == QpType::kXrcIni || type == QpType::kXrcTgt; }
    [[nodiscard]] bool is_reliable() const { return type == QpType::kRc || is_xrc(); }
    [[nodiscard]] bool is_connected() const { return is_reliable() || type == QpType::kUc; }
    [[nodiscard]] bool is_datagram() const { return !is_connected(); }
    // The service that the opcodes of a connected QP's packets belong to.
    ib::Service service() const {
        return type == QpType::kUc ? ib::Service::kUc
               : is_xrc()          ? ib::Service::kXrc
                                   : ib::Service::kRc;
    }
    [[nodiscard]] bool is_special() const { return special_port != 0; }
    // The SRQ that the next receive WQE is taken from; 0: the QP has a queue of its own, or none.
    uint32_t shared_queue() const { return srq != 0 ? srq : resp.xrc_srqn; }
    [[nodiscard]] bool has_receive_queue() const { return rq.present || shared_queue() != 0; }
    uint8_t port() const { return is_special() ? special_port : attr.port; }
    // The QP number in packets.
    ib::Qpn wire_qpn() const {
        return is_special() ? (type == QpType::kSmi ? ib::kQp0 : ib::kQp1) : ib::Qpn(qpn);
    }
    KeyUser key_user() const { return {.pd = pd, .privileged = privileged, .qpn = qpn}; }
    // User of the R_Keys in packets, which may not use the privileged L_Key.
    KeyUser remote_user() const {
        const uint32_t remote_pd = type == QpType::kXrcTgt ? resp.xrc_pd : pd;
        return {.pd = remote_pd, .privileged = false, .qpn = qpn};
    }
    uint32_t path_mtu_bytes() const { return 128u << attr.path_mtu; }
    // Whether the state lets the QP accept packets (IBA 10.3.1).
    [[nodiscard]] bool can_receive() const {
        return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd ||
               state == QpState::kSqe;
    }
    [[nodiscard]] bool can_send() const { return state == QpState::kRts || state == QpState::kSqd; }
};

// Number of PSNs from `earlier` to `later`, which lie in a window of at most 2^23 PSNs.
constexpr uint32_t psn_distance(ib::Psn later, ib::Psn earlier) {
    return (later.value() - earlier.value()) & ib::Psn::kMask;
}

// Number of packets of a message of `length` bytes; an empty message is one packet.
constexpr uint32_t packet_count(uint32_t length, uint32_t mtu) {
    return length == 0 ? 1 : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

}  // namespace pib::hca
