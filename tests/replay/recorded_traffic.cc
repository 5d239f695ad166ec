// SPDX-License-Identifier: GPL-2.0-or-later
#include "recorded_traffic.h"

#include <stdexcept>

namespace pib::test {

using namespace hca::test;

namespace {

constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                             PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kQkey = 0x1b0c;
constexpr uint32_t kGrhBytes = 40;
constexpr uint8_t kTimeout = 12;  // 16 ms

std::array<hca::record::Options, 2> with_sinks(hca::record::Options options,
                                               std::array<MemorySink, 2>& sinks) {
    std::array<hca::record::Options, 2> both{options, options};
    both[0].sink = &sinks[0];
    both[1].sink = &sinks[1];
    return both;
}

pib_hca_modify_qp init_attributes() {
    pib_hca_modify_qp to{};
    to.state = PIB_HCA_QPS_INIT;
    to.port = 1;
    to.access_flags = kAccess;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
                   PIB_HCA_QP_ATTR_ACCESS_FLAGS;
    return to;
}

pib_hca_modify_qp rtr_attributes(uint32_t dest_qpn, uint16_t dlid, bool responds) {
    pib_hca_modify_qp to{};
    to.state = PIB_HCA_QPS_RTR;
    to.av.dlid = dlid;
    to.path_mtu = 3;
    to.dest_qpn = dest_qpn;
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 1;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU |
                   PIB_HCA_QP_ATTR_DEST_QPN | PIB_HCA_QP_ATTR_RQ_PSN;
    if (responds) {
        to.attr_mask |= PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
    }
    return to;
}

pib_hca_modify_qp rts_attributes(bool reliable, bool requests, uint8_t timeout) {
    pib_hca_modify_qp to{};
    to.state = PIB_HCA_QPS_RTS;
    to.timeout = timeout;
    to.retry_cnt = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = 4;
    to.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN;
    if (reliable) {
        to.attr_mask |= PIB_HCA_QP_ATTR_TIMEOUT;
    }
    if (requests) {
        to.attr_mask |= PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
                        PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;
    }
    return to;
}

// Waits for a completion, which must be successful.
void must_complete(RecordedSubnet& world, RecordedEnd& end) {
    std::optional<pib_hca_cqe> cqe;
    const bool came = world.subnet.run_until([&] {
        cqe = cqe ? cqe : end.guest.driver.poll(end.cq);
        return cqe.has_value();
    });
    if (!came || cqe->status != PIB_HCA_WC_SUCCESS) {
        throw std::runtime_error(
            "a request does not complete: " +
            (came ? "status " + std::to_string(cqe->status) : end.guest.host.last_guest_error));
    }
}

uint16_t lid(RecordedSubnet& world, unsigned guest) {
    return world.sm.lid_of(guest);
}

}  // namespace

RecordedSubnet::RecordedSubnet(const hca::record::Options& options, const hca::Config& base)
    : subnet(2, default_link_mode(), Subnet::kSmallRing, base, with_sinks(options, sinks)),
      sm(subnet, subnet.guest(0)) {
    sm.sweep();
}

const std::string& RecordedSubnet::recording(unsigned guest) {
    subnet.guest(guest).device->recording().flush();
    return sinks[guest].content;
}

RecordedEnd::RecordedEnd(Guest& its_guest, pib_hca_qp_type type, uint32_t xrcd) : guest(its_guest) {
    MiniDriver& driver = guest.driver;
    mr = driver.create_mr(guest.pd, kMrBytes, kAccess);
    cq = driver.create_cq(driver.create_eq(3).eqn, 8);
    QpShape shape;
    shape.type = type;
    shape.pd = guest.pd;
    shape.send_cq = shape.recv_cq = cq.cqn;
    shape.log_sq_depth = shape.log_rq_depth = 5;
    if (type == PIB_HCA_QP_XRC_TGT) {
        pib_hca_create_qp in{};
        in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
        in.type = type;
        in.xrcd = xrcd;
        qp.shape = shape;
        qp.qpn = driver.must(driver.command_in(PIB_HCA_CMD_CREATE_QP, 0, in), "CREATE_QP");
        return;
    }
    if (type == PIB_HCA_QP_XRC_INI) {
        shape.flags = PIB_HCA_QP_NO_RQ;
        shape.recv_cq = 0;
        shape.log_rq_depth = shape.log_rq_stride = 0;
    }
    qp = driver.create_qp(shape);
    if (type == PIB_HCA_QP_UD) {
        driver.connect_ud(qp, 1, kQkey);
    }
}

void RecordedEnd::connect(const RecordedEnd& peer, uint16_t dlid, uint8_t timeout) {
    const pib_hca_qp_type type = qp.shape.type;
    const bool reliable = type != PIB_HCA_QP_UC;
    const auto modify = [&](const pib_hca_modify_qp& to) {
        guest.driver.must(guest.driver.modify(qp, to), "MODIFY_QP");
    };
    modify(init_attributes());
    modify(rtr_attributes(peer.qp.qpn, dlid, reliable && type != PIB_HCA_QP_XRC_INI));
    modify(rts_attributes(reliable, reliable && type != PIB_HCA_QP_XRC_TGT, timeout));
}

void RecordedEnd::post_recv(uint32_t bytes) {
    const pib_hca_sge sge = MiniDriver::sge(mr, kMrBytes / 2, bytes);
    guest.driver.post_recv(qp, {&sge, 1});
}

SendWr RecordedEnd::request(pib_hca_wqe_opcode opcode, const RecordedEnd& peer, uint32_t bytes) {
    SendWr wr;
    wr.opcode = static_cast<uint8_t>(opcode);
    wr.sges = {MiniDriver::sge(mr, 0, bytes)};
    wr.remote_addr = peer.mr.addr;
    wr.rkey = peer.mr.key;
    wr.swap_or_add = 3;
    return wr;
}

uint32_t make_srq(Guest& guest, MiniCq& cq, const MiniMr& mr, uint32_t xrcd) {
    constexpr uint8_t kLogDepth = 4, kLogStride = 7;
    const GuestMemory memory(guest.host, 64 + (1u << (kLogDepth + kLogStride)));
    pib_hca_create_srq in{};
    in.pages = memory.list();
    in.pd = guest.pd;
    in.flags = PIB_HCA_SRQ_XRC;
    in.xrcd = xrcd;
    in.cq = cq.cqn;
    in.offset = 64;
    in.log_depth = kLogDepth;
    in.log_stride = kLogStride;
    const uint32_t srqn =
        guest.driver.must(guest.driver.command_in(PIB_HCA_CMD_CREATE_SRQ, 0, in), "CREATE_SRQ");
    GuestMemory queue = memory;
    for (uint32_t i = 0; i < 1u << kLogDepth; ++i) {
        const pib_hca_sge sge = MiniDriver::sge(mr, kMrBytes / 2, kMrBytes / 4);
        queue.write(64 + (uint64_t{i} << kLogStride), encode_recv({&sge, 1}, i));
    }
    queue.poke(0, uint32_t{1u << kLogDepth});
    return srqn;
}

void run_reliable(RecordedSubnet& world, uint32_t bytes) {
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_RC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_RC);
    a.connect(b, lid(world, 1), kTimeout);
    b.connect(a, lid(world, 0), kTimeout);
    for (unsigned round = 0; round < 4; ++round) {
        b.post_recv(bytes);
        for (const auto opcode :
             {PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ, PIB_HCA_WQE_SEND}) {
            a.guest.driver.post_send(a.qp, a.request(opcode, b, bytes));
            must_complete(world, a);
        }
        a.guest.driver.post_send(a.qp, a.request(PIB_HCA_WQE_FETCH_ADD, b, 8));
        must_complete(world, a);
    }
}

void run_unreliable(RecordedSubnet& world, uint32_t bytes) {
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_UC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_UC);
    a.connect(b, lid(world, 1), 0);
    b.connect(a, lid(world, 0), 0);
    for (unsigned round = 0; round < 4; ++round) {
        b.post_recv(bytes);
        for (const auto opcode : {PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_SEND}) {
            a.guest.driver.post_send(a.qp, a.request(opcode, b, bytes));
            must_complete(world, a);
        }
    }
}

void run_datagrams(RecordedSubnet& world) {
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_UD);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_UD);
    for (const uint32_t bytes : {8u, 256u, 1024u}) {
        b.post_recv(kGrhBytes + 1024);
        SendWr wr = a.request(PIB_HCA_WQE_SEND, b, bytes);
        wr.av.dlid = lid(world, 1);
        wr.av.port = 1;
        wr.dest_qpn = b.qp.qpn;
        wr.qkey = kQkey;
        a.guest.driver.post_send(a.qp, wr);
        must_complete(world, a);
        must_complete(world, b);
    }
}

void run_xrc(RecordedSubnet& world, uint32_t bytes) {
    Guest& target_guest = world.subnet.guest(1);
    const uint32_t domain =
        target_guest.driver.must(target_guest.driver.command(PIB_HCA_CMD_ALLOC_XRCD), "XRCD");
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_XRC_INI);
    RecordedEnd b(target_guest, PIB_HCA_QP_XRC_TGT, domain);
    const uint32_t srqn = make_srq(target_guest, b.cq, b.mr, domain);
    a.connect(b, lid(world, 1), kTimeout);
    b.connect(a, lid(world, 0), kTimeout);
    for (unsigned round = 0; round < 4; ++round) {
        SendWr wr = a.request(PIB_HCA_WQE_SEND, b, bytes);
        wr.srqn = srqn;
        a.guest.driver.post_send(a.qp, wr);
        must_complete(world, a);
        must_complete(world, b);
    }
}

void run_reset(RecordedSubnet& world) {
    Guest& guest = world.subnet.guest(0);
    RecordedEnd a(guest, PIB_HCA_QP_RC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_RC);
    a.connect(b, lid(world, 1), kTimeout);
    b.connect(a, lid(world, 0), kTimeout);
    guest.driver.post_send(a.qp, a.request(PIB_HCA_WQE_RDMA_WRITE, b, kMrBytes));
    guest.device->reset(false);
    world.subnet.advance(1'000'000'000);
    guest.start();
    world.subnet.advance(1'000'000'000);
}

}  // namespace pib::test
