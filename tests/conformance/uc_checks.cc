// SPDX-License-Identifier: GPL-2.0-or-later
// An unreliable connection: it sends no answers, and drops packets that do not fit.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;
constexpr std::string_view kTaken = "received 8; memory 0 to 8";

void prepare(Trial& t) {
    t.bring_up();
    t.connect({.type = PIB_HCA_QP_UC});
}

void uc(Trial& t, uint8_t opcode, uint32_t psn, uint32_t bytes, const Trial::Change& change = {}) {
    t.send(opcode | kUc, psn, bytes, change);
}

// Sends a packet that the QP has to drop, then a SEND that it has to accept.
void dropped(Trial& t, uint8_t opcode, uint32_t bytes, const Trial::Change& change = {}) {
    uc(t, opcode, 0, bytes, change);
    t.note(t.seen());
    uc(t, kSendOnly, 1, 8);
}

constexpr std::string_view kDropped = "nothing; received 8; memory 0 to 8";

constexpr Check kChecks[] = {
    {"U01", "9.8.2.2", "SEND ONLY is placed, and not acknowledged, even with AckReq.",
     [](Trial& t) { uc(t, kSendOnly, 0, 8); }, kTaken},
    {"U02", "9.8.2.2", "SEND ONLY with immediate data hands them to the receiver.",
     [](Trial& t) { uc(t, kSendOnlyImm, 0, 8); }, "received 8 imm 0x1020304; memory 0 to 8"},
    {"U03", "9.8.2.2", "SEND FIRST, MIDDLE and LAST are one message.",
     [](Trial& t) {
         uc(t, kSendFirst, 0, kMtu);
         uc(t, kSendMiddle, 1, kMtu);
         uc(t, kSendLast, 2, 8);
     },
     "received 2056; memory 0 to 2056"},
    {"U04", "9.8.2.2", "WRITE ONLY is placed and takes no receive.",
     [](Trial& t) { uc(t, kWriteOnly, 0, 8); }, "memory 0 to 8"},
    {"U05", "9.8.2.2", "WRITE ONLY with immediate data takes a receive.",
     [](Trial& t) { uc(t, kWriteOnlyImm, 0, 8); },
     "received 8 by WRITE imm 0x1020304; memory 0 to 8"},
    {"U06", "9.8.2.2", "WRITE FIRST and LAST are one message.",
     [](Trial& t) {
         uc(t, kWriteFirst, 0, kMtu, [](Packet& p) { p.dma_length = kMtu + 8; });
         uc(t, kWriteLast, 1, 8);
     },
     "memory 0 to 1032"},
    {"U07", "9.8.2.2.1", "A message that begins with a later PSN is taken.",
     [](Trial& t) { uc(t, kSendOnly, 5, 8); }, kTaken},
    {"U08", "9.8.2.2.1", "A message that begins with an earlier PSN is taken.",
     [](Trial& t) { uc(t, kSendOnly, 0xffffff, 8); }, kTaken},
    {"U09", "9.8.2.2.1", "PSNs continue after a gap.",
     [](Trial& t) {
         uc(t, kSendFirst, 7, kMtu);
         uc(t, kSendLast, 8, 8);
     },
     "received 1032; memory 0 to 1032"},
    {"U10", "9.8.2.2.1", "A gap within a message ends it; its receive waits for the next.",
     [](Trial& t) {
         uc(t, kSendFirst, 0, kMtu);
         uc(t, kSendLast, 2, 8);
         t.note(t.seen());
         uc(t, kSendOnly, 3, 8);
     },
     "memory 0 to 1024; received 8; memory 0 to 8"},
    {"U11", "9.8.2.2.1", "A duplicate within a message ends it.",
     [](Trial& t) {
         uc(t, kSendFirst, 0, kMtu);
         uc(t, kSendMiddle, 1, kMtu);
         uc(t, kSendMiddle, 1, kMtu);
         uc(t, kSendLast, 2, 8);
     },
     "memory 0 to 2048"},
    {"U12", "9.8.2.2.3", "A message that begins within another one ends it and is taken.",
     [](Trial& t) {
         uc(t, kSendFirst, 0, kMtu);
         t.seen();
         uc(t, kSendOnly, 1, 8);
     },
     kTaken},
    {"U13", "9.8.2.2.3", "SEND MIDDLE without FIRST is dropped.",
     [](Trial& t) { dropped(t, kSendMiddle, kMtu); }, kDropped},
    {"U14", "9.8.2.2.3", "SEND LAST without FIRST is dropped.",
     [](Trial& t) { dropped(t, kSendLast, 8); }, kDropped},
    {"U15", "9.8.2.2.3", "WRITE MIDDLE without FIRST is dropped.",
     [](Trial& t) { dropped(t, kWriteMiddle, kMtu); }, kDropped},
    {"U16", "9.8.2.2.3", "WRITE LAST without FIRST is dropped.",
     [](Trial& t) { dropped(t, kWriteLast, 8); }, kDropped},
    {"U17", "9.8.2.2.3", "WRITE LAST after SEND FIRST is dropped with the message.",
     [](Trial& t) {
         uc(t, kSendFirst, 0, kMtu);
         t.seen();
         uc(t, kWriteLast, 1, 8);
         uc(t, kSendLast, 2, 8);
     },
     "nothing"},
    {"U18", "9.8.2", "READ REQUEST is dropped.", [](Trial& t) { dropped(t, kReadRequest, 8); },
     kDropped},
    {"U19", "9.8.2", "FETCH ADD is dropped.", [](Trial& t) { dropped(t, kFetchAdd, 8); }, kDropped},
    {"U20", "9.8.2", "CMP SWAP is dropped.", [](Trial& t) { dropped(t, kCmpSwap, 8); }, kDropped},
    {"U21", "9.8.2", "ACKNOWLEDGE is dropped.", [](Trial& t) { dropped(t, kAcknowledge, 0); },
     kDropped},
    {"U22", "9.8.2", "A reserved opcode is dropped.", [](Trial& t) { dropped(t, 0x1e, 8); },
     kDropped},
    {"U23", "9.8.2.2.5", "SEND ONLY without a receive is dropped, and gets no RNR NAK.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .receives = 0});
         uc(t, kSendOnly, 0, 8);
     },
     "nothing"},
    {"U24", "9.8.2.2.5", "A receive that comes late takes the next SEND.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .receives = 0});
         uc(t, kSendOnly, 0, 8);
         t.post_receive(64);
         uc(t, kSendOnly, 1, 8);
     },
     kTaken},
    {"U25", "9.8.2.2.5", "WRITE with immediate data and without a receive is not written.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .receives = 0});
         uc(t, kWriteOnlyImm, 0, 8);
     },
     "nothing"},
    {"U26", "9.8.2.2.6", "A WRITE with an R_Key that does not exist is dropped; the QP goes on.",
     [](Trial& t) { dropped(t, kWriteOnly, 8, [](Packet& p) { p.rkey ^= 1; }); }, kDropped},
    {"U27", "9.8.2.2.6", "A WRITE beyond the region is dropped.",
     [](Trial& t) {
         dropped(t, kWriteOnly, 8, [](Packet& p) { p.va += Trial::kRegionBytes - 7; });
     },
     kDropped},
    {"U28", "9.8.2.2.4", "A WRITE to a QP without remote write is dropped.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .access = 0});
         dropped(t, kWriteOnly, 8);
     },
     kDropped},
    {"U29", "9.8.2.2.7", "WRITE ONLY that brings a byte more than DMALen is dropped.",
     [](Trial& t) { dropped(t, kWriteOnly, 9, [](Packet& p) { p.dma_length = 8; }); }, kDropped},
    {"U30", "9.8.2.2.7", "WRITE ONLY that brings a byte less than DMALen is dropped.",
     [](Trial& t) { dropped(t, kWriteOnly, 7, [](Packet& p) { p.dma_length = 8; }); }, kDropped},
    {"U31", "9.8.2.2.7", "SEND FIRST of less than the path MTU is dropped.",
     [](Trial& t) { dropped(t, kSendFirst, kMtu - 4); }, kDropped},
    {"U32", "9.8.2.2.7", "SEND FIRST of half the path MTU is dropped.",
     [](Trial& t) { dropped(t, kSendFirst, kMtu / 2); }, kDropped},
    {"U33", "9.8.2.2.7", "SEND ONLY of more than the path MTU is dropped.",
     [](Trial& t) { dropped(t, kSendOnly, kMtu + 4); }, kDropped},
    {"U34", "9.8.2.2.7", "SEND LAST of 0 bytes is dropped.",
     [](Trial& t) {
         uc(t, kSendFirst, 0, kMtu);
         t.seen();
         uc(t, kSendLast, 1, 0);
     },
     "nothing"},
    {"U35", "9.8.2.2.7", "A SEND longer than its receive is dropped; the receive stays.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .receives = 1, .receive_bytes = 8});
         dropped(t, kSendOnly, 9);
     },
     kDropped},
    {"U36", "9.9.3.1", "A receive whose L_Key is wrong completes with an error and ends the QP.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .receives = 0});
         const pib_hca_sge sge = {.addr = t.region.addr, .length = 64, .lkey = t.region.key ^ 1};
         t.bench.driver.post_recv(t.qp, {&sge, 1});
         uc(t, kSendOnly, 0, 8);
     },
     "receive LOC_PROT_ERR; Error"},
    {"U37", "9.6.1.1", "An RC packet is dropped.", [](Trial& t) { t.send(kSendOnly, 0, 8); },
     "nothing"},
    {"U38", "9.6.1.2", "A packet from another LID than the path's is dropped.",
     [](Trial& t) { dropped(t, kSendOnly, 8, [](Packet& p) { p.slid = 3; }); }, kDropped},
    {"U39", "10.9.3", "A packet with a P_Key of another partition is dropped.",
     [](Trial& t) { dropped(t, kSendOnly, 8, [](Packet& p) { p.pkey = 0x8123; }); }, kDropped},
    {"U40", "9.2.9", "A message goes on over the wrap of the PSN.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UC, .psn = 0xffffff});
         uc(t, kSendFirst, 0, kMtu);
         uc(t, kSendLast, 1, 8);
     },
     "received 1032; memory 0 to 1032"},
    {"U41", "9.8.2.1", "A SEND completes when it has left; it asks for no ACK.",
     [](Trial& t) { t.post(PIB_HCA_WQE_SEND, 8); }, "SEND ONLY 0 8 bytes from 0; completed"},
    {"U42", "9.8.2.1", "A WRITE of two packets is FIRST and LAST.",
     [](Trial& t) { t.post(PIB_HCA_WQE_RDMA_WRITE, kMtu + 4); },
     "WRITE FIRST 0 1024 bytes from 0; WRITE LAST 1 4 bytes from 1024; completed"},
    {"U43", "9.8.2", "A READ that is posted fails at once.",
     [](Trial& t) { t.post(PIB_HCA_WQE_RDMA_READ, 8); }, "request LOC_QP_OP_ERR; SQE"},
    {"U44", "9.8.2.1", "The opcodes on the wire are those of UC.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_SEND, 8);
         t.note(t.stranger.take_packets()[0].opcode == (kUc | kSendOnly) ? "UC"
                                                                         : "another service");
     },
     "UC; completed"},
    {"U45", "9.2.2", "The solicited event of SEND ONLY marks the completion.",
     [](Trial& t) { uc(t, kSendOnly, 0, 8, [](Packet& p) { p.solicited = true; }); },
     "received 8 solicited; memory 0 to 8"},
};

}  // namespace

CheckTable uc_checks() {
    return {"UC", prepare, kChecks};
}

}  // namespace pib::conformance
