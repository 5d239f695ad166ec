// SPDX-License-Identifier: GPL-2.0-or-later
#include "recorded_traffic.h"

#include <algorithm>
#include <cstddef>
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

void run_multicast(RecordedSubnet& world) {
    constexpr uint16_t kMlid = 0xc001;
    constexpr uint32_t kAllMembers = 0xffffff;
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_UD);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_UD);
    world.sm.set_group(kMlid, {0, 1});
    pib_hca_mcast group{};
    group.mgid[0] = 0xff;
    group.mgid[1] = 0x12;
    group.mlid = kMlid;
    for (RecordedEnd* end : {&a, &b}) {
        end->guest.driver.must(
            end->guest.driver.command_in(PIB_HCA_CMD_ATTACH_MCAST, end->qp.qpn, group), "ATTACH");
        end->post_recv(kGrhBytes + 1024);
    }
    SendWr wr = a.request(PIB_HCA_WQE_SEND, b, 512);
    wr.av.dlid = kMlid;
    wr.av.port = 1;
    wr.av.flags = PIB_HCA_AV_GRH;
    wr.av.hop_limit = 1;
    std::ranges::copy(group.mgid, wr.av.dgid);
    wr.dest_qpn = kAllMembers;
    wr.qkey = kQkey;
    a.guest.driver.post_send(a.qp, wr);
    must_complete(world, a);  // its send
    must_complete(world, a);  // its receive: a sender in the group gets a copy, too
    must_complete(world, b);
    a.guest.driver.must(a.guest.driver.command_in(PIB_HCA_CMD_DETACH_MCAST, a.qp.qpn, group),
                        "DETACH");
}

void run_kicks(RecordedSubnet& world) {
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_RC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_RC);
    a.connect(b, lid(world, 1), kTimeout);
    b.connect(a, lid(world, 0), kTimeout);
    FakeHost& host = a.guest.host;
    MiniDriver& driver = a.guest.driver;
    const uint64_t page = host.alloc(4096);
    driver.must(
        driver.command_in(PIB_HCA_CMD_SET_SHADOW_PAGE, 0, pib_hca_set_shadow_page{.addr = page}),
        "SET_SHADOW_PAGE");
    const auto set_bit = [&](uint64_t at, uint32_t bit) {
        host.poke(page + at, host.peek<uint64_t>(page + at) | uint64_t{1} << bit);
    };
    for (const bool by_host : {false, true, false, true}) {
        driver.post_send(a.qp, a.request(PIB_HCA_WQE_RDMA_WRITE, b, 3000), true);
        const uint32_t slot = a.qp.qpn % (64 * PIB_HCA_SHADOW_WORDS);
        set_bit(offsetof(pib_hca_shadow_page, rung) + slot / 64 * 8, slot % 64);
        set_bit(offsetof(pib_hca_shadow_page, summary), slot / 64);
        if (by_host) {
            a.guest.device->kick(0);
        } else {
            driver.ring(0, PIB_HCA_UAR_KICK, 0);
        }
        must_complete(world, a);
    }
}

namespace {

// An on-demand region whose pages are absent until their first use.
struct Absent {
    static constexpr uint64_t kPages = 8;
    static constexpr uint64_t kIova = 0x7000'0000'0000;

    explicit Absent(Guest& of)
        : guest(of), table(of.host.alloc(4096)), memory(of.host.alloc(kPages * 4096)) {
        pib_hca_create_mr in{};
        in.pd = guest.pd;
        in.access = kAccess;
        in.iova = kIova;
        in.length = kPages * 4096;
        in.pages.root = table;
        in.pages.levels = 1;
        in.pages.log_page_size = 12;
        in.flags = PIB_HCA_MR_ON_DEMAND;
        mr.key = guest.driver.must(guest.driver.command_in(PIB_HCA_CMD_CREATE_MR, 0, in), "MR");
        mr.addr = kIova;
    }
    // Resolves one page fault, as a driver does; false if there is none.
    bool serve() {
        pib_hca_page_fault fault;
        guest.driver.must(guest.driver.command_out(PIB_HCA_CMD_QUERY_PAGE_FAULT, 0, fault),
                          "QUERY");
        if (fault.length == 0) {
            return false;
        }
        const uint64_t first = (fault.addr - kIova) / 4096;
        const uint64_t last = (fault.addr + fault.length - 1 - kIova) / 4096;
        for (uint64_t page = first; page <= last; ++page) {
            guest.host.poke<uint64_t>(table + 8 * page, (memory + 4096 * page) |
                                                            PIB_HCA_ON_DEMAND_READ |
                                                            PIB_HCA_ON_DEMAND_WRITE);
        }
        pib_hca_resume_page_fault in{};
        in.flags = fault.flags & PIB_HCA_PAGE_FAULT_RESPONDER;
        guest.driver.must(guest.driver.command_in(PIB_HCA_CMD_RESUME_PAGE_FAULT, fault.qpn, in),
                          "RESUME");
        return true;
    }

    Guest& guest;
    uint64_t table;
    uint64_t memory;
    MiniMr mr;
};

}  // namespace

unsigned run_on_demand(RecordedSubnet& world) {
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_RC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_RC);
    Absent from(a.guest), to(b.guest);
    a.connect(b, lid(world, 1), kTimeout);
    b.connect(a, lid(world, 0), kTimeout);
    unsigned faults = 0;
    for (const auto opcode : {PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ}) {
        SendWr wr = a.request(opcode, b, 0);
        wr.sges = {{Absent::kIova + 100, 20'000, from.mr.key}};
        wr.remote_addr = Absent::kIova + 5'000;
        wr.rkey = to.mr.key;
        a.guest.driver.post_send(a.qp, wr);
        std::optional<pib_hca_cqe> cqe;
        for (unsigned i = 0; !cqe && i < 10'000; ++i) {
            world.subnet.settle();
            cqe = a.guest.driver.poll(a.cq);
            const unsigned served = (from.serve() ? 1 : 0) + (to.serve() ? 1 : 0);
            faults += served;
            if (!cqe && served == 0) {
                (void)world.subnet.step_clock();
            }
        }
        if (!cqe || cqe->status != PIB_HCA_WC_SUCCESS) {
            throw std::runtime_error("a request to absent pages does not complete");
        }
    }
    return faults;
}

void run_migration(RecordedSubnet& world) {
    RecordedEnd a(world.subnet.guest(0), PIB_HCA_QP_RC);
    RecordedEnd b(world.subnet.guest(1), PIB_HCA_QP_RC);
    a.connect(b, lid(world, 1), kTimeout);
    b.connect(a, lid(world, 0), kTimeout);
    const auto migrate = [&](RecordedEnd& end, uint16_t dlid, uint8_t state) {
        pib_hca_modify_qp in{};
        in.attr_mask = PIB_HCA_QP_ATTR_PATH_MIG_STATE;
        in.path_mig_state = state;
        if (state == PIB_HCA_MIG_REARM) {
            in.attr_mask |= PIB_HCA_QP_ATTR_ALT_PATH;
            in.alt_av.dlid = dlid;
            in.alt_av.static_rate = 5;  // differs from the primary path's
            in.alt_port = 1;
            in.alt_timeout = kTimeout;
        }
        end.guest.driver.must(end.guest.driver.modify(end.qp, in), "MODIFY_QP");
    };
    const auto send = [&] {
        a.guest.driver.post_send(a.qp, a.request(PIB_HCA_WQE_RDMA_WRITE, b, 3000));
        must_complete(world, a);
    };
    migrate(a, lid(world, 1), PIB_HCA_MIG_REARM);
    migrate(b, lid(world, 0), PIB_HCA_MIG_REARM);
    send();  // arms both ends
    migrate(a, 0, PIB_HCA_MIG_MIGRATED);
    send();  // the peer follows
    for (RecordedEnd* end : {&a, &b}) {
        if (end->guest.driver.query(end->qp).path_mig_state != PIB_HCA_MIG_MIGRATED) {
            throw std::runtime_error("a QP has not migrated");
        }
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
