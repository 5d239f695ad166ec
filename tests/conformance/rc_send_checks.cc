// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a reliable connection: SEND.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
}

void without_receives(Trial& t, uint8_t opcode, uint32_t bytes) {
    t.connect({.receives = 0});
    t.send(opcode, 0, bytes);
}

void without_receive_queue(Trial& t, uint8_t opcode) {
    t.connect({.receives = 0, .flags = PIB_HCA_QP_NO_RQ});
    t.send(opcode, 0, 8);
}

void into_receive_of(Trial& t, uint32_t receive_bytes, uint32_t bytes) {
    t.connect({.receives = 1, .receive_bytes = receive_bytes});
    t.send(kSendOnly, 0, bytes);
}

void two(Trial& t, uint8_t first, uint32_t first_bytes, uint8_t second, uint32_t second_bytes) {
    t.send(first, 0, first_bytes);
    t.send(second, 1, second_bytes);
}

void credits(Trial& t, unsigned receives) {
    t.connect({.receives = receives});
    t.witness.show_credits = true;
    t.send(kWriteOnly, 0, 0);
}

constexpr Check kChecks[] = {
    {"S01", "9.4.1", "SEND ONLY of 8 bytes is placed in the receive buffer and acknowledged.",
     [](Trial& t) { t.send(kSendOnly, 0, 8); }, "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"S02", "9.4.1", "SEND ONLY of 0 bytes takes a receive and is acknowledged.",
     [](Trial& t) { t.send(kSendOnly, 0, 0); }, "ACK 0 msn 1; received 0"},
    {"S03", "9.2.4", "SEND ONLY of 1 byte has three pad bytes, which are not data.",
     [](Trial& t) { t.send(kSendOnly, 0, 1); }, "ACK 0 msn 1; received 1; memory 0 to 1"},
    {"S04", "9.2.4", "SEND ONLY of 6 bytes has two pad bytes, which are not data.",
     [](Trial& t) { t.send(kSendOnly, 0, 6); }, "ACK 0 msn 1; received 6; memory 0 to 6"},
    {"S05", "9.2.4", "SEND ONLY of 7 bytes has one pad byte, which is not data.",
     [](Trial& t) { t.send(kSendOnly, 0, 7); }, "ACK 0 msn 1; received 7; memory 0 to 7"},
    {"S06", "9.7.4.1.6", "SEND ONLY of a whole path MTU is taken.",
     [](Trial& t) { t.send(kSendOnly, 0, kMtu); }, "ACK 0 msn 1; received 1024; memory 0 to 1024"},
    {"S07", "9.4.1", "SEND ONLY with immediate data hands them to the receiver.",
     [](Trial& t) { t.send(kSendOnlyImm, 0, 8); },
     "ACK 0 msn 1; received 8 imm 0x1020304; memory 0 to 8"},
    {"S08", "9.2.2", "The solicited event of SEND ONLY marks the completion.",
     [](Trial& t) { t.send(kSendOnly, 0, 8, [](Packet& p) { p.solicited = true; }); },
     "ACK 0 msn 1; received 8 solicited; memory 0 to 8"},
    {"S09", "9.4.1", "SEND FIRST and LAST are one message.",
     [](Trial& t) { two(t, kSendFirst, kMtu, kSendLast, 8); },
     "ACK 0 msn 0; ACK 1 msn 1; received 1032; memory 0 to 1032"},
    {"S10", "9.4.1", "SEND FIRST, MIDDLE and LAST are one message.",
     [](Trial& t) {
         two(t, kSendFirst, kMtu, kSendMiddle, kMtu);
         t.send(kSendLast, 2, 1);
     },
     "ACK 0 msn 0; ACK 1 msn 0; ACK 2 msn 1; received 2049; memory 0 to 2049"},
    {"S11", "9.4.1", "SEND LAST with immediate data hands them to the receiver.",
     [](Trial& t) { two(t, kSendFirst, kMtu, kSendLastImm, 8); },
     "ACK 0 msn 0; ACK 1 msn 1; received 1032 imm 0x1020304; memory 0 to 1032"},
    {"S12", "9.2.2", "The solicited event of SEND FIRST alone does not mark the completion.",
     [](Trial& t) {
         t.send(kSendFirst, 0, kMtu, [](Packet& p) { p.solicited = true; });
         t.send(kSendLast, 1, 8);
     },
     "ACK 0 msn 0; ACK 1 msn 1; received 1032; memory 0 to 1032"},
    {"S13", "9.7.5.1.1", "SEND ONLY without AckReq need not be acknowledged, and is not.",
     [](Trial& t) { t.send(kSendOnly, 0, 8, [](Packet& p) { p.ack = false; }); },
     "received 8; memory 0 to 8"},
    {"S14", "9.7.5.1.1", "One ACK answers all SENDs up to the one that asks for it.",
     [](Trial& t) {
         t.send(kSendOnly, 0, 8, [](Packet& p) { p.ack = false; });
         t.send(kSendOnly, 1, 8);
     },
     "ACK 1 msn 2; received 8 x2; memory 0 to 8; memory 4096 to 4104"},
    {"S15", "9.7.7.1", "A message that has not ended does not count in MSN.",
     [](Trial& t) { t.send(kSendFirst, 0, kMtu); }, "ACK 0 msn 0; memory 0 to 1024"},
    {"S16", "9.7.4.1.4", "SEND ONLY without a receive gets an RNR NAK.",
     [](Trial& t) { without_receives(t, kSendOnly, 8); }, "RNR NAK 0 timer 1 msn 0"},
    {"S17", "9.7.4.1.4", "SEND FIRST without a receive gets an RNR NAK.",
     [](Trial& t) { without_receives(t, kSendFirst, kMtu); }, "RNR NAK 0 timer 1 msn 0"},
    {"S18", "9.7.5.2.8", "After an RNR NAK the same PSN is taken when a receive is there.",
     [](Trial& t) {
         without_receives(t, kSendOnly, 8);
         t.post_receive(64);
         t.send(kSendOnly, 0, 8);
     },
     "RNR NAK 0 timer 1 msn 0; ACK 0 msn 1; received 8; memory 0 to 8"},
    {"S19", "9.7.5.2.8", "Requests after an RNR NAK are dropped in silence.",
     [](Trial& t) {
         without_receives(t, kSendOnly, 8);
         t.send(kSendOnly, 1, 8);
         t.send(kWriteOnly, 2, 8);
     },
     "RNR NAK 0 timer 1 msn 0"},
    {"S20", "9.7.4.1.4", "A repeated SEND without a receive gets another RNR NAK.",
     [](Trial& t) {
         without_receives(t, kSendOnly, 8);
         t.send(kSendOnly, 0, 8);
     },
     "RNR NAK 0 timer 1 msn 0 x2"},
    {"S21", "9.7.4.1.6", "A SEND longer than its receive is an invalid request.",
     [](Trial& t) { into_receive_of(t, 8, 9); },
     "NAK invalid request 0 msn 0; receive LOC_LEN_ERR; event invalid request; Error"},
    {"S22", "9.7.4.1.6", "A SEND as long as its receive fits.",
     [](Trial& t) { into_receive_of(t, 8, 8); }, "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"S23", "9.7.4.1.6", "A SEND of 0 bytes fits a receive of 0 bytes.",
     [](Trial& t) { into_receive_of(t, 0, 0); }, "ACK 0 msn 1; received 0"},
    {"S24", "9.7.4.1.6", "A SEND of 1 byte does not fit a receive of 0 bytes.",
     [](Trial& t) { into_receive_of(t, 0, 1); },
     "NAK invalid request 0 msn 0; receive LOC_LEN_ERR; event invalid request; Error"},
    {"S25", "9.7.4.1.6", "A SEND whose second packet exceeds the receive is an invalid request.",
     [](Trial& t) {
         t.connect({.receives = 1, .receive_bytes = 1030});
         two(t, kSendFirst, kMtu, kSendLast, 8);
     },
     "ACK 0 msn 0; NAK invalid request 1 msn 0; receive LOC_LEN_ERR; event invalid request; "
     "memory 0 to 1024; Error"},
    {"S26", "9.7.4.1.6", "SEND FIRST of four bytes less than the path MTU is an invalid request.",
     [](Trial& t) { t.send(kSendFirst, 0, kMtu - 4); },
     "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error"},
    {"S27", "9.7.4.1.6", "SEND FIRST of 0 bytes is an invalid request.",
     [](Trial& t) { t.send(kSendFirst, 0, 0); },
     "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error"},
    {"S28", "9.7.4.1.6", "SEND FIRST of twice the path MTU is an invalid request.",
     [](Trial& t) { t.send(kSendFirst, 0, 2 * kMtu); },
     "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error"},
    {"S29", "9.7.4.1.6", "SEND FIRST of the path MTU less two pad bytes is an invalid request.",
     [](Trial& t) { t.send(kSendFirst, 0, kMtu - 2); },
     "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error"},
    {"S30", "9.7.4.1.6", "SEND ONLY of one byte more than the path MTU is an invalid request.",
     [](Trial& t) { t.send(kSendOnly, 0, kMtu + 1); },
     "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error"},
    {"S31", "9.7.4.1.6", "SEND MIDDLE of four bytes less than the path MTU is an invalid request.",
     [](Trial& t) { two(t, kSendFirst, kMtu, kSendMiddle, kMtu - 4); },
     "ACK 0 msn 0; NAK invalid request 1 msn 0; receive flushed x4; event invalid request; "
     "memory 0 to 1024; Error"},
    {"S32", "9.7.4.1.6", "SEND LAST of 0 bytes is an invalid request.",
     [](Trial& t) { two(t, kSendFirst, kMtu, kSendLast, 0); },
     "ACK 0 msn 0; NAK invalid request 1 msn 0; receive flushed x4; event invalid request; "
     "memory 0 to 1024; Error"},
    {"S33", "9.7.4.1.6", "SEND LAST of one byte more than the path MTU is an invalid request.",
     [](Trial& t) { two(t, kSendFirst, kMtu, kSendLast, kMtu + 1); },
     "ACK 0 msn 0; NAK invalid request 1 msn 0; receive flushed x4; event invalid request; "
     "memory 0 to 1024; Error"},
    {"S34", "9.7.4.1.6", "SEND LAST of a whole path MTU is taken.",
     [](Trial& t) { two(t, kSendFirst, kMtu, kSendLast, kMtu); },
     "ACK 0 msn 0; ACK 1 msn 1; received 2048; memory 0 to 2048"},
    {"S35", "10.3.1.7", "A QP in Error answers nothing.",
     [](Trial& t) {
         t.set_state(PIB_HCA_QPS_ERR);
         t.send(kSendOnly, 0, 8);
     },
     "receive flushed x4"},
    {"S36", "10.3.1.5", "A QP in SQD receives and acknowledges.",
     [](Trial& t) {
         t.set_state(PIB_HCA_QPS_SQD);
         t.send(kSendOnly, 0, 8);
     },
     "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"S37", "10.3.1.1", "A QP in Reset answers nothing.",
     [](Trial& t) {
         t.set_state(PIB_HCA_QPS_RESET);
         t.send(kSendOnly, 0, 8);
     },
     "nothing"},
    {"S38", "9.9.3.1", "A receive whose L_Key is wrong ends in a remote operational error.",
     [](Trial& t) {
         t.connect({.receives = 0});
         const pib_hca_sge sge = {.addr = t.region.addr, .length = 64, .lkey = t.region.key + 256};
         t.bench.driver.post_recv(t.qp, {&sge, 1});
         t.send(kSendOnly, 0, 8);
     },
     "NAK remote operational 0 msn 0; receive LOC_PROT_ERR; Error"},
    {"S39", "9.9.3.1", "After a SEND that has failed no later request is taken.",
     [](Trial& t) {
         t.send(kSendFirst, 0, 0);
         t.send(kSendOnly, 0, 8);
         t.send(kSendOnly, 1, 8);
     },
     "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error"},
    {"S40", "9.7.7.2", "An ACK of a QP without receives says credit count 0.",
     [](Trial& t) { credits(t, 0); }, "ACK 0 msn 1 credits 0"},
    {"S41", "9.7.7.2", "An ACK of a QP with one receive says credit count 1.",
     [](Trial& t) { credits(t, 1); }, "ACK 0 msn 1 credits 1"},
    {"S42", "9.7.7.2", "An ACK of a QP with two receives says credit count 2.",
     [](Trial& t) { credits(t, 2); }, "ACK 0 msn 1 credits 2"},
    {"S43", "9.7.7.2", "An ACK of a QP with three receives says credit count 3.",
     [](Trial& t) { credits(t, 3); }, "ACK 0 msn 1 credits 3"},
    {"S44", "9.7.7.2", "The code for four receives is 4.", [](Trial& t) { credits(t, 4); },
     "ACK 0 msn 1 credits 4"},
    {"S45", "9.7.7.2", "There is no code for five receives, so the ACK says four.",
     [](Trial& t) { credits(t, 5); }, "ACK 0 msn 1 credits 4"},
    {"S46", "9.7.7.2", "The code for six receives is 5.", [](Trial& t) { credits(t, 6); },
     "ACK 0 msn 1 credits 5"},
    {"S47", "9.7.7.2", "The code for eight receives is 6.", [](Trial& t) { credits(t, 8); },
     "ACK 0 msn 1 credits 6"},
    {"S48", "9.7.7.2", "The code for twelve receives is 7.", [](Trial& t) { credits(t, 12); },
     "ACK 0 msn 1 credits 7"},
    {"S49", "9.7.7.2", "The code for sixteen receives is 8.", [](Trial& t) { credits(t, 16); },
     "ACK 0 msn 1 credits 8"},
    {"S50", "9.7.7.2", "A SEND takes a receive, which the credits of its ACK do not count.",
     [](Trial& t) {
         t.witness.show_credits = true;
         t.send(kSendOnly, 0, 8);
     },
     "ACK 0 msn 1 credits 3; received 8; memory 0 to 8"},
    {"S51", "9.7.4.1.4", "SEND to a QP without a receive queue is an invalid request.",
     [](Trial& t) { without_receive_queue(t, kSendOnly); },
     "NAK invalid request 0 msn 0; event invalid request; Error"},
    {"S52", "9.7.4.1.4",
     "WRITE with immediate data to a QP without a receive queue is an invalid request.",
     [](Trial& t) { without_receive_queue(t, kWriteOnlyImm); },
     "NAK invalid request 0 msn 0; event invalid request; Error"},
};

}  // namespace

CheckTable rc_send_checks() {
    return {"RC responder: SEND", prepare, kChecks};
}

}  // namespace pib::conformance
