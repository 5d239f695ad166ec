// SPDX-License-Identifier: GPL-2.0-or-later
// The requester of a reliable connection: packets that it sends, and responses that it gets.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint8_t kAck = 0x1f;  // without credits
constexpr uint8_t kRnr = 0x20;
constexpr uint8_t kNakSequence = 0x60;
constexpr uint32_t kMtu = Trial::kMtu;
constexpr uint64_t kMillisecond = 1'000'000;

void prepare(Trial& t) {
    t.bring_up();
    t.connect({.receives = 0});
}

// Posts a request of 8 bytes and discards its packet.
void sent(Trial& t, pib_hca_wqe_opcode opcode = PIB_HCA_WQE_RDMA_WRITE) {
    t.post(opcode, 8);
    t.seen();
}

void read_sent(Trial& t, uint32_t bytes) {
    t.post(PIB_HCA_WQE_RDMA_READ, bytes);
    t.seen();
}

void data(Trial& t, uint8_t opcode, uint32_t psn, uint32_t bytes) {
    t.reply(opcode, psn, kAck, 1, [&](Packet& p) { p.payload = t.payload(bytes); });
}

// Posts a SEND, and answers it and its repetitions with `times` RNR NAKs. Each NAK's timer expires.
void not_ready(Trial& t, unsigned times) {
    sent(t, PIB_HCA_WQE_SEND);
    for (unsigned i = 0; i < times; ++i) {
        t.reply(kAcknowledge, 0, kRnr | 1, 0);
        t.wait(kMillisecond);
    }
}

void nak(Trial& t, uint8_t code) {
    sent(t);
    sent(t);
    t.reply(kAcknowledge, 0, kNakSequence | code, 0);
}

// Posts three WRITEs and discards their packets.
void three_writes(Trial& t) {
    for (int i = 0; i < 3; ++i) {
        sent(t);
    }
}

constexpr Check kChecks[] = {
    {"Q01", "9.4.1", "SEND of 8 bytes is SEND ONLY and asks for an ACK.",
     [](Trial& t) { t.post(PIB_HCA_WQE_SEND, 8); }, "SEND ONLY 0 8 bytes from 0 ack"},
    {"Q02", "9.4.1", "SEND of 0 bytes is one packet.",
     [](Trial& t) { t.post(PIB_HCA_WQE_SEND, 0); }, "SEND ONLY 0 0 bytes ack"},
    {"Q03", "9.4.1", "SEND of 2049 bytes is FIRST, MIDDLE and LAST; the last one asks for an ACK.",
     [](Trial& t) { t.post(PIB_HCA_WQE_SEND, 2049); },
     "SEND FIRST 0 1024 bytes from 0; SEND MIDDLE 1 1024 bytes from 1024; SEND LAST 2 1 bytes ack"},
    {"Q04", "9.4.1", "SEND with immediate data of two packets has them in LAST.",
     [](Trial& t) { t.post(PIB_HCA_WQE_SEND_WITH_IMM, kMtu + 4); },
     "SEND FIRST 0 1024 bytes from 0; SEND LAST IMM 1 4 bytes from 1024 ack"},
    {"Q05", "9.4.3", "WRITE of 8 bytes is WRITE ONLY.",
     [](Trial& t) { t.post(PIB_HCA_WQE_RDMA_WRITE, 8); }, "WRITE ONLY 0 8 bytes from 0 ack"},
    {"Q06", "9.4.3", "WRITE with immediate data is WRITE ONLY with immediate data.",
     [](Trial& t) { t.post(PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, 8); },
     "WRITE ONLY IMM 0 8 bytes from 0 ack"},
    {"Q07", "9.3.3", "The RETH of WRITE FIRST has the length of the whole message.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_RDMA_WRITE, 3 * kMtu);
         const auto packets = t.stranger.take_packets();
         t.note(std::to_string(packets.size()) + " packets, DMALen " +
                std::to_string(packets[0].dma_length));
     },
     "3 packets, DMALen 3072"},
    {"Q08", "9.4.4", "READ is one request, whatever its length.",
     [](Trial& t) { t.post(PIB_HCA_WQE_RDMA_READ, 3000); },
     "READ REQUEST 0 of 3000 bytes at 0x1000 ack"},
    {"Q09", "9.7.3.2", "A READ of three response packets takes three PSNs.",
     [](Trial& t) {
         read_sent(t, 3000);
         t.post(PIB_HCA_WQE_RDMA_WRITE, 8);
     },
     "WRITE ONLY 3 8 bytes from 0 ack"},
    {"Q10", "9.4.5", "FETCH ADD is one packet.", [](Trial& t) { t.post(PIB_HCA_WQE_FETCH_ADD, 8); },
     "FETCH ADD 0 ack"},
    {"Q11", "9.2.2", "A solicited SEND has the solicited event only in its last packet.",
     [](Trial& t) {
         hca::test::SendWr wr{.flags = PIB_HCA_WQE_SIGNALED | PIB_HCA_WQE_SOLICITED};
         wr.sges = {hca::test::MiniDriver::sge(t.region, Trial::kPattern, kMtu + 4)};
         t.post_send(wr);
     },
     "SEND FIRST 0 1024 bytes from 0; SEND LAST 1 4 bytes from 1024 solicited ack"},
    {"Q12", "9.2.4", "SEND of 5 bytes has three pad bytes.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_SEND, 5);
         t.note("pad " + std::to_string(*t.stranger.take_packets()[0].pad));
     },
     "pad 3"},
    {"Q13", "9.6", "The request's headers are those of the connection's path.",
     [](Trial& t) {
         sent(t);
         t.post(PIB_HCA_WQE_SEND, 8);
         const Packet p = t.stranger.take_packets()[0];
         t.note(p.slid == Trial::kLid && p.dlid == Trial::kStrangerLid && p.pkey == 0xffff &&
                        p.dest_qp == Trial::kStrangerQp && p.sl == 0 && p.vl == 0 && !p.grh &&
                        p.transport_version == 0 && p.link_version == 0 && p.fecn_becn == 0
                    ? "right headers"
                    : "wrong headers");
     },
     "right headers"},
    {"Q14", "9.2.9", "PSNs wrap from 2^24 - 1 to 0.",
     [](Trial& t) {
         t.connect({.sq_psn = 0xffffff, .receives = 0});
         t.post(PIB_HCA_WQE_RDMA_WRITE, kMtu + 4);
         t.note("PSN " + std::to_string(t.stranger.take_packets()[1].psn));
     },
     "PSN 0"},
    {"Q15", "9.7.5.1.1", "An ACK completes the request.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, kAck, 1);
     },
     "completed"},
    {"Q16", "9.7.5.1.1", "An ACK completes all requests before it.",
     [](Trial& t) {
         three_writes(t);
         t.reply(kAcknowledge, 2, kAck, 3);
     },
     "completed x3"},
    {"Q17", "9.7.5.1.1", "An ACK of the first two leaves the third.",
     [](Trial& t) {
         three_writes(t);
         t.reply(kAcknowledge, 1, kAck, 2);
     },
     "completed x2"},
    {"Q18", "9.7.5.1.3", "An ACK of a packet that was not sent is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 1, kAck, 2);
     },
     "nothing"},
    {"Q19", "9.7.5.1.3", "An ACK of a packet that was acknowledged before is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, kAck, 1);
         t.seen();
         sent(t);
         t.reply(kAcknowledge, 0, kAck, 1);
     },
     "nothing"},
    {"Q20", "9.7.5.1.3", "An ACK without any request is dropped.",
     [](Trial& t) { t.reply(kAcknowledge, 0, kAck, 0); }, "nothing"},
    {"Q21", "9.7.5.1.1", "A part of a message that is acknowledged does not complete it.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_RDMA_WRITE, 2 * kMtu);
         t.seen();
         t.reply(kAcknowledge, 0, kAck, 0);
     },
     "nothing"},
    {"Q22", "9.7.5.2.1", "A NAK sequence error makes the requester send again from there.",
     [](Trial& t) {
         three_writes(t);
         t.reply(kAcknowledge, 1, kNakSequence, 1);
     },
     "WRITE ONLY 1 8 bytes from 0 ack; WRITE ONLY 2 8 bytes from 0 ack; completed"},
    {"Q23", "9.9.2.1.1", "A NAK sequence error after each of three retries exhausts them.",
     [](Trial& t) {
         t.connect({.receives = 0, .timeout = 8, .retry_cnt = 1});
         sent(t);
         t.reply(kAcknowledge, 0, kNakSequence, 0);
         t.wait(1000 * kMillisecond);
     },
     "WRITE ONLY 0 8 bytes from 0 ack; request RETRY_EXC_ERR; Error"},
    {"Q24", "9.7.5.2.2", "A NAK invalid request fails the request it names.",
     [](Trial& t) { nak(t, 1); }, "request REM_INV_REQ_ERR; request flushed; Error"},
    {"Q25", "9.7.5.2.3", "A NAK remote access error fails the request it names.",
     [](Trial& t) { nak(t, 2); }, "request REM_ACCESS_ERR; request flushed; Error"},
    {"Q26", "9.7.5.2.4", "A NAK remote operational error fails the request it names.",
     [](Trial& t) { nak(t, 3); }, "request REM_OP_ERR; request flushed; Error"},
    {"Q27", "9.7.5.2", "A NAK of the second request acknowledges the first.",
     [](Trial& t) {
         sent(t);
         sent(t);
         t.reply(kAcknowledge, 1, kNakSequence | 2, 1);
     },
     "completed; request REM_ACCESS_ERR; Error"},
    {"Q28", "9.7.5.2", "A NAK with a reserved code is dropped.", [](Trial& t) { nak(t, 7); },
     "nothing"},
    {"Q29", "9.7.5.2", "A NAK of a packet that was not sent is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 1, kNakSequence | 1, 0);
     },
     "nothing"},
    {"Q30", "9.3.5", "An AETH with a reserved syndrome is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, 0x40, 1);
     },
     "nothing"},
    {"Q31", "9.3.5", "The reserved highest bit of an AETH is ignored.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, 0x9f, 1);
     },
     "completed"},
    {"Q32", "9.7.5.2.8", "An RNR NAK lets the requester wait before it sends again.",
     [](Trial& t) {
         sent(t, PIB_HCA_WQE_SEND);
         t.reply(kAcknowledge, 0, kRnr | 1, 0);
     },
     "nothing"},
    {"Q33", "9.7.5.2.8", "After the RNR timer the request is sent again.",
     [](Trial& t) { not_ready(t, 1); }, "SEND ONLY 0 8 bytes from 0 ack"},
    {"Q34", "9.7.5.2.8", "The RNR timer is not shorter than the RNR NAK says (code 14: 1.28 ms).",
     [](Trial& t) {
         sent(t, PIB_HCA_WQE_SEND);
         t.reply(kAcknowledge, 0, kRnr | 14, 0);
         t.wait(1279 * 1000);
     },
     "nothing"},
    {"Q35", "9.7.5.2.8", "RNR timer code 0 is 655.36 ms.",
     [](Trial& t) {
         sent(t, PIB_HCA_WQE_SEND);
         t.reply(kAcknowledge, 0, kRnr, 0);
         t.wait(655 * kMillisecond);
         t.note(t.seen());
         t.wait(kMillisecond);
     },
     "nothing; SEND ONLY 0 8 bytes from 0 ack"},
    {"Q36", "9.7.5.2.8", "A fourth RNR NAK fails a request with an RNR retry count of 3.",
     [](Trial& t) {
         not_ready(t, 3);
         t.seen();
         t.reply(kAcknowledge, 0, kRnr | 1, 0);
     },
     "request RNR_RETRY_EXC_ERR; Error"},
    {"Q37", "9.7.5.2.8", "An RNR retry count of 7 is without end.",
     [](Trial& t) {
         t.connect({.receives = 0, .rnr_retry = 7});
         not_ready(t, 9);
         t.note(std::to_string(t.stranger.take_packets().size()) + " times");
     },
     "9 times"},
    {"Q38", "9.7.5.2.8", "An RNR NAK acknowledges the request before the one it names.",
     [](Trial& t) {
         sent(t);
         sent(t, PIB_HCA_WQE_SEND);
         t.reply(kAcknowledge, 1, kRnr | 1, 1);
     },
     "completed"},
    {"Q39", "9.7.6.1.3", "Without an answer the request is sent again after the timeout.",
     [](Trial& t) {
         t.connect({.receives = 0, .timeout = 8});
         sent(t);
         t.wait(5 * kMillisecond);
     },
     "WRITE ONLY 0 8 bytes from 0 ack"},
    {"Q40", "9.7.6.1.3", "The request is not sent again before its timeout (code 8: 1.05 ms).",
     [](Trial& t) {
         t.connect({.receives = 0, .timeout = 8});
         sent(t);
         t.wait(kMillisecond);
     },
     "nothing"},
    {"Q41", "9.9.2.1.1", "A request whose retries are used up fails.",
     [](Trial& t) {
         t.connect({.receives = 0, .timeout = 8, .retry_cnt = 2});
         sent(t);
         t.wait(100 * kMillisecond);
     },
     "WRITE ONLY 0 8 bytes from 0 ack x2; request RETRY_EXC_ERR; Error"},
    {"Q42", "9.7.6.1.3", "With timeout 0 the requester waits without end.",
     [](Trial& t) {
         sent(t);
         t.wait(100'000 * kMillisecond);
     },
     "nothing"},
    {"Q43", "9.9.2.1.1", "An answer in time gives all retries back.",
     [](Trial& t) {
         t.connect({.receives = 0, .timeout = 8, .retry_cnt = 1});
         sent(t);
         sent(t);
         t.wait(5 * kMillisecond);
         t.reply(kAcknowledge, 0, kAck, 1);
         t.seen();
         t.wait(5 * kMillisecond);
     },
     "WRITE ONLY 1 8 bytes from 0 ack"},
    {"Q44", "9.4.4", "READ RESPONSE ONLY completes a READ.",
     [](Trial& t) {
         read_sent(t, 8);
         data(t, kReadOnly, 0, 8);
     },
     "completed; memory 0 to 8"},
    {"Q45", "9.4.4", "FIRST, MIDDLE and LAST complete a READ of three packets.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         data(t, kReadMiddle, 1, kMtu);
         data(t, kReadLast, 2, 952);
     },
     "completed; memory 0 to 3000"},
    {"Q46", "9.7.6.1", "MIDDLE in place of FIRST is a bad response.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadMiddle, 0, kMtu);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q47", "9.7.6.1", "A second FIRST in place of MIDDLE is a bad response.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         t.seen();
         data(t, kReadFirst, 1, kMtu);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q48", "9.7.6.1", "LAST in place of MIDDLE is a bad response.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         t.seen();
         data(t, kReadLast, 1, kMtu);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q49", "9.7.6.1", "MIDDLE in place of LAST is a bad response.",
     [](Trial& t) {
         read_sent(t, 2 * kMtu);
         data(t, kReadFirst, 0, kMtu);
         t.seen();
         data(t, kReadMiddle, 1, kMtu);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q50", "9.7.6.1", "ONLY in answer to a READ of two packets is a bad response.",
     [](Trial& t) {
         read_sent(t, 2 * kMtu);
         data(t, kReadOnly, 0, kMtu);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q51", "9.7.6.1", "FIRST in answer to a READ of one packet is a bad response.",
     [](Trial& t) {
         read_sent(t, 8);
         data(t, kReadFirst, 0, kMtu);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q52", "9.7.6.1", "FIRST of less than the path MTU is a bad response.",
     [](Trial& t) {
         read_sent(t, 2 * kMtu);
         data(t, kReadFirst, 0, kMtu - 4);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q53", "9.7.6.1", "ONLY with a byte less than was asked for is a bad response.",
     [](Trial& t) {
         read_sent(t, 8);
         data(t, kReadOnly, 0, 7);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q54", "9.7.6.1", "ONLY with a byte more than was asked for is a bad response.",
     [](Trial& t) {
         read_sent(t, 8);
         data(t, kReadOnly, 0, 9);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q55", "9.7.6.1", "LAST with a byte less than was asked for is a bad response.",
     [](Trial& t) {
         read_sent(t, kMtu + 8);
         data(t, kReadFirst, 0, kMtu);
         t.seen();
         data(t, kReadLast, 1, 7);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q56", "9.7.5.1.1", "An ACK in place of a READ's response implies that it is lost.",
     [](Trial& t) {
         read_sent(t, 8);
         t.reply(kAcknowledge, 0, kAck, 1);
     },
     "READ REQUEST 0 of 8 bytes at 0x1000 ack"},
    {"Q57", "9.7.5.1.1", "An ACK of a later request implies that the READ's response is lost.",
     [](Trial& t) {
         read_sent(t, 8);
         sent(t);
         t.reply(kAcknowledge, 1, kAck, 2);
     },
     "READ REQUEST 0 of 8 bytes at 0x1000 ack; WRITE ONLY 1 8 bytes from 0 ack"},
    {"Q58", "9.7.5.1.1", "A missing packet of a response lets the requester ask for the rest.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         t.seen();
         data(t, kReadLast, 2, 952);
     },
     "READ REQUEST 1 of 1976 bytes at 0x1400 ack"},
    {"Q59", "9.7.6.1", "The answer to the rest of a READ begins with FIRST.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         data(t, kReadLast, 2, 952);
         t.seen();
         data(t, kReadFirst, 1, kMtu);
         data(t, kReadLast, 2, 952);
     },
     "completed; memory 1024 to 3000"},
    {"Q60", "9.7.5.1.3", "A READ response that has come before is dropped.",
     [](Trial& t) {
         read_sent(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         t.seen();
         data(t, kReadFirst, 0, kMtu);
     },
     "nothing"},
    {"Q61", "9.7.5.1.3", "A READ response without a READ is dropped.",
     [](Trial& t) { data(t, kReadOnly, 0, 8); }, "nothing"},
    {"Q62", "9.9.2.2", "A READ response in answer to a WRITE is a bad response.",
     [](Trial& t) {
         sent(t);
         data(t, kReadOnly, 0, 8);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q63", "9.9.2.2", "An atomic's answer to a WRITE is a bad response.",
     [](Trial& t) {
         sent(t);
         t.reply(kAtomicAck, 0, kAck, 1);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q64", "9.9.2.2", "An atomic's answer to a READ is a bad response.",
     [](Trial& t) {
         read_sent(t, 8);
         t.reply(kAtomicAck, 0, kAck, 1);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q65", "9.9.2.2", "A READ response in answer to an atomic is a bad response.",
     [](Trial& t) {
         sent(t, PIB_HCA_WQE_FETCH_ADD);
         data(t, kReadOnly, 0, 8);
     },
     "request BAD_RESP_ERR; Error"},
    {"Q66", "9.4.5", "An atomic's answer completes it and stores the word's old value.",
     [](Trial& t) {
         sent(t, PIB_HCA_WQE_FETCH_ADD);
         t.reply(kAtomicAck, 0, kAck, 1, [](Packet& p) { p.original = 0x1122334455667788; });
         t.note(t.word(0) == 0x1122334455667788 ? "the number is stored" : "another number");
     },
     "the number is stored; completed; other memory 0 to 8"},
    {"Q67", "9.7.5.1.1", "An ACK in place of an atomic's answer implies that it is lost.",
     [](Trial& t) {
         sent(t, PIB_HCA_WQE_FETCH_ADD);
         t.reply(kAcknowledge, 0, kAck, 1);
     },
     "FETCH ADD 0 ack"},
    {"Q68", "9.7.5.1.1", "The response to a READ completes the WRITE before it.",
     [](Trial& t) {
         sent(t);
         read_sent(t, 8);
         data(t, kReadOnly, 1, 8);
     },
     "completed x2; memory 0 to 8"},
    {"Q69", "9.7.3.2", "No more READs than the connection allows are sent at a time.",
     [](Trial& t) {
         t.connect({.reads = 1, .receives = 0});
         t.post(PIB_HCA_WQE_RDMA_READ, 8);
         t.post(PIB_HCA_WQE_RDMA_READ, 8);
     },
     "READ REQUEST 0 of 8 bytes at 0x1000 ack"},
    {"Q70", "9.7.3.2", "The next READ is sent when the one before has its response.",
     [](Trial& t) {
         t.connect({.reads = 1, .receives = 0});
         read_sent(t, 8);
         read_sent(t, 8);
         data(t, kReadOnly, 0, 8);
     },
     "READ REQUEST 1 of 8 bytes at 0x1000 ack; completed; memory 0 to 8"},
    {"Q71", "9.6.1.2", "An ACK from another LID than the path's is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, kAck, 1, [](Packet& p) { p.slid = 3; });
     },
     "nothing"},
    {"Q72", "10.9.3", "An ACK with a P_Key of another partition is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, kAck, 1, [](Packet& p) { p.pkey = 0x8123; });
     },
     "nothing"},
    {"Q73", "9.7.6.1", "An ACK that brings data is dropped.",
     [](Trial& t) {
         sent(t);
         t.reply(kAcknowledge, 0, kAck, 1, [&](Packet& p) { p.payload = t.payload(4); });
     },
     "nothing"},
    {"Q74", "10.3.1.5", "A QP in SQD takes the ACK of its sent packets.",
     [](Trial& t) {
         sent(t);
         t.set_state(PIB_HCA_QPS_SQD);
         t.reply(kAcknowledge, 0, kAck, 1);
     },
     "completed"},
    {"Q75", "10.3.1.5", "A QP in SQD sends no new request.",
     [](Trial& t) {
         t.set_state(PIB_HCA_QPS_SQD);
         t.post(PIB_HCA_WQE_SEND, 8);
     },
     "nothing"},
    {"Q76", "10.3.1.7", "A QP in Error flushes posted requests.",
     [](Trial& t) {
         t.set_state(PIB_HCA_QPS_ERR);
         t.post(PIB_HCA_WQE_SEND, 8);
     },
     "request flushed"},
    {"Q77", "9.6.1.2.3", "A path with a GRH sends it, with the path's GIDs.",
     [](Trial& t) {
         t.connect({.receives = 0, .grh = true});
         t.post(PIB_HCA_WQE_SEND, 8);
         const Packet p = t.stranger.take_packets()[0];
         t.note(p.grh && p.grh->version == 6 && p.grh->next_header == 0x1b &&
                        p.grh->dgid[15] == Trial::kStrangerLid && p.grh->sgid[15] == 1 &&
                        p.grh->payload_length == 12 + 8 + 4 && p.grh->hop_limit == 1
                    ? "right GRH"
                    : "wrong GRH");
     },
     "right GRH"},
    {"Q78", "10.8.3.3", "A fenced request waits for the READ before it.",
     [](Trial& t) {
         read_sent(t, 8);
         hca::test::SendWr wr{.flags = PIB_HCA_WQE_SIGNALED | PIB_HCA_WQE_FENCE};
         t.post_send(wr);
         t.note(t.seen());
         data(t, kReadOnly, 0, 8);
     },
     "nothing; SEND ONLY 1 0 bytes ack; completed; memory 0 to 8"},
};

}  // namespace

CheckTable requester_checks() {
    return {"RC requester", prepare, kChecks};
}

}  // namespace pib::conformance
