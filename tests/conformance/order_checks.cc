// SPDX-License-Identifier: GPL-2.0-or-later
// Both ends of a reliable connection: several packets that arrive before the QP can answer the
// first one, and ACKs and NAKs in place of responses to a READ.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;
constexpr uint8_t kAck = 0x1f;  // without credits
constexpr uint8_t kRnr = 0x20;
constexpr uint8_t kNak = 0x60;
constexpr uint8_t kAccess = 2;  // NAK codes
constexpr uint64_t kMillisecond = 1'000'000;

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
}

// Queues a request; settle() carries all of them at once.
void queue(Trial& t, uint8_t opcode, uint32_t psn, uint32_t bytes,
           const Trial::Change& change = {}) {
    t.stranger.send(t.request(opcode, psn, bytes, change));
}

void three_packets(Trial& t) {
    queue(t, kReadRequest, 0, 3000);
}

void post_read(Trial& t, uint32_t bytes) {
    t.post(PIB_HCA_WQE_RDMA_READ, bytes);
    t.seen();
}

void data(Trial& t, uint8_t opcode, uint32_t psn, uint32_t bytes) {
    t.reply(opcode, psn, kAck, 1, [&](Packet& p) { p.payload = t.payload(bytes); });
}

constexpr Check kChecks[] = {
    {"O01", "9.7.5.1.1", "The NAK of a WRITE follows the response to the READ before it.",
     [](Trial& t) {
         three_packets(t);
         queue(t, kWriteOnly, 3, 8, [](Packet& p) { p.rkey ^= 1; });
     },
     "READ FIRST 0 msn 1 1024 bytes from 0; READ MIDDLE 1 1024 bytes from 1024; READ LAST 2 msn 1 "
     "952 bytes from 2048; NAK remote access 3 msn 1; receive flushed x4; event access error; "
     "Error"},
    {"O02", "9.7.5.1.1", "The NAK of a gap follows the response to the READ before it.",
     [](Trial& t) {
         three_packets(t);
         queue(t, kSendOnly, 5, 8);
     },
     "READ FIRST 0 msn 1 1024 bytes from 0; READ MIDDLE 1 1024 bytes from 1024; READ LAST 2 msn 1 "
     "952 bytes from 2048; NAK sequence 3 msn 1"},
    {"O03", "9.7.5.1.1", "The RNR NAK of a SEND follows the response to the READ before it.",
     [](Trial& t) {
         t.connect({.receives = 0});
         three_packets(t);
         queue(t, kSendOnly, 3, 8);
     },
     "READ FIRST 0 msn 1 1024 bytes from 0; READ MIDDLE 1 1024 bytes from 1024; READ LAST 2 msn 1 "
     "952 bytes from 2048; RNR NAK 3 timer 1 msn 1"},
    {"O04", "9.7.4.1.4", "READs in one go, more than the QP has resources, are an invalid request.",
     [](Trial& t) {
         t.connect({.reads = 1});
         queue(t, kReadRequest, 0, 8);
         queue(t, kReadRequest, 1, 8);
     },
     "READ ONLY 0 msn 1 8 bytes from 0; NAK invalid request 1 msn 1; receive flushed x4; event "
     "invalid request; Error"},
    {"O05", "9.7.5.1.4", "A duplicate READ and a new one in one go are answered in order.",
     [](Trial& t) {
         t.send(kReadRequest, 0, 8);
         t.seen();
         queue(t, kReadRequest, 1, 16);
         queue(t, kReadRequest, 0, 8);
     },
     "READ ONLY 0 msn 1 8 bytes from 0; READ ONLY 1 msn 2 16 bytes from 0"},
    {"O06", "9.7.5.1.4", "A duplicate of a SEND before a READ is acknowledged after the response.",
     [](Trial& t) {
         t.send(kSendOnly, 0, 8);
         t.seen();
         queue(t, kReadRequest, 1, 8);
         queue(t, kSendOnly, 0, 8);
     },
     "READ ONLY 1 msn 2 8 bytes from 0; ACK 1 msn 2"},
    {"O07", "9.7.5.1.4", "A duplicate WRITE with immediate data takes no second receive.",
     [](Trial& t) {
         t.send(kWriteOnlyImm, 0, 8);
         t.seen();
         t.send(kWriteOnlyImm, 0, 8);
     },
     "ACK 0 msn 1"},
    {"O08", "9.7.5.2.8", "Another request with the PSN of an RNR NAK is taken.",
     [](Trial& t) {
         t.connect({.receives = 0});
         t.send(kSendOnly, 0, 8);
         t.send(kWriteOnly, 0, 8);
     },
     "RNR NAK 0 timer 1 msn 0; ACK 0 msn 1; memory 0 to 8"},
    {"O09", "9.7.5.1.2", "The missing request and the one after it in one go get one ACK.",
     [](Trial& t) {
         t.send(kSendOnly, 1, 8);
         t.note(t.seen());
         queue(t, kSendOnly, 0, 8);
         queue(t, kSendOnly, 1, 8);
     },
     "NAK sequence 0 msn 0; ACK 1 msn 2; received 8 x2; memory 0 to 8; memory 4096 to 4104"},
    {"O10", "9.7.5.1.2", "A gap and the missing request in one go get an ACK, and no NAK.",
     [](Trial& t) {
         queue(t, kSendOnly, 1, 8);
         queue(t, kSendOnly, 0, 8);
     },
     "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"O11", "9.4.5", "A duplicate FETCH ADD with the PSN of a READ is dropped.",
     [](Trial& t) {
         t.send(kReadRequest, 0, 8);
         t.seen();
         t.send(kFetchAdd, 0, 8);
     },
     "nothing"},
    {"O12", "9.7.5.1.4", "A duplicate READ with the PSN of a FETCH ADD is dropped.",
     [](Trial& t) {
         t.send(kFetchAdd, 0, 8);
         t.seen();
         t.send(kReadRequest, 0, 8);
     },
     "nothing"},
    {"O13", "9.7.5.1.4", "A duplicate while a message goes on does not end it.",
     [](Trial& t) {
         t.send(kReadRequest, 0, 8);
         t.send(kSendFirst, 1, kMtu);
         t.seen();
         t.send(kReadRequest, 0, 8);
         t.send(kSendLast, 2, 8);
     },
     "READ ONLY 0 msn 1 8 bytes from 0; ACK 2 msn 2; received 1032; memory 1024 to 1032"},
    {"O14", "9.7.5.2.3", "A NAK in place of a READ's second response fails the READ.",
     [](Trial& t) {
         t.connect({.receives = 0});
         post_read(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         t.reply(kAcknowledge, 1, kNak | kAccess, 0);
     },
     "request REM_ACCESS_ERR; memory 0 to 1024; Error"},
    {"O15", "9.7.5.1.1", "A NAK of a READ's second response implies that the first one is lost.",
     [](Trial& t) {
         t.connect({.receives = 0});
         post_read(t, 3000);
         t.reply(kAcknowledge, 1, kNak | kAccess, 0);
     },
     "READ REQUEST 0 of 3000 bytes at 0x1000 ack"},
    {"O16", "9.7.5.2.1", "A NAK sequence error within a READ lets the rest be asked for.",
     [](Trial& t) {
         t.connect({.receives = 0});
         post_read(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         t.reply(kAcknowledge, 1, kNak, 0);
     },
     "READ REQUEST 1 of 1976 bytes at 0x1400 ack; memory 0 to 1024"},
    {"O17", "9.7.5.2.8", "A READ that gets an RNR NAK is sent again after the timer.",
     [](Trial& t) {
         post_read(t, 8);
         t.reply(kAcknowledge, 0, kRnr | 1, 0);
         t.note(t.seen());
         t.wait(kMillisecond);
     },
     "nothing; READ REQUEST 0 of 8 bytes at 0x1000 ack"},
    {"O18", "9.7.5.1.1", "An ACK within a READ implies that its responses are lost.",
     [](Trial& t) {
         t.connect({.receives = 0});
         post_read(t, 3000);
         t.reply(kAcknowledge, 1, kAck, 1);
     },
     "READ REQUEST 0 of 3000 bytes at 0x1000 ack"},
    {"O19", "9.7.5.1.1", "An ACK in place of a READ's last response lets it be asked for.",
     [](Trial& t) {
         t.connect({.receives = 0});
         post_read(t, 3000);
         data(t, kReadFirst, 0, kMtu);
         data(t, kReadMiddle, 1, kMtu);
         t.seen();
         t.reply(kAcknowledge, 2, kAck, 1);
     },
     "READ REQUEST 2 of 952 bytes at 0x1800 ack"},
    {"O20", "9.7.5.2.8", "An ACK of all requests ends the wait for a receiver that is not ready.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_SEND, 8);
         t.reply(kAcknowledge, 0, kAck, 1);  // the receiver counts no credits
         for (int i = 0; i < 3; ++i) {
             t.post(PIB_HCA_WQE_SEND, 8);
         }
         t.seen();
         t.reply(kAcknowledge, 1, kRnr | 1, 1);
         t.reply(kAcknowledge, 3, kAck, 4);
         t.note(t.seen());
         t.wait(kMillisecond);
     },
     "completed x3"},
    {"O21", "9.7.6.1", "A READ response of more than the path MTU is a bad response.",
     [](Trial& t) {
         t.connect({.receives = 0});
         post_read(t, 3000);
         data(t, kReadFirst, 0, kMtu + 4);
     },
     "request BAD_RESP_ERR; Error"},
    {"O22", "9.7.5.1.1", "A NAK of the READ behind a WRITE completes the WRITE.",
     [](Trial& t) {
         t.connect({.receives = 0});
         t.post(PIB_HCA_WQE_RDMA_WRITE, 8);
         post_read(t, 8);
         t.reply(kAcknowledge, 1, kNak | kAccess, 1);
     },
     "completed; request REM_ACCESS_ERR; Error"},
    {"O23", "9.7.6.1", "An atomic's answer that brings data is dropped.",
     [](Trial& t) {
         t.post(PIB_HCA_WQE_FETCH_ADD, 8);
         t.seen();
         t.reply(kAtomicAck, 0, kAck, 1, [&](Packet& p) { p.payload = t.payload(4); });
     },
     "nothing"},
};

}  // namespace

CheckTable order_checks() {
    return {"RC: packets at once, and answers within a READ", prepare, kChecks};
}

}  // namespace pib::conformance
