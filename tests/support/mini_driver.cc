// SPDX-License-Identifier: GPL-2.0-or-later
#include "mini_driver.h"

#include <algorithm>
#include <cstddef>

#include "ring_slots.h"

namespace pib::hca::test {
namespace {

constexpr uint32_t kRtrMask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_AV |
                              PIB_HCA_QP_ATTR_PATH_MTU | PIB_HCA_QP_ATTR_DEST_QPN |
                              PIB_HCA_QP_ATTR_RQ_PSN;
constexpr uint32_t kResponderMask =
    PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
constexpr uint32_t kRtsMask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN;
constexpr uint32_t kRequesterMask =
    PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY | PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;

// Attributes of the transitions to RTR and to RTS. Only a reliable service has the attributes of a
// responder and of a requester.
uint32_t rtr_mask(pib_hca_qp_type type) {
    const bool responds = type == PIB_HCA_QP_RC || type == PIB_HCA_QP_XRC_TGT;
    return kRtrMask | (responds ? kResponderMask : 0);
}

uint32_t rts_mask(pib_hca_qp_type type) {
    const bool requests = type == PIB_HCA_QP_RC || type == PIB_HCA_QP_XRC_INI;
    const uint32_t timeout = type == PIB_HCA_QP_UC ? 0 : PIB_HCA_QP_ATTR_TIMEOUT;
    return kRtsMask | timeout | (requests ? kRequesterMask : 0);
}

}  // namespace

MiniEq MiniDriver::create_eq(uint32_t vector, bool async, uint8_t log_depth) {
    MiniEq eq;
    eq.memory = GuestMemory(host_, sizeof(pib_hca_eqe) << log_depth);
    eq.log_depth = log_depth;
    pib_hca_create_eq in{};
    in.pages = eq.memory.list();
    in.vector = vector;
    in.log_depth = log_depth;
    in.flags = async ? PIB_HCA_EQ_ASYNC : 0;
    eq.eqn = must(command_in(PIB_HCA_CMD_CREATE_EQ, 0, in), "CREATE_EQ");
    return eq;
}

MiniCq MiniDriver::create_cq(uint32_t eqn, uint8_t log_depth, uint32_t uar) {
    MiniCq cq;
    cq.memory = GuestMemory(host_, PIB_HCA_QUEUE_HEADER_SIZE + (sizeof(pib_hca_cqe) << log_depth));
    cq.log_depth = log_depth;
    cq.uar = uar;
    pib_hca_create_cq in{};
    in.pages = cq.memory.list();
    in.eqn = eqn;
    in.uar = uar;
    in.log_depth = log_depth;
    cq.cqn = must(command_in(PIB_HCA_CMD_CREATE_CQ, 0, in), "CREATE_CQ");
    return cq;
}

MiniMr MiniDriver::create_mr(uint32_t pd, uint64_t bytes, uint32_t access, uint32_t page_offset) {
    MiniMr mr;
    mr.memory = GuestMemory(host_, page_offset + bytes);
    mr.addr = 0x7f0000000000 + mr.memory.page(0) + page_offset;  // not the bus address
    register_mr(mr, {.pd = pd, .access = access, .bytes = bytes, .page_offset = page_offset});
    return mr;
}

void MiniDriver::register_mr(MiniMr& mr, const MrShape& shape) {
    pib_hca_create_mr in{};
    in.pd = shape.pd;
    in.access = shape.access;
    in.iova = mr.addr;
    in.length = shape.bytes;
    in.pages = mr.memory.list();
    in.page_offset = shape.page_offset;
    in.key = shape.key_byte;
    mr.key = must(command_in(PIB_HCA_CMD_CREATE_MR, 0, in), "CREATE_MR");
}

MiniQp MiniDriver::create_qp(const QpShape& shape) {
    if (shape.type == PIB_HCA_QP_XRC_TGT) {
        pib_hca_create_qp target{};
        target.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
        target.type = PIB_HCA_QP_XRC_TGT;
        target.xrcd = shape.xrcd;
        return {.qpn = must(command_in(PIB_HCA_CMD_CREATE_QP, 0, target), "CREATE_QP"),
                .shape = shape,
                .memory = {}};
    }
    const bool has_sq = (shape.flags & PIB_HCA_QP_NO_SQ) == 0;
    const bool has_rq = (shape.flags & PIB_HCA_QP_NO_RQ) == 0;
    const uint32_t sq_bytes = has_sq ? 1u << (shape.log_sq_depth + shape.log_sq_stride) : 0;
    const uint32_t rq_bytes = has_rq ? 1u << (shape.log_rq_depth + shape.log_rq_stride) : 0;
    MiniQp qp;
    qp.shape = shape;
    qp.sq_offset = has_sq ? PIB_HCA_QUEUE_HEADER_SIZE : 0;
    qp.rq_offset = has_rq ? PIB_HCA_QUEUE_HEADER_SIZE + (sq_bytes + 63) / 64 * 64 : 0;
    qp.memory = GuestMemory(host_, uint64_t{PIB_HCA_QUEUE_HEADER_SIZE} + sq_bytes + rq_bytes + 64);
    pib_hca_create_qp in{};
    in.pages = qp.memory.list();
    in.pd = shape.pd;
    in.send_cq = shape.send_cq;
    in.recv_cq = shape.recv_cq;
    in.uar = shape.uar;
    in.sq_offset = qp.sq_offset;
    in.rq_offset = qp.rq_offset;
    in.flags = shape.flags;
    in.max_inline = has_sq ? (1u << shape.log_sq_stride) - 64 : 0;
    in.type = static_cast<uint8_t>(shape.type);
    in.srq = shape.srq;
    in.port = shape.port;
    in.log_sq_depth = has_sq ? shape.log_sq_depth : 0;
    in.log_rq_depth = has_rq ? shape.log_rq_depth : 0;
    in.log_sq_stride = has_sq ? shape.log_sq_stride : 0;
    in.log_rq_stride = has_rq ? shape.log_rq_stride : 0;
    qp.qpn = must(command_in(PIB_HCA_CMD_CREATE_QP, 0, in), "CREATE_QP");
    return qp;
}

MiniSrq MiniDriver::create_srq(const SrqShape& shape) {
    MiniSrq srq;
    srq.shape = shape;
    srq.memory = GuestMemory(
        host_, PIB_HCA_QUEUE_HEADER_SIZE + (1ull << (shape.log_depth + shape.log_stride)));
    pib_hca_create_srq in{};
    in.pages = srq.memory.list();
    in.pd = shape.pd;
    in.flags = shape.xrcd != 0 ? PIB_HCA_SRQ_XRC : 0;
    in.xrcd = shape.xrcd;
    in.cq = shape.cq;
    in.offset = PIB_HCA_QUEUE_HEADER_SIZE;
    in.log_depth = shape.log_depth;
    in.log_stride = shape.log_stride;
    srq.srqn = must(command_in(PIB_HCA_CMD_CREATE_SRQ, 0, in), "CREATE_SRQ");
    return srq;
}

void MiniDriver::eq_doorbell(const MiniEq& eq, bool arm) {
    const uint64_t value =
        uint64_t{eq.consumer} << PIB_HCA_DB_COUNTER_SHIFT | eq.eqn | (arm ? PIB_HCA_DB_EQ_ARM : 0);
    ring(0, PIB_HCA_UAR_EQ, value, 8);
}

std::optional<pib_hca_eqe> MiniDriver::poll(MiniEq& eq) {
    const auto eqe =
        eq.memory.peek<pib_hca_eqe>(slot(eq.consumer, eq.log_depth) * sizeof(pib_hca_eqe));
    if (!owned(eqe.owner, eq.consumer, eq.log_depth)) {
        return std::nullopt;
    }
    ++eq.consumer;
    eq_doorbell(eq, false);
    return eqe;
}

void MiniDriver::arm(const MiniCq& cq, bool solicited_only) {
    const uint64_t value = uint64_t{cq.consumer} << PIB_HCA_DB_COUNTER_SHIFT | cq.cqn |
                           (solicited_only ? PIB_HCA_DB_CQ_SOLICITED : 0);
    ring(cq.uar, PIB_HCA_UAR_CQ_ARM, value, 8);
}

std::optional<pib_hca_cqe> MiniDriver::poll(MiniCq& cq) {
    const auto cqe = cq.memory.peek<pib_hca_cqe>(
        PIB_HCA_QUEUE_HEADER_SIZE + slot(cq.consumer, cq.log_depth) * sizeof(pib_hca_cqe));
    if (!owned(cqe.owner, cq.consumer, cq.log_depth)) {
        return std::nullopt;
    }
    ++cq.consumer;
    cq.memory.poke(offsetof(pib_hca_cq_header, consumer), cq.consumer);
    return cqe;
}

pib_hca_cqe MiniDriver::wait(MiniCq& cq) {
    for (unsigned i = 0; i < 1000; ++i) {
        if (const auto cqe = poll(cq)) {
            return *cqe;
        }
        pump(1);
        if (!host_.woken && host_.timer_deadline_ns != kNever) {
            host_.clock_ns = std::max(host_.clock_ns, host_.timer_deadline_ns);
            device_.timer();
        }
    }
    throw std::runtime_error("no completion came");
}

pib_hca_modify_qp MiniDriver::query(const MiniQp& qp) {
    pib_hca_modify_qp out;
    must(command_out(PIB_HCA_CMD_QUERY_QP, qp.qpn, out), "QUERY_QP");
    return out;
}

void MiniDriver::connect_rc(const MiniQp& qp, const RcPath& path) {
    pib_hca_modify_qp to{};
    to.state = PIB_HCA_QPS_INIT;
    to.port = path.port;
    to.access_flags = path.access;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                   PIB_HCA_QP_ATTR_ACCESS_FLAGS;
    must(modify(qp, to), "INIT");
    to = {};
    to.state = PIB_HCA_QPS_RTR;
    to.av = path.av;
    to.path_mtu = path.path_mtu;
    to.dest_qpn = path.dest_qpn;
    to.rq_psn = path.rq_psn;
    to.max_dest_rd_atomic = path.max_dest_rd_atomic;
    to.min_rnr_timer = path.min_rnr_timer;
    to.attr_mask = rtr_mask(qp.shape.type);
    must(modify(qp, to), "RTR");
    to = {};
    to.state = PIB_HCA_QPS_RTS;
    to.sq_psn = path.sq_psn;
    to.timeout = path.timeout;
    to.retry_cnt = path.retry_cnt;
    to.rnr_retry = path.rnr_retry;
    to.max_rd_atomic = path.max_rd_atomic;
    to.attr_mask = rts_mask(qp.shape.type);
    must(modify(qp, to), "RTS");
}

void MiniDriver::connect_ud(const MiniQp& qp, uint8_t port, uint32_t qkey, uint16_t pkey_index) {
    pib_hca_modify_qp to{};
    to.state = PIB_HCA_QPS_INIT;
    to.port = port;
    to.qkey = qkey;
    to.pkey_index = pkey_index;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_QKEY;
    if (qp.shape.type == PIB_HCA_QP_UD) {
        to.attr_mask |= PIB_HCA_QP_ATTR_PORT;
    }
    must(modify(qp, to), "INIT");
    to = {};
    to.state = PIB_HCA_QPS_RTR;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE;
    must(modify(qp, to), "RTR");
    to.state = PIB_HCA_QPS_RTS;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN;
    must(modify(qp, to), "RTS");
}

void MiniDriver::post_send(MiniQp& qp, const SendWr& wr, bool quiet) {
    post_send_bytes(qp, encode_send(qp.shape.type, wr), quiet);
}

void MiniDriver::post_send_bytes(MiniQp& qp, std::span<const uint8_t> wqe, bool quiet) {
    const uint32_t at = slot(qp.sq_producer, qp.shape.log_sq_depth) << qp.shape.log_sq_stride;
    qp.memory.write(qp.sq_offset + at, wqe);
    ++qp.sq_producer;
    qp.memory.poke(offsetof(pib_hca_qp_header, sq_producer), qp.sq_producer);
    if (!quiet) {
        ring_send(qp);
    }
}

void MiniDriver::post_recv(MiniQp& qp, std::span<const pib_hca_sge> sges) {
    const uint32_t at = slot(qp.rq_producer, qp.shape.log_rq_depth) << qp.shape.log_rq_stride;
    qp.memory.write(qp.rq_offset + at, encode_recv(sges));
    ++qp.rq_producer;
    qp.memory.poke(offsetof(pib_hca_qp_header, rq_producer), qp.rq_producer);
    const auto flags = qp.memory.peek<uint32_t>(offsetof(pib_hca_qp_header, flags));
    if ((flags & PIB_HCA_QP_HEADER_RECV_NOTIFY) != 0) {
        ring(qp.shape.uar, PIB_HCA_UAR_RECV, qp.qpn);
    }
}

void MiniDriver::post_srq(MiniSrq& srq, std::span<const pib_hca_sge> sges, uint32_t id) {
    const uint32_t at = slot(srq.producer, srq.shape.log_depth) << srq.shape.log_stride;
    srq.memory.write(PIB_HCA_QUEUE_HEADER_SIZE + at, encode_recv(sges, id));
    ++srq.producer;
    srq.memory.poke(offsetof(pib_hca_srq_header, producer), srq.producer);
}

}  // namespace pib::hca::test
