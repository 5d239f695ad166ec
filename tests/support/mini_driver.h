// SPDX-License-Identifier: GPL-2.0-or-later
// A small driver and provider: brings a device up and uses it through registers, doorbells and
// rings in the fake host's RAM, as a guest does. An unexpected refusal throws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "device.h"
#include "fake_host.h"
#include "guest_memory.h"
#include "mini_commands.h"
#include "wqe_encoder.h"

namespace pib::hca::test {

struct MiniEq {
    uint32_t eqn = 0;
    GuestMemory memory;
    uint32_t log_depth = 0;
    uint32_t consumer = 0;
};

struct MiniCq {
    uint32_t cqn = 0;
    uint32_t uar = 0;
    GuestMemory memory;
    uint32_t log_depth = 0;
    uint32_t consumer = 0;
};

struct MiniMr {
    uint32_t key = 0;
    uint64_t addr = 0;  // address of the first byte in WQEs
    GuestMemory memory;
};

// A registration of memory.
struct MrShape {
    uint32_t pd = 0;
    uint32_t access = 0;
    uint64_t bytes = 0;
    uint32_t page_offset = 0;  // offset of the first byte in the first page
    uint8_t key_byte = 0x5a;
};

struct QpShape {
    pib_hca_qp_type type = PIB_HCA_QP_RC;
    uint32_t pd = 0;
    uint32_t send_cq = 0;
    uint32_t recv_cq = 0;
    uint32_t uar = 0;
    uint32_t flags = 0;
    uint8_t port = 0;  // SMI and GSI
    uint8_t log_sq_depth = 4;
    uint8_t log_rq_depth = 4;
    uint8_t log_sq_stride = 8;
    uint8_t log_rq_stride = 7;
    uint32_t srq = 0;   // with PIB_HCA_QP_SRQ
    uint32_t xrcd = 0;  // XRC_TGT, which has no other fields
};

struct SrqShape {
    uint32_t pd = 0;
    uint32_t xrcd = 0;  // 0: an ordinary SRQ
    uint32_t cq = 0;    // takes the completions of an SRQ of XRC
    uint8_t log_depth = 4;
    uint8_t log_stride = 6;
};

struct MiniSrq {
    uint32_t srqn = 0;
    SrqShape shape;
    GuestMemory memory;
    uint32_t producer = 0;
};

struct MiniQp {
    uint32_t qpn = 0;
    QpShape shape;
    GuestMemory memory;
    uint32_t sq_offset = 0;
    uint32_t rq_offset = 0;
    uint32_t sq_producer = 0;
    uint32_t rq_producer = 0;
};

// Attributes that connect an RC, UC or XRC QP to its peer.
struct RcPath {
    pib_hca_av av{};
    uint32_t dest_qpn = 0;
    uint32_t rq_psn = 0;
    uint32_t sq_psn = 0;
    uint8_t path_mtu = 3;  // 1024
    uint8_t port = 1;
    uint8_t timeout = 10;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t min_rnr_timer = 1;
    uint8_t max_rd_atomic = 4;
    uint8_t max_dest_rd_atomic = 4;
    uint32_t access = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                      PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
};

class MiniDriver : public MiniCommands {
  public:
    using MiniCommands::MiniCommands;

    // ---- objects
    uint32_t alloc_pd() { return must(command(PIB_HCA_CMD_ALLOC_PD), "ALLOC_PD"); }
    uint32_t alloc_uar() { return must(command(PIB_HCA_CMD_ALLOC_UAR), "ALLOC_UAR"); }
    MiniEq create_eq(uint32_t vector, bool async = false, uint8_t log_depth = 6);
    MiniCq create_cq(uint32_t eqn, uint8_t log_depth = 6, uint32_t uar = 0);
    // Allocates and registers `bytes` bytes, which start `page_offset` bytes into their first page.
    MiniMr create_mr(uint32_t pd, uint64_t bytes, uint32_t access, uint32_t page_offset = 0);
    // Registers mr.memory and stores the new key in `mr`.
    void register_mr(MiniMr& mr, const MrShape& shape);
    MiniQp create_qp(const QpShape& shape);
    MiniSrq create_srq(const SrqShape& shape);
    void destroy(pib_hca_cmd_opcode opcode, uint32_t object) {
        must(command(opcode, object), "destroy");
    }

    // ---- events and completions
    // Arms the EQ, as the driver's interrupt handler does when it has drained the queue.
    void arm(const MiniEq& eq) { eq_doorbell(eq, true); }
    void eq_doorbell(const MiniEq& eq, bool arm);
    std::optional<pib_hca_eqe> poll(MiniEq& eq);  // also rings the EQ's doorbell
    void arm(const MiniCq& cq, bool solicited_only = false);
    std::optional<pib_hca_cqe> poll(MiniCq& cq);
    // Polls until a completion is there, giving the device turns; throws when none comes.
    pib_hca_cqe wait(MiniCq& cq);

    // ---- queue pairs
    CommandOutcome modify(const MiniQp& qp, const pib_hca_modify_qp& attributes) {
        return command_in(PIB_HCA_CMD_MODIFY_QP, qp.qpn, attributes);
    }
    pib_hca_modify_qp query(const MiniQp& qp);
    // Bring a QP from Reset to RTS: an RC, UC or XRC QP with the peer in `path`, a datagram QP
    // without a peer.
    void connect_rc(const MiniQp& qp, const RcPath& path);
    void connect_ud(const MiniQp& qp, uint8_t port, uint32_t qkey, uint16_t pkey_index = 0);

    // Writes the WQE, moves the producer and rings the doorbell, but not if `quiet`.
    void post_send(MiniQp& qp, const SendWr& wr, bool quiet = false);
    void post_send_bytes(MiniQp& qp, std::span<const uint8_t> wqe, bool quiet = false);
    void post_recv(MiniQp& qp, std::span<const pib_hca_sge> sges);
    void post_srq(MiniSrq& srq, std::span<const pib_hca_sge> sges, uint32_t id);
    void ring_send(const MiniQp& qp) { ring(qp.shape.uar, PIB_HCA_UAR_SEND, qp.qpn); }
    static pib_hca_sge sge(const MiniMr& mr, uint64_t offset, uint32_t length) {
        return {mr.addr + offset, length, mr.key};
    }
};

}  // namespace pib::hca::test
