// SPDX-License-Identifier: GPL-2.0-or-later
#include "mini_driver.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace pib::hca::test {

namespace {

template <typename T>
void append(std::vector<uint8_t>& to, const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof value);
}

// Whether the entry at `counter` of a ring is of the present pass.
bool owned(uint8_t owner, uint32_t counter, uint32_t log_depth) {
    const uint8_t expected = (counter >> log_depth & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
    return (owner & PIB_HCA_OWNER_BIT) == expected;
}

uint32_t slot(uint32_t counter, uint32_t log_depth) {
    return counter & ((1u << log_depth) - 1);
}

bool is_datagram(pib_hca_qp_type type) {
    return type == PIB_HCA_QP_UD || type == PIB_HCA_QP_SMI || type == PIB_HCA_QP_GSI;
}

}  // namespace

// Table pages of one level are enough for 2 MiB; more take two levels.
GuestMemory::GuestMemory(FakeHost& host, uint64_t bytes) : host_(&host) {
    const uint64_t count = std::max<uint64_t>(1, (bytes + FakeHost::kPage - 1) / FakeHost::kPage);
    for (uint64_t i = 0; i < count; ++i) {
        pages_.push_back(host.alloc(FakeHost::kPage));
        host.alloc(FakeHost::kPage);  // the gap
    }
    std::vector<uint64_t> table = pages_;
    list_.page_count = static_cast<uint32_t>(count);
    list_.log_page_size = 12;
    do {
        std::vector<uint64_t> above;
        for (size_t i = 0; i < table.size(); i += PIB_HCA_TABLE_ENTRIES) {
            above.push_back(host.alloc(FakeHost::kPage));
            const size_t n = std::min<size_t>(PIB_HCA_TABLE_ENTRIES, table.size() - i);
            host.poke_bytes(above.back(),
                            {reinterpret_cast<const uint8_t*>(table.data() + i), n * 8});
        }
        table = above;
        ++list_.levels;
    } while (table.size() > 1);
    list_.root = table.front();
}

void GuestMemory::read(uint64_t offset, std::span<uint8_t> to) const {
    for (size_t done = 0; done < to.size();) {
        const uint64_t at = offset + done;
        const size_t n = std::min<size_t>(to.size() - done, FakeHost::kPage - at % FakeHost::kPage);
        host_->peek_bytes(pages_.at(at / FakeHost::kPage) + at % FakeHost::kPage,
                          to.subspan(done, n));
        done += n;
    }
}

void GuestMemory::write(uint64_t offset, std::span<const uint8_t> from) {
    for (size_t done = 0; done < from.size();) {
        const uint64_t at = offset + done;
        const size_t n =
            std::min<size_t>(from.size() - done, FakeHost::kPage - at % FakeHost::kPage);
        host_->poke_bytes(pages_.at(at / FakeHost::kPage) + at % FakeHost::kPage,
                          from.subspan(done, n));
        done += n;
    }
}

bool MiniDriver::pump(unsigned turns) {
    for (; host_.woken && turns > 0; --turns) {
        host_.woken = false;
        device_.run();
    }
    return !host_.woken;
}

bool MiniDriver::enable(uint32_t log_depth) {
    cmd_ring_ = host_.alloc(sizeof(pib_hca_cmd) << log_depth);
    cpl_ring_ = host_.alloc(sizeof(pib_hca_cmd_cpl) << log_depth);
    in_buffer_ = host_.alloc(PIB_HCA_CMD_MAX_LENGTH);
    out_buffer_ = host_.alloc(PIB_HCA_CMD_MAX_LENGTH);
    cmd_log_depth_ = log_depth;
    cmd_producer_ = 0;
    cmd_consumer_ = 0;
    write64(PIB_HCA_REG_CMDQ_BASE, cmd_ring_);
    write64(PIB_HCA_REG_CMDQ_CPL_BASE, cpl_ring_);
    write32(PIB_HCA_REG_CMDQ_LOG_DEPTH, log_depth);
    write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
    return (read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_ENABLED) != 0;
}

pib_hca_cmd MiniDriver::make_entry(uint16_t opcode, uint32_t object, size_t in_length,
                                   size_t out_length) const {
    pib_hca_cmd entry{};
    entry.opcode = opcode;
    entry.object = object;
    entry.in_addr = in_length != 0 ? in_buffer_ : 0;
    entry.out_addr = out_length != 0 ? out_buffer_ : 0;
    entry.in_length = static_cast<uint32_t>(in_length);
    entry.out_length = static_cast<uint32_t>(out_length);
    return entry;
}

uint16_t MiniDriver::enqueue(pib_hca_cmd entry) {
    entry.id = next_id_++;
    host_.poke(cmd_ring_ + slot(cmd_producer_, cmd_log_depth_) * sizeof entry, entry);
    ++cmd_producer_;
    return entry.id;
}

CommandOutcome MiniDriver::submit(pib_hca_cmd entry) {
    enqueue(entry);
    ring_commands();
    pump();
    return reap();
}

CommandOutcome MiniDriver::reap() {
    const uint64_t at = cpl_ring_ + slot(cmd_consumer_, cmd_log_depth_) * sizeof(pib_hca_cmd_cpl);
    const auto cpl = host_.peek<pib_hca_cmd_cpl>(at);
    if (!owned(cpl.owner, cmd_consumer_, cmd_log_depth_)) {
        return {};
    }
    ++cmd_consumer_;
    return {cpl.status, cpl.result, cpl.out_length};
}

CommandOutcome MiniDriver::command(pib_hca_cmd_opcode opcode, uint32_t object) {
    return submit(make_entry(opcode, object, 0, 0));
}

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
    mr.addr = 0x7f0000000000 + mr.memory.page(0) + page_offset;  // like a process's address
    pib_hca_create_mr in{};
    in.pd = pd;
    in.access = access;
    in.iova = mr.addr;
    in.length = bytes;
    in.pages = mr.memory.list();
    in.page_offset = page_offset;
    in.key = 0x5a;
    mr.key = must(command_in(PIB_HCA_CMD_CREATE_MR, 0, in), "CREATE_MR");
    return mr;
}

MiniQp MiniDriver::create_qp(const QpShape& shape) {
    const uint32_t sq_bytes = 1u << (shape.log_sq_depth + shape.log_sq_stride);
    const uint32_t rq_bytes = 1u << (shape.log_rq_depth + shape.log_rq_stride);
    const bool has_sq = (shape.flags & PIB_HCA_QP_NO_SQ) == 0;
    const bool has_rq = (shape.flags & PIB_HCA_QP_NO_RQ) == 0;
    MiniQp qp;
    qp.shape = shape;
    qp.sq_offset = has_sq ? PIB_HCA_QUEUE_HEADER_SIZE : 0;
    qp.rq_offset =
        has_rq ? PIB_HCA_QUEUE_HEADER_SIZE + (has_sq ? (sq_bytes + 63) / 64 * 64 : 0) : 0;
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
    in.port = shape.port;
    in.log_sq_depth = has_sq ? shape.log_sq_depth : 0;
    in.log_rq_depth = has_rq ? shape.log_rq_depth : 0;
    in.log_sq_stride = has_sq ? shape.log_sq_stride : 0;
    in.log_rq_stride = has_rq ? shape.log_rq_stride : 0;
    qp.qpn = must(command_in(PIB_HCA_CMD_CREATE_QP, 0, in), "CREATE_QP");
    return qp;
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
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU |
                   PIB_HCA_QP_ATTR_DEST_QPN | PIB_HCA_QP_ATTR_RQ_PSN |
                   PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
    must(modify(qp, to), "RTR");
    to = {};
    to.state = PIB_HCA_QPS_RTS;
    to.sq_psn = path.sq_psn;
    to.timeout = path.timeout;
    to.retry_cnt = path.retry_cnt;
    to.rnr_retry = path.rnr_retry;
    to.max_rd_atomic = path.max_rd_atomic;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN | PIB_HCA_QP_ATTR_TIMEOUT |
                   PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
                   PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;
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

std::vector<uint8_t> MiniDriver::encode(const MiniQp& qp, const SendRequest& request) {
    std::vector<uint8_t> wqe;
    pib_hca_wqe_control control{};
    control.opcode = static_cast<uint8_t>(request.opcode);
    control.flags = request.flags;
    control.num_sge = static_cast<uint8_t>(request.sges.size());
    control.imm_data = request.imm_data;
    control.inline_length = static_cast<uint32_t>(request.inline_data.size());
    append(wqe, control);
    if (is_datagram(qp.shape.type)) {
        pib_hca_wqe_ud ud{};
        ud.av = request.av;
        ud.dest_qpn = request.dest_qpn;
        ud.qkey = request.qkey;
        ud.pkey_index = request.pkey_index;
        append(wqe, ud);
    } else if (request.opcode == PIB_HCA_WQE_CMP_SWAP || request.opcode == PIB_HCA_WQE_FETCH_ADD) {
        pib_hca_wqe_atomic atomic{};
        atomic.remote_addr = request.remote_addr;
        atomic.rkey = request.rkey;
        atomic.swap_or_add = request.swap_or_add;
        atomic.compare = request.compare;
        append(wqe, atomic);
    } else if (request.opcode >= PIB_HCA_WQE_RDMA_WRITE) {
        append(wqe, pib_hca_wqe_rdma{request.remote_addr, request.rkey, 0});
    }
    for (const pib_hca_sge& sge : request.sges) {
        append(wqe, sge);
    }
    wqe.insert(wqe.end(), request.inline_data.begin(), request.inline_data.end());
    return wqe;
}

void MiniDriver::post_send(MiniQp& qp, const SendRequest& request, bool quiet) {
    post_send_bytes(qp, encode(qp, request), quiet);
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
    pib_hca_recv_wqe head{};
    head.num_sge = static_cast<uint32_t>(sges.size());
    std::vector<uint8_t> wqe;
    append(wqe, head);
    for (const pib_hca_sge& sge : sges) {
        append(wqe, sge);
    }
    const uint32_t at = slot(qp.rq_producer, qp.shape.log_rq_depth) << qp.shape.log_rq_stride;
    qp.memory.write(qp.rq_offset + at, wqe);
    ++qp.rq_producer;
    qp.memory.poke(offsetof(pib_hca_qp_header, rq_producer), qp.rq_producer);
    const auto flags = qp.memory.peek<uint32_t>(offsetof(pib_hca_qp_header, flags));
    if ((flags & PIB_HCA_QP_HEADER_RECV_NOTIFY) != 0) {
        ring(qp.shape.uar, PIB_HCA_UAR_RECV, qp.qpn);
    }
}

}  // namespace pib::hca::test
