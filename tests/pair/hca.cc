// SPDX-License-Identifier: GPL-2.0-or-later
#include "hca.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <stdexcept>

#include "base/config.h"
#include "commands/interface_records.h"
#include "queues/interface_pages.h"

namespace pib::hca::test {
namespace {

// Small, so that the tests' short messages are offered, too.
constexpr uint32_t kMinOffer = 512;

Strictness strictness() {
    return std::getenv("PIB_STRICT") != nullptr ? Strictness::kOn : Strictness::kOff;
}

// Whether a QP of this type has a requester, or a responder, of a reliable connection.
bool requests_reliably(pib_hca_qp_type type) {
    return type == PIB_HCA_QP_RC || type == PIB_HCA_QP_XRC_INI;
}
bool responds_reliably(pib_hca_qp_type type) {
    return type == PIB_HCA_QP_RC || type == PIB_HCA_QP_XRC_TGT;
}

template <typename T>
T must(CmdResult<T> result) {
    if (!result) {
        throw std::runtime_error("command refused: " +
                                 std::to_string(static_cast<int>(result.error().status())));
    }
    return std::move(*result);
}

void must(const Verdict& verdict) {
    if (verdict != CmdStatus::kOk) {
        throw std::runtime_error("command refused with status " +
                                 std::to_string(static_cast<int>(verdict.status())));
    }
}

}  // namespace

CmdResult<uint32_t> create_qp(Hca& hca, const pib_hca_create_qp& in) {
    const auto request = qp_request(in);
    return request ? hca.transport.verbs().create(*request) : std::unexpected(request.error());
}

Verdict modify_qp(Hca& hca, uint32_t qpn, const pib_hca_modify_qp& in) {
    const auto attributes = qp_attributes(in);
    return attributes ? hca.transport.verbs().modify(qpn, *attributes) : attributes.error();
}

CmdResult<pib_hca_modify_qp> query_qp(Hca& hca, uint32_t qpn) {
    const auto attributes = hca.transport.verbs().query(qpn);
    if (!attributes) {
        return std::unexpected(attributes.error());
    }
    return attributes_record(*attributes);
}

Verdict attach_mcast(Hca& hca, uint32_t qpn, const pib_hca_mcast& in) {
    const auto group = mcast_group(in);
    return group ? hca.transport.verbs().attach_mcast(qpn, *group) : group.error();
}

Verdict detach_mcast(Hca& hca, uint32_t qpn, const pib_hca_mcast& in) {
    const auto group = mcast_group(in);
    return group ? hca.transport.verbs().detach_mcast(qpn, *group) : group.error();
}

pib_hca_page_fault next_page_fault(Hca& hca) {
    return fault_record(hca.transport.verbs().next_page_fault());
}

pib_hca_pages contiguous(uint64_t addr, uint64_t bytes) {
    return {.root = addr,
            .page_count = static_cast<uint32_t>((bytes + 4095) / 4096),
            .levels = 0,
            .log_page_size = 12,
            .reserved = 0};
}

Hca::Hca(uint16_t lid, unsigned port_count)
    : strict(Strict::create(host, strictness())),
      eqs(host, sink(), 16, 4, strict.get()),
      cqs(host, eqs, Limits::kCqs, strict.get()),
      srqs(host, eqs, cqs, Limits::kSrqs, strict.get()),
      mpt(host, Limits::kMrs, Limits::kMrPages),
      peer_copy(peer_copy_wanted() ? std::make_unique<FakePeerCopy>(host, mpt, kMinOffer)
                                   : nullptr),
      port(lid),
      second_port(lid),
      ports{&port, &second_port},
      transport({host, mpt, cqs, srqs, eqs, counters, std::span(ports).first(port_count),
                 peer_copy ? &peer_copy->core : nullptr}) {
    journal.report_to(refusals);
    if (strict) {
        strict->report_to(refusals);
    }
    port.peer_copy = peer_copy.get();
    const uint64_t bytes = sizeof(pib_hca_eqe) << kEqLogDepth;
    const uint64_t ring = host.alloc(bytes);
    read_from(host, ring);
    pib_hca_create_eq in{};
    in.pages = contiguous(ring, bytes);
    in.log_depth = kEqLogDepth;
    in.flags = PIB_HCA_EQ_ASYNC;
    eqn_ = must(eqs.create(in));
    in.pages.root = host.alloc(bytes);
    in.flags = 0;
    eqn_ = must(eqs.create(in));
}

Hca::~Hca() {
    if (strict) {
        CAPTURE(host.warnings);
        CHECK(refusals.silent() == 0);
    }
}

Buffer Hca::make_buffer(uint64_t bytes, uint32_t access, uint32_t pd) {
    Buffer buffer{.addr = host.alloc(bytes), .bytes = bytes};
    Registration in{};
    in.pd = pd;
    in.access = access;
    in.iova = buffer.addr;
    in.length = bytes;
    in.pages = page_list(contiguous(buffer.addr, bytes));
    in.key = static_cast<uint8_t>(buffer.addr >> 12);
    buffer.key = must(mpt.create(in));
    return buffer;
}

Cq& Hca::make_cq(uint8_t log_depth) {
    Cq cq{.log_depth = log_depth};
    const uint64_t bytes = 64 + (uint64_t{64} << log_depth);
    cq.addr = host.alloc(bytes);
    pib_hca_create_cq in{};
    in.pages = contiguous(cq.addr, bytes);
    in.eqn = eqn_;
    in.uar = kUar;
    in.log_depth = log_depth;
    cq.cqn = must(cqs.create(in));
    return cqs_.emplace_back(cq);
}

Srq Hca::make_srq(uint8_t log_depth, uint32_t pd, uint32_t xrcd) {
    Srq srq{.log_depth = log_depth, .log_stride = 7};
    const uint64_t bytes = 64 + (1ull << (log_depth + srq.log_stride));
    srq.addr = host.alloc(bytes);
    pib_hca_create_srq in{};
    in.pages = contiguous(srq.addr, bytes);
    in.pd = pd;
    if (xrcd != 0) {
        srq.cqn = make_cq(8).cqn;
        in.flags = PIB_HCA_SRQ_XRC;
        in.xrcd = xrcd;
        in.cq = srq.cqn;
    }
    in.offset = 64;
    in.log_depth = log_depth;
    in.log_stride = srq.log_stride;
    srq.srqn = must(srqs.create(in));
    return srq;
}

void Hca::post_srq(Srq& srq, uint32_t id, const std::vector<pib_hca_sge>& sges) {
    std::vector<uint8_t> bytes = encode_recv(sges, id);
    bytes.resize(size_t{1} << srq.log_stride);
    const uint32_t index = srq.producer & ((1u << srq.log_depth) - 1);
    host.poke_bytes(srq.addr + 64 + (uint64_t{index} << srq.log_stride), bytes);
    host.poke(srq.addr, ++srq.producer);
}

Verdict Hca::resize_srq(Srq& srq, uint8_t log_depth) {
    const uint64_t bytes = 64 + (1ull << (log_depth + srq.log_stride));
    const uint64_t addr = host.alloc(bytes);
    pib_hca_modify_srq in{};
    in.attr_mask = PIB_HCA_SRQ_ATTR_MAX_WR;
    in.pages = contiguous(addr, bytes);
    in.log_depth = log_depth;
    const Verdict status = srqs.modify(srq.srqn, in);
    if (status == CmdStatus::kOk) {
        srq.addr = addr;
        srq.log_depth = log_depth;
    }
    return status;
}

Verdict Hca::set_limit(const Srq& srq, uint32_t limit) {
    pib_hca_modify_srq in{};
    in.attr_mask = PIB_HCA_SRQ_ATTR_LIMIT;
    in.limit = limit;
    return srqs.modify(srq.srqn, in);
}

// An XRC target has neither queues nor CQs.
CmdResult<Qp> Hca::try_create_target(const QpConfig& config) {
    pib_hca_create_qp in{};
    in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
    in.type = config.type;
    in.xrcd = config.xrcd;
    const auto qpn = create_qp(*this, in);
    if (!qpn) {
        return std::unexpected(qpn.error());
    }
    return Qp{.config = config, .qpn = *qpn};
}

CmdResult<Qp> Hca::try_create(const QpConfig& config) {
    if (config.type == PIB_HCA_QP_XRC_TGT) {
        return try_create_target(config);
    }
    Qp qp{.config = config};
    qp.cqn = config.cqn ? *config.cqn : make_cq(config.log_cq_depth).cqn;
    qp.rq_offset = qp.sq_offset + (1u << (config.log_depth + config.log_sq_stride));
    const bool initiator = config.type == PIB_HCA_QP_XRC_INI;
    const bool no_rq = config.srq != 0 || initiator;
    const uint64_t bytes =
        qp.rq_offset + (no_rq ? 0 : 1ull << (config.log_depth + config.log_rq_stride));
    qp.addr = host.alloc(bytes);
    pib_hca_create_qp in{};
    in.pages = contiguous(qp.addr, bytes);
    in.pd = config.pd;
    in.send_cq = qp.cqn;
    in.recv_cq = initiator ? 0 : qp.cqn;
    in.uar = kUar;
    in.sq_offset = qp.sq_offset;
    in.rq_offset = no_rq ? 0 : qp.rq_offset;
    in.flags =
        config.flags | (no_rq ? PIB_HCA_QP_NO_RQ : 0) | (config.srq != 0 ? PIB_HCA_QP_SRQ : 0);
    in.srq = config.srq;
    in.max_inline = (1u << config.log_sq_stride) - 64;
    in.type = config.type;
    in.port = config.port;
    in.log_sq_depth = config.log_depth;
    in.log_rq_depth = no_rq ? 0 : config.log_depth;
    in.log_sq_stride = config.log_sq_stride;
    in.log_rq_stride = no_rq ? 0 : config.log_rq_stride;
    const auto qpn = create_qp(*this, in);
    if (!qpn) {
        return std::unexpected(qpn.error());
    }
    qp.qpn = *qpn;
    return qp;
}

Qp Hca::create(const QpConfig& config) {
    return must(try_create(config));
}

std::vector<uint8_t> encode(const Qp& qp, const SendWr& wr) {
    std::vector<uint8_t> bytes = encode_send(qp.config.type, wr);
    bytes.resize(size_t{1} << qp.config.log_sq_stride);
    return bytes;
}

void Hca::write_raw_send(Qp& qp, std::span<const uint8_t> wqe) {
    const uint32_t index = qp.sq_producer & ((1u << qp.config.log_depth) - 1);
    host.poke_bytes(qp.addr + qp.sq_offset + (uint64_t{index} << qp.config.log_sq_stride), wqe);
    set_sq_producer(qp, qp.sq_producer + 1);
}

void Hca::write_send(Qp& qp, const SendWr& wr) {
    write_raw_send(qp, encode(qp, wr));
}

void Hca::post_recv(Qp& qp, const std::vector<pib_hca_sge>& sges) {
    std::vector<uint8_t> bytes = encode_recv(sges);
    bytes.resize(size_t{1} << qp.config.log_rq_stride);
    const uint32_t index = qp.rq_producer & ((1u << qp.config.log_depth) - 1);
    host.poke_bytes(qp.addr + qp.rq_offset + (uint64_t{index} << qp.config.log_rq_stride), bytes);
    set_rq_producer(qp, qp.rq_producer + 1);
    if ((host.peek<uint32_t>(qp.addr + 8) & PIB_HCA_QP_HEADER_RECV_NOTIFY) != 0) {
        (void)transport.recv_doorbell(kUar, qp.qpn);
    }
}

void Hca::set_sq_producer(Qp& qp, uint32_t producer) {
    qp.sq_producer = producer;
    host.poke(qp.addr, producer);
}

void Hca::set_rq_producer(Qp& qp, uint32_t producer) {
    qp.rq_producer = producer;
    host.poke(qp.addr + 4, producer);
}

std::optional<pib_hca_cqe> Hca::poll(uint32_t cqn) {
    for (Cq& cq : cqs_) {
        if (cq.cqn != cqn) {
            continue;
        }
        const uint32_t index = cq.consumer & ((1u << cq.log_depth) - 1);
        const auto cqe = host.peek<pib_hca_cqe>(cq.addr + 64 + uint64_t{index} * 64);
        const uint8_t owner = (cq.consumer >> cq.log_depth & 1) == 0 ? 1 : 0;
        if ((cqe.owner & PIB_HCA_OWNER_BIT) != owner) {
            return std::nullopt;
        }
        host.poke(cq.addr, ++cq.consumer);
        return cqe;
    }
    return std::nullopt;
}

std::vector<pib_hca_cqe> Hca::poll_all(const Qp& qp) {
    std::vector<pib_hca_cqe> all;
    while (const auto cqe = poll(qp)) {
        all.push_back(*cqe);
    }
    return all;
}

std::vector<pib_hca_eqe> AsyncEvents::events() {
    for (;;) {
        const uint32_t index = consumer_ & ((1u << kEqLogDepth) - 1);
        const auto eqe = host_->peek<pib_hca_eqe>(ring_ + uint64_t{index} * sizeof(pib_hca_eqe));
        const uint8_t owner = (consumer_ >> kEqLogDepth & 1) == 0 ? 1 : 0;
        if ((eqe.owner & PIB_HCA_OWNER_BIT) != owner) {
            return std::exchange(seen_, {});
        }
        seen_.push_back(eqe);
        ++consumer_;
    }
}

bool AsyncEvents::saw_event(pib_hca_event type, uint32_t number) {
    seen_ = events();
    return std::ranges::any_of(
        seen_, [&](const pib_hca_eqe& eqe) { return eqe.type == type && eqe.number == number; });
}

pib_hca_av Hca::av_to(const Hca& peer) const {
    pib_hca_av av{};
    av.dlid = peer.port.lid();
    return av;
}

void to_init(Hca& hca, const Qp& qp, const RcAttributes& attr) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                   PIB_HCA_QP_ATTR_ACCESS_FLAGS;
    in.state = PIB_HCA_QPS_INIT;
    in.port = 1;
    in.pkey_index = attr.pkey_index;
    in.access_flags = attr.access_flags;
    must(modify_qp(hca, qp.qpn, in));
}

void to_rtr(Hca& hca, const Qp& qp, const pib_hca_av& av, uint32_t dest_qpn,
            const RcAttributes& attr) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU |
                   PIB_HCA_QP_ATTR_DEST_QPN | PIB_HCA_QP_ATTR_RQ_PSN;
    if (responds_reliably(qp.config.type)) {
        in.attr_mask |= PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
    }
    in.state = PIB_HCA_QPS_RTR;
    in.av = av;
    in.path_mtu = attr.path_mtu;
    in.dest_qpn = dest_qpn;
    in.rq_psn = attr.psn;
    in.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    in.min_rnr_timer = attr.min_rnr_timer;
    must(modify_qp(hca, qp.qpn, in));
}

void to_rts(Hca& hca, const Qp& qp, const RcAttributes& attr) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN;
    if (qp.config.type != PIB_HCA_QP_UC) {
        in.attr_mask |= PIB_HCA_QP_ATTR_TIMEOUT;
    }
    if (requests_reliably(qp.config.type)) {
        in.attr_mask |= PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
                        PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;
    }
    in.state = PIB_HCA_QPS_RTS;
    in.timeout = attr.timeout;
    in.retry_cnt = attr.retry_cnt;
    in.rnr_retry = attr.rnr_retry;
    in.sq_psn = attr.psn;
    in.max_rd_atomic = attr.max_rd_atomic;
    must(modify_qp(hca, qp.qpn, in));
}

void to_state(Hca& hca, const Qp& qp, pib_hca_qp_state state) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE;
    in.state = state;
    must(modify_qp(hca, qp.qpn, in));
}

void start_datagram(Hca& hca, const Qp& qp, uint32_t qkey, uint16_t pkey_index) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                   PIB_HCA_QP_ATTR_QKEY;
    in.state = PIB_HCA_QPS_INIT;
    in.port = 1;
    in.pkey_index = pkey_index;
    in.qkey = qkey;
    must(modify_qp(hca, qp.qpn, in));
    in = {};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE;
    in.state = PIB_HCA_QPS_RTR;
    must(modify_qp(hca, qp.qpn, in));
    in.attr_mask |= PIB_HCA_QP_ATTR_SQ_PSN;
    in.state = PIB_HCA_QPS_RTS;
    must(modify_qp(hca, qp.qpn, in));
}

}  // namespace pib::hca::test
