// SPDX-License-Identifier: GPL-2.0-or-later
// Link flow control at the device's end: the credits that it uses, and the credits that it grants.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;
constexpr uint8_t kVl = 0;
constexpr uint32_t kBlock = 64;

// Bytes of a WRITE ONLY's packet beside its payload: LRH, BTH, RETH, ICRC, VCRC.
constexpr uint32_t kWriteHeaders = 8 + 12 + 16 + 4 + 2;

// Brings up a link on which the device may send `blocks` blocks.
void granted(Trial& t, uint32_t blocks) {
    t.stranger.grant = blocks;
    t.bring_up();
    t.connect();
}

void grant_more(Trial& t, uint32_t limit) {
    t.stranger.send_credit(kVl, limit);
    t.settle();
}

// Sends packets that use all blocks of the first grant, and notes whether the device has granted
// more than half of them again: it need not grant each block at once.
void flood(Trial& t, const Trial::Change& change) {
    t.bring_up();
    t.connect();
    const uint32_t buffer = t.stranger.granted(kVl);
    uint32_t sent = 0;
    for (uint32_t psn = 0; sent < buffer; ++psn) {
        const Bytes packet = conformance::write(t.request(kWriteOnly, psn, kMtu, change));
        sent += static_cast<uint32_t>((packet.size() + kBlock - 1) / kBlock);
        t.put_bytes(packet);
    }
    t.seen();
    t.note(t.stranger.granted(kVl) - sent > buffer / 2 ? "given back" : "kept");
}

// Payload bytes of a WRITE ONLY whose packet takes exactly `blocks` credit blocks. The count of
// blocks includes the checksums, although they are elided.
uint32_t payload_of_blocks(uint32_t blocks) {
    return blocks * kBlock - kWriteHeaders - (blocks * kBlock - kWriteHeaders) % 4;
}

void write(Trial& t, uint32_t bytes) {
    t.post(PIB_HCA_WQE_RDMA_WRITE, bytes);
}

constexpr Check kChecks[] = {
    {"F01", "7.9.4", "Without credits the device sends no data packet.",
     [](Trial& t) {
         granted(t, 0);
         write(t, 8);
     },
     "nothing"},
    {"F02", "7.9.4", "The first credits let the packet go that has waited.",
     [](Trial& t) {
         granted(t, 0);
         write(t, 8);
         grant_more(t, 1);
     },
     "WRITE ONLY 0 8 bytes from 0 ack"},
    {"F03", "7.9.4", "A packet of 64 bytes takes one block.",
     [](Trial& t) {
         granted(t, 1);
         write(t, payload_of_blocks(1));
     },
     "WRITE ONLY 0 20 bytes from 0 ack"},
    {"F04", "7.9.4", "A packet of more than 64 bytes takes two blocks; one lets it wait.",
     [](Trial& t) {
         granted(t, 1);
         write(t, payload_of_blocks(1) + 4);
     },
     "nothing"},
    {"F05", "7.9.4", "A packet of more than 64 bytes takes two blocks; two let it go.",
     [](Trial& t) {
         granted(t, 2);
         write(t, payload_of_blocks(1) + 4);
     },
     "WRITE ONLY 0 24 bytes from 0 ack"},
    {"F06", "7.9.4", "A message goes as far as credits last.",
     [](Trial& t) {
         granted(t, 17 + 1);
         write(t, 2 * kMtu);
     },
     "WRITE FIRST 0 1024 bytes from 0"},
    {"F07", "link: Credits", "A limit that moves backwards ends the link.",
     [](Trial& t) {
         granted(t, 2);
         grant_more(t, 1);
         t.note(t.bench.host.links[1].closes == 1 ? "closed" : "open");
     },
     "closed"},
    {"F08", "7.9.4", "Credits of another VL do not count.",
     [](Trial& t) {
         granted(t, 0);
         write(t, 8);
         t.stranger.send_credit(1, 100);
     },
     "nothing"},
    {"F09", "7.9", "VL15 needs no credits: an SMP is answered without any.",
     [](Trial& t) {
         t.stranger.grant = 0;
         t.bring_up();
         const Bytes answer = t.ask(smp_packet({.attribute = attribute::kNodeInfo}));
         t.note(answer.size() == kMadBytes ? "answered" : "no answer");
     },
     "answered"},
    {"F10", "7.9.4", "An ACK waits for credits, too.",
     [](Trial& t) {
         granted(t, 0);
         t.send(kWriteOnly, 0, 8);
         t.note(t.seen());
         grant_more(t, 1);
     },
     "memory 0 to 8; ACK 0 msn 1"},
    {"F11", "7.9.4", "The device grants the same credits on each of its VLs.",
     [](Trial& t) {
         t.bring_up();
         bool same = t.stranger.granted(0) > 0;
         for (uint8_t vl = 0; vl < 15; ++vl) {
             same = same && (t.stranger.granted(vl) == 0 ||
                             t.stranger.granted(vl) == t.stranger.granted(0));
         }
         t.note(same ? "the same" : "others");
     },
     "the same"},
    {"F12", "7.9.4", "Packets that are taken give their blocks back.",
     [](Trial& t) { flood(t, {}); }, "given back"},
    {"F13", "7.9.4", "Duplicates give their blocks back.",
     [](Trial& t) { flood(t, [&](Packet& p) { p.psn = t.connection.psn - 1; }); }, "given back"},
    {"F14", "7.9.4", "Packets to a QP that does not exist give their blocks back.",
     [](Trial& t) { flood(t, [](Packet& p) { p.dest_qp += 1; }); }, "given back"},
    {"F15", "7.9.4", "Packets that are malformed give their blocks back.",
     [](Trial& t) { flood(t, [](Packet& p) { p.link_version = 1; }); }, "given back"},
    {"F16", "7.9.4", "Packets to another LID give their blocks back.",
     [](Trial& t) { flood(t, [](Packet& p) { p.dlid = 99; }); }, "given back"},
    {"F17", "link: Link state", "A retraining discards the packet that waits for credits.",
     [](Trial& t) {
         granted(t, 0);
         write(t, 8);
         t.stranger.grant = 100;
         t.stranger.send_link();
         t.settle();
         for (uint8_t vl = 0; vl < Stranger::kVls; ++vl) {
             t.stranger.send_credit(vl, 100);
         }
     },
     "nothing"},
    {"F18", "7.9.4", "A CREDIT for an epoch that is not the newest is ignored.",
     [](Trial& t) {
         granted(t, 0);
         write(t, 8);
         Frame credit{.type = 5, .body = {0, 0}};
         put(credit.body, t.stranger.peer_epoch() + 1u, 2);
         put(credit.body, 100, 4);
         t.put_frame(credit);
     },
     "nothing"},
};

}  // namespace

CheckTable flow_checks() {
    return {"Link: flow control", nullptr, kChecks};
}

}  // namespace pib::conformance
