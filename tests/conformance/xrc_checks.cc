// SPDX-License-Identifier: GPL-2.0-or-later
// The target of an extended reliable connection (annex A14), and shared receive queues.
#include <cstddef>

#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

using hca::test::GuestMemory;
using hca::test::MiniDriver;

constexpr uint32_t kMtu = Trial::kMtu;
constexpr uint8_t kLogDepth = 4;
constexpr uint8_t kLogStride = 6;
constexpr std::string_view kInvalid =
    "NAK invalid request 0 msn 0; event invalid request; event last WQE; Error";
constexpr std::string_view kNoAccess =
    "NAK remote access 0 msn 0; event access error; event last WQE; Error";

// Makes an SRQ of the domain, with receives of 4096 bytes from the region's start on.
uint32_t make_srq(Trial& t, uint32_t domain, uint32_t receives) {
    GuestMemory memory(t.bench.host, 64 + (1u << (kLogDepth + kLogStride)));
    pib_hca_create_srq in{};
    in.pages = memory.list();
    in.pd = t.bench.pd;
    in.flags = PIB_HCA_SRQ_XRC;
    in.offset = 64;
    in.log_depth = kLogDepth;
    in.log_stride = kLogStride;
    in.xrcd = domain;
    in.cq = t.bench.cq.cqn;
    const uint32_t srqn =
        MiniDriver::must(t.bench.driver.command_in(PIB_HCA_CMD_CREATE_SRQ, 0, in), "CREATE_SRQ");
    for (uint32_t i = 0; i < receives; ++i) {
        const pib_hca_sge sge = MiniDriver::sge(t.region, i * 0x1000, 0x1000);
        memory.write(64 + (i << kLogStride), hca::test::encode_recv({&sge, 1}, i));
    }
    memory.poke(0, receives);
    return srqn;
}

void modify(Trial& t, pib_hca_qp_state state, uint32_t mask) {
    pib_hca_modify_qp in{};
    in.state = static_cast<uint8_t>(state);
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | mask;
    in.port = 1;
    in.access_flags = t.connection.access;
    in.av.dlid = Trial::kStrangerLid;
    in.path_mtu = t.connection.path_mtu;
    in.dest_qpn = Trial::kStrangerQp;
    in.rq_psn = t.connection.psn;
    in.max_dest_rd_atomic = t.connection.reads;
    in.min_rnr_timer = 1;
    MiniDriver::must(t.bench.driver.modify(t.qp, in), "MODIFY_QP");
}

void target(Trial& t, uint32_t receives) {
    const uint32_t domain =
        MiniDriver::must(t.bench.driver.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
    pib_hca_create_qp in{};
    in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
    in.type = PIB_HCA_QP_XRC_TGT;
    in.xrcd = domain;
    t.qp.qpn =
        MiniDriver::must(t.bench.driver.command_in(PIB_HCA_CMD_CREATE_QP, 0, in), "CREATE_QP");
    modify(t, PIB_HCA_QPS_INIT,
           PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT | PIB_HCA_QP_ATTR_ACCESS_FLAGS);
    modify(t, PIB_HCA_QPS_RTR,
           PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU | PIB_HCA_QP_ATTR_DEST_QPN |
               PIB_HCA_QP_ATTR_RQ_PSN | PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC |
               PIB_HCA_QP_ATTR_MIN_RNR_TIMER);
    modify(t, PIB_HCA_QPS_RTS, PIB_HCA_QP_ATTR_SQ_PSN | PIB_HCA_QP_ATTR_TIMEOUT);
    t.xrcd = domain;
    t.srqn = make_srq(t, domain, receives);
}

void prepare(Trial& t) {
    t.bring_up();
    target(t, 4);
}

void xrc(Trial& t, uint8_t opcode, uint32_t psn, uint32_t bytes, const Trial::Change& change = {}) {
    t.send(opcode | kXrc, psn, bytes, change);
}

constexpr Check kChecks[] = {
    {"X01", "A14", "SEND ONLY takes a receive of the SRQ that its XRCETH names.",
     [](Trial& t) { xrc(t, kSendOnly, 0, 8); }, "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"X02", "A14", "SEND FIRST, MIDDLE and LAST are one message.",
     [](Trial& t) {
         xrc(t, kSendFirst, 0, kMtu);
         xrc(t, kSendMiddle, 1, kMtu);
         xrc(t, kSendLast, 2, 8);
     },
     "ACK 0 msn 0; ACK 1 msn 0; ACK 2 msn 1; received 2056; memory 0 to 2056"},
    {"X03", "A14", "SEND ONLY with immediate data hands them to the receiver.",
     [](Trial& t) { xrc(t, kSendOnlyImm, 0, 8); },
     "ACK 0 msn 1; received 8 imm 0x1020304; memory 0 to 8"},
    {"X04", "A14", "WRITE ONLY is placed.", [](Trial& t) { xrc(t, kWriteOnly, 0, 8); },
     "ACK 0 msn 1; memory 0 to 8"},
    {"X05", "A14", "WRITE with immediate data takes a receive of the SRQ.",
     [](Trial& t) { xrc(t, kWriteOnlyImm, 0, 8); },
     "ACK 0 msn 1; received 8 by WRITE imm 0x1020304; memory 0 to 8"},
    {"X06", "A14", "READ is answered.", [](Trial& t) { xrc(t, kReadRequest, 0, 8); },
     "READ ONLY 0 msn 1 8 bytes from 0"},
    {"X07", "A14", "FETCH ADD is answered.",
     [](Trial& t) {
         t.set_word(Trial::kPattern, 70);
         xrc(t, kFetchAdd, 0, 8);
     },
     "ATOMIC ACK 0 msn 1 value 0x46"},
    {"X08", "A14", "Answers have XRC's opcodes and no XRCETH.",
     [](Trial& t) {
         xrc(t, kWriteOnly, 0, 8);
         const Packet p = t.stranger.take_packets()[0];
         t.note(p.opcode == (kXrc | kAcknowledge) ? "XRC" : "another service");
     },
     "XRC; memory 0 to 8"},
    {"X09", "A14", "An SRQ that does not exist is an invalid request.",
     [](Trial& t) { xrc(t, kSendOnly, 0, 8, [](Packet& p) { p.xrc_srq += 50; }); }, kInvalid},
    {"X10", "A14", "An SRQ of another domain is an invalid request.",
     [](Trial& t) {
         const uint32_t domain =
             MiniDriver::must(t.bench.driver.command(PIB_HCA_CMD_ALLOC_XRCD), "ALLOC_XRCD");
         const uint32_t other = make_srq(t, domain, 1);
         xrc(t, kSendOnly, 0, 8, [&](Packet& p) { p.xrc_srq = other; });
     },
     kInvalid},
    {"X11", "A14", "An SRQ that does not exist within a message is an invalid request.",
     [](Trial& t) {
         xrc(t, kSendFirst, 0, kMtu);
         t.seen();
         xrc(t, kSendLast, 1, 8, [](Packet& p) { p.xrc_srq += 1; });
     },
     "NAK invalid request 1 msn 0; receive flushed; event invalid request; event last WQE; Error"},
    {"X12", "A14", "SEND ONLY to an empty SRQ gets an RNR NAK.",
     [](Trial& t) {
         target(t, 0);
         xrc(t, kSendOnly, 0, 8);
     },
     "RNR NAK 0 timer 1 msn 0"},
    {"X13", "9.7.7.2", "An ACK of a QP with a shared queue has no credits.",
     [](Trial& t) {
         t.witness.show_credits = true;
         xrc(t, kWriteOnly, 0, 0);
     },
     "ACK 0 msn 1 credits 31"},
    {"X14", "A14", "An RC packet to an XRC target is dropped.",
     [](Trial& t) { t.send(kWriteOnly, 0, 8); }, "nothing"},
    {"X15", "A14", "An answer to an XRC target, which sends no requests, is dropped.",
     [](Trial& t) { xrc(t, kAcknowledge, 0, 0); }, "nothing"},
    {"X16", "9.7.5.1.2", "A request ahead gets a NAK of the PSN that is missing.",
     [](Trial& t) { xrc(t, kWriteOnly, 1, 8); }, "NAK sequence 0 msn 0"},
    {"X17", "9.7.5.1.4", "A duplicate is acknowledged and not executed.",
     [](Trial& t) {
         xrc(t, kSendOnly, 0, 8);
         t.seen();
         xrc(t, kSendOnly, 0, 8);
     },
     "ACK 0 msn 1"},
    {"X18", "9.7.4.1.5", "An R_Key that does not exist is a remote access error.",
     [](Trial& t) { xrc(t, kWriteOnly, 0, 8, [](Packet& p) { p.rkey ^= 1; }); }, kNoAccess},
    {"X19", "9.7.4.1.2", "SEND MIDDLE without FIRST is an invalid request.",
     [](Trial& t) { xrc(t, kSendMiddle, 0, kMtu); }, kInvalid},
    {"X20", "9.7.4.1.6", "SEND FIRST of less than the path MTU is an invalid request.",
     [](Trial& t) { xrc(t, kSendFirst, 0, kMtu - 4); },
     "NAK invalid request 0 msn 0; receive flushed; event invalid request; event last WQE; Error"},
    {"X21", "9.7.4.1.3", "A reserved XRC opcode is an invalid request.",
     [](Trial& t) { xrc(t, 0x15, 0, 8); }, kInvalid},
    {"X22", "9.7.4.1.3", "WRITE to a target without remote write is an invalid request.",
     [](Trial& t) {
         t.connection.access = 0;
         target(t, 1);
         xrc(t, kWriteOnly, 0, 8);
     },
     kInvalid},
    {"X23", "A14", "Another SRQ of the same domain within a message is an invalid request.",
     [](Trial& t) {
         t.srqn = make_srq(t, t.xrcd, 1);
         const uint32_t other = make_srq(t, t.xrcd, 1);
         xrc(t, kSendFirst, 0, kMtu);
         t.seen();
         xrc(t, kSendLast, 1, 8, [&](Packet& p) { p.xrc_srq = other; });
     },
     "NAK invalid request 1 msn 0; receive flushed; event invalid request; event last WQE; Error"},
};

}  // namespace

CheckTable xrc_checks() {
    return {"XRC target", prepare, kChecks};
}

}  // namespace pib::conformance
