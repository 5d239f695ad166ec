// SPDX-License-Identifier: GPL-2.0-or-later
#include "trial.h"

#include <algorithm>
#include <stdexcept>

namespace pib::conformance {
namespace {

using namespace hca::test;

constexpr unsigned kPort = 1;
constexpr uint32_t kAllAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                                PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kPatternMark = 0xa5000000;

// PortInfo (IBA table 146), by bytes.
constexpr size_t kLidAt = 16;
constexpr size_t kSmLidAt = 18;
constexpr size_t kStateAt = 32;
constexpr size_t kPhysicalStateAt = 33;
constexpr uint8_t kLowNibble = 0x0f;

bool is_read_or_atomic(uint8_t opcode) {
    const uint8_t kind = opcode & 0x1f;
    return kind == kReadRequest || kind == kCmpSwap || kind == kFetchAdd;
}

RcPath path_of(const Connection& connection) {
    RcPath path;
    path.av.dlid = Trial::kStrangerLid;
    path.av.flags = connection.grh ? PIB_HCA_AV_GRH : 0;
    if (connection.grh) {
        path.av.dgid[0] = 0xfe;
        path.av.dgid[1] = 0x80;
        path.av.dgid[15] = Trial::kStrangerLid;
        path.av.hop_limit = 1;
    }
    path.dest_qpn = Trial::kStrangerQp;
    path.rq_psn = connection.psn;
    path.sq_psn = connection.sq_psn;
    path.path_mtu = connection.path_mtu;
    path.timeout = connection.timeout;
    path.retry_cnt = connection.retry_cnt;
    path.rnr_retry = connection.rnr_retry;
    path.max_rd_atomic = path.max_dest_rd_atomic = connection.reads;
    path.access = connection.access;
    return path;
}

void move(MiniDriver& driver, const MiniQp& qp, pib_hca_qp_state state, uint32_t mask,
          pib_hca_modify_qp attributes) {
    attributes.state = static_cast<uint8_t>(state);
    attributes.attr_mask = PIB_HCA_QP_ATTR_STATE | mask;
    MiniDriver::must(driver.modify(qp, attributes), "MODIFY_QP");
}

// The attributes of UC are fewer than those of RC.
void connect_uc(MiniDriver& driver, const MiniQp& qp, const RcPath& path) {
    pib_hca_modify_qp to{};
    to.port = path.port;
    to.access_flags =
        path.access & ~uint32_t{PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC};
    to.av = path.av;
    to.path_mtu = path.path_mtu;
    to.dest_qpn = path.dest_qpn;
    to.rq_psn = path.rq_psn;
    to.sq_psn = path.sq_psn;
    move(driver, qp, PIB_HCA_QPS_INIT,
         PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT | PIB_HCA_QP_ATTR_ACCESS_FLAGS, to);
    move(driver, qp, PIB_HCA_QPS_RTR,
         PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU | PIB_HCA_QP_ATTR_DEST_QPN |
             PIB_HCA_QP_ATTR_RQ_PSN,
         to);
    move(driver, qp, PIB_HCA_QPS_RTS, PIB_HCA_QP_ATTR_SQ_PSN, to);
}

}  // namespace

Trial::Trial() {
    region = bench.driver.create_mr(bench.pd, kRegionBytes, kAllAccess);
    for (uint64_t offset = kPattern; offset < kRegionBytes; offset += sizeof(uint32_t)) {
        region.memory.poke(offset, static_cast<uint32_t>(kPatternMark | offset));
    }
    witness.remember_memory();
}

void Trial::set_word(uint64_t offset, uint64_t value) {
    region.memory.poke(offset, value);
    witness.remember_memory();
}

void Trial::settle() {
    for (bool moved = true; moved;) {
        moved = bench.host.woken;
        bench.driver.pump();
        const Bytes sent = bench.host.take_link(kPort);
        if (!sent.empty()) {
            moved = true;
            stranger.receive(sent);
        }
        if (std::exchange(bench.host.links[kPort].blocked, false)) {
            moved = true;
            bench.device->links().writable(kPort);
        }
        const Bytes back = stranger.take_output();
        if (!back.empty()) {
            moved = true;
            bench.device->links().received(kPort, back);
        }
    }
}

void Trial::bring_up() {
    bench.device->links().connected(kPort, false);
    settle();
    for (const uint8_t state : {3, 4}) {  // Armed, Active
        set_port_info([state](Bytes& info) {
            info[kLidAt + 1] = kLid;
            info[kSmLidAt + 1] = kStrangerLid;
            info[kStateAt] = static_cast<uint8_t>((info[kStateAt] & ~kLowNibble) | state);
        });
    }
    stranger.take_frames();
    stranger.take_packets();
    while (bench.driver.poll(bench.async_eq)) {
    }
}

void Trial::set_port_info(const std::function<void(Bytes&)>& change) {
    Mad mad{.attribute = attribute::kPortInfo, .modifier = kPort};
    const Bytes now = ask(smp_packet(mad));
    if (now.empty()) {
        throw std::runtime_error("the device does not answer Get(PortInfo)");
    }
    mad.data.assign(now.begin() + kSmpData, now.begin() + 2 * kSmpData);
    mad.data[kStateAt] &= static_cast<uint8_t>(~kLowNibble);  // no change
    mad.data[kPhysicalStateAt] &= kLowNibble;
    mad.method = Method::kSet;
    change(mad.data);
    ask(smp_packet(mad));
}

Bytes Trial::ask(const Packet& mad) {
    stranger.take_packets();
    put(mad);
    const auto answers = stranger.take_packets();
    return answers.size() == 1 ? answers[0].payload : Bytes{};
}

void Trial::connect(const Connection& wanted) {
    connection = wanted;
    hca::test::QpShape shape = bench.shape(connection.type);
    shape.flags |= connection.flags;
    qp = bench.driver.create_qp(shape);
    if (connection.type == PIB_HCA_QP_UD || connection.type == PIB_HCA_QP_GSI) {
        bench.driver.connect_ud(qp, kPort, connection.qkey);
    } else if (connection.type == PIB_HCA_QP_UC) {
        connect_uc(bench.driver, qp, path_of(wanted));
    } else {
        bench.driver.connect_rc(qp, path_of(wanted));
    }
    for (unsigned i = 0; i < connection.receives; ++i) {
        post_receive(connection.receive_bytes);
    }
}

void Trial::post_receive(uint32_t bytes) {
    const pib_hca_sge sge = MiniDriver::sge(region, next_receive_ % kPattern, bytes);
    next_receive_ += 0x1000;
    bench.driver.post_recv(qp, {&sge, 1});
}

void Trial::post_send(const SendWr& request) {
    bench.driver.post_send(qp, request);
    settle();
}

void Trial::post(pib_hca_wqe_opcode opcode, uint32_t bytes) {
    SendWr request{.opcode = static_cast<uint8_t>(opcode)};
    const bool to_memory = opcode == PIB_HCA_WQE_RDMA_READ || opcode == PIB_HCA_WQE_CMP_SWAP ||
                           opcode == PIB_HCA_WQE_FETCH_ADD;
    request.sges = {MiniDriver::sge(region, to_memory ? 0 : kPattern, bytes)};
    request.remote_addr = 0x1000;
    request.rkey = 0x77;
    request.swap_or_add = 1;
    request.imm = 0x04030201;
    post_send(request);
}

void Trial::set_state(pib_hca_qp_state state) {
    pib_hca_modify_qp to{};
    to.state = static_cast<uint8_t>(state);
    to.attr_mask = PIB_HCA_QP_ATTR_STATE;
    MiniDriver::must(bench.driver.modify(qp, to), "MODIFY_QP");
    witness.remember_state(state);
    settle();
}

Packet Trial::request(uint8_t opcode, uint32_t psn, uint32_t bytes, const Change& change) {
    Packet packet{.dlid = kLid,
                  .slid = kStrangerLid,
                  .opcode = opcode,
                  .dest_qp = qp.qpn,
                  .psn = connection.psn + psn,
                  .qkey = connection.qkey,
                  .source_qp = kStrangerQp,
                  .xrc_srq = srqn,
                  .va = region.addr,
                  .rkey = region.key,
                  .dma_length = bytes,
                  .immediate = 0x01020304};
    if (is_read_or_atomic(opcode)) {
        packet.va += kPattern;
    } else if ((opcode & 0x1f) != kFlush) {
        packet.payload = payload(bytes);
    }
    if (change) {
        change(packet);
    }
    return packet;
}

Packet Trial::answer(uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t msn,
                     const Change& change) {
    Packet packet{.dlid = kLid,
                  .slid = kStrangerLid,
                  .opcode = opcode,
                  .dest_qp = qp.qpn,
                  .ack = false,
                  .psn = connection.sq_psn + psn,
                  .syndrome = syndrome,
                  .msn = msn};
    if (change) {
        change(packet);
    }
    return packet;
}

void Trial::put_bytes(const Bytes& bytes) {
    stranger.send_packet(bytes);
    settle();
}

void Trial::put_frame(const Frame& frame) {
    stranger.send(frame);
    settle();
}

void Trial::wait(uint64_t ns) {
    const uint64_t until = bench.host.clock_ns + ns;
    while (bench.host.timer_deadline_ns <= until) {
        bench.host.clock_ns = std::max(bench.host.clock_ns, bench.host.timer_deadline_ns);
        bench.host.timer_deadline_ns = hca::kNever;
        bench.device->timer();
        settle();
    }
    bench.host.clock_ns = until;
}

}  // namespace pib::conformance
