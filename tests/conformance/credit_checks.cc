// SPDX-License-Identifier: GPL-2.0-or-later
// End-to-end credits at the requester of a reliable connection.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint8_t kNoCredits = 0x1f;

void prepare(Trial& t) {
    t.bring_up();
    t.connect({.receives = 0});
}

void posts(Trial& t, pib_hca_wqe_opcode opcode, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        t.post(opcode, 0);
    }
}

// Posts a SEND and acknowledges it with this credit code.
void told(Trial& t, uint8_t code) {
    posts(t, PIB_HCA_WQE_SEND, 1);
    t.reply(kAcknowledge, 0, code, 1);
    t.seen();
}

void sends_after(Trial& t, uint8_t code, unsigned count) {
    told(t, code);
    posts(t, PIB_HCA_WQE_SEND, count);
    t.note(std::to_string(t.stranger.take_packets().size()) + " sent");
}

constexpr Check kChecks[] = {
    {"E01", "9.7.7.2", "Before the first ACK one SEND is sent, as there are no credits yet.",
     [](Trial& t) { posts(t, PIB_HCA_WQE_SEND, 3); }, "SEND ONLY 0 0 bytes ack"},
    {"E02", "9.7.7.2", "WRITEs are not limited by credits.",
     [](Trial& t) { posts(t, PIB_HCA_WQE_RDMA_WRITE, 3); },
     "WRITE ONLY 0 0 bytes ack; WRITE ONLY 1 0 bytes ack; WRITE ONLY 2 0 bytes ack"},
    {"E03", "9.7.7.2", "READs are not limited by credits.",
     [](Trial& t) { posts(t, PIB_HCA_WQE_RDMA_READ, 2); },
     "READ REQUEST 0 of 0 bytes at 0x1000 ack; READ REQUEST 1 of 0 bytes at 0x1000 ack"},
    {"E04", "9.7.7.2", "WRITEs with immediate data are limited by credits.",
     [](Trial& t) { posts(t, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, 3); },
     "WRITE ONLY IMM 0 0 bytes ack"},
    {"E05", "9.7.7.2", "An ACK without credits lifts the limit.",
     [](Trial& t) { sends_after(t, kNoCredits, 5); }, "5 sent"},
    {"E06", "9.7.7.2", "Credit count 0 lets one SEND go, to learn of new credits.",
     [](Trial& t) { sends_after(t, 0, 5); }, "1 sent"},
    {"E07", "9.7.7.2", "Credit count 1 lets two SENDs go.", [](Trial& t) { sends_after(t, 1, 5); },
     "2 sent"},
    {"E08", "9.7.7.2", "Credit code 5, six credits, lets seven SENDs go.",
     [](Trial& t) { sends_after(t, 5, 10); }, "7 sent"},
    {"E09", "9.7.7.2", "The next ACK with credits lets the waiting SENDs go.",
     [](Trial& t) {
         sends_after(t, 0, 3);
         t.seen();
         t.reply(kAcknowledge, 1, 2, 2);
     },
     "SEND ONLY 2 0 bytes ack; SEND ONLY 3 0 bytes ack; completed"},
    {"E10", "9.7.7.2", "The newest ACK that comes again with credits lets more SENDs go.",
     [](Trial& t) {
         sends_after(t, 0, 3);
         t.seen();
         t.reply(kAcknowledge, 0, 1, 1);
     },
     "SEND ONLY 2 0 bytes ack"},
    {"E11", "9.7.7.2", "The newest ACK that comes again without credits lifts the limit.",
     [](Trial& t) {
         sends_after(t, 0, 3);
         t.seen();
         t.reply(kAcknowledge, 0, kNoCredits, 1);
     },
     "SEND ONLY 2 0 bytes ack; SEND ONLY 3 0 bytes ack"},
    {"E12", "9.7.7.2", "An ACK with fewer credits does not take back those before.",
     [](Trial& t) {
         sends_after(t, 2, 1);
         t.seen();
         t.reply(kAcknowledge, 1, 0, 2);
         t.seen();
         posts(t, PIB_HCA_WQE_SEND, 3);
     },
     "SEND ONLY 2 0 bytes ack; SEND ONLY 3 0 bytes ack"},
    {"E13", "9.7.7.2", "The response to a READ has credits, too.",
     [](Trial& t) {
         told(t, 0);
         posts(t, PIB_HCA_WQE_RDMA_READ, 1);
         t.reply(kReadOnly, 1, 2, 2);
         t.seen();
         posts(t, PIB_HCA_WQE_SEND, 5);
         t.note(std::to_string(t.stranger.take_packets().size()) + " sent");
     },
     "3 sent"},
    {"E14", "9.7.7.2", "A WRITE between SENDs takes no credit.",
     [](Trial& t) {
         told(t, 1);
         posts(t, PIB_HCA_WQE_RDMA_WRITE, 1);
         posts(t, PIB_HCA_WQE_SEND, 4);
         t.note(std::to_string(t.stranger.take_packets().size()) + " sent");
     },
     "3 sent"},
    {"E15", "9.7.7.2", "A WRITE after a SEND that waits keeps its order.",
     [](Trial& t) {
         told(t, 0);
         posts(t, PIB_HCA_WQE_SEND, 2);
         posts(t, PIB_HCA_WQE_RDMA_WRITE, 1);
     },
     "SEND ONLY 1 0 bytes ack"},
    {"E16", "9.7.7.2", "A SEND that waits for credits goes when all before it is acknowledged.",
     [](Trial& t) {
         told(t, 0);
         posts(t, PIB_HCA_WQE_SEND, 2);
         t.seen();
         t.reply(kAcknowledge, 1, 0, 2);
     },
     "SEND ONLY 2 0 bytes ack; completed"},
    {"E17", "9.7.7.2", "The SEND beyond the credits is sent again after its RNR NAK.",
     [](Trial& t) {
         sends_after(t, 0, 1);
         t.reply(kAcknowledge, 1, 0x21, 1);
         t.seen();
         t.wait(1'000'000);
     },
     "SEND ONLY 1 0 bytes ack"},
    {"E18", "9.7.7.2", "A retry of SENDs that had credits is not limited.",
     [](Trial& t) {
         sends_after(t, 2, 3);
         t.seen();
         t.reply(kAcknowledge, 1, 0x60, 1);
     },
     "SEND ONLY 1 0 bytes ack; SEND ONLY 2 0 bytes ack; SEND ONLY 3 0 bytes ack"},
    {"E19", "9.7.7.2", "A SEND of several packets goes as a whole with one credit.",
     [](Trial& t) {
         told(t, 0);
         t.post(PIB_HCA_WQE_SEND, 2048);
     },
     "SEND FIRST 1 1024 bytes from 0; SEND LAST 2 1024 bytes from 1024 ack"},
    {"E20", "9.7.7.2", "Credits count on over the wrap of MSN.",
     [](Trial& t) {
         told(t, 0);
         posts(t, PIB_HCA_WQE_SEND, 2);
         t.seen();
         t.reply(kAcknowledge, 1, 0, 0xffffff);
     },
     "SEND ONLY 2 0 bytes ack; completed"},
    {"E21", "9.7.7.2", "Sixteen SENDs to as many receives wait twice: no code says fifteen.",
     [](Trial& t) {
         sends_after(t, 0, 16);
         t.reply(kAcknowledge, 1, 7, 2);
         t.note(std::to_string(t.stranger.take_packets().size()) + " sent");
         t.reply(kAcknowledge, 14, 2, 15);
         t.note(std::to_string(t.stranger.take_packets().size()) + " sent");
     },
     "1 sent; 13 sent; 2 sent; completed x14"},
};

}  // namespace

CheckTable credit_checks() {
    return {"RC requester: end-to-end credits", prepare, kChecks};
}

}  // namespace pib::conformance
