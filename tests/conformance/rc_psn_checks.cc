// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a reliable connection: PSNs, duplicates, and the order of opcodes.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;
constexpr std::string_view kInvalid =
    "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error";
constexpr std::string_view kInvalidSecond =
    "NAK invalid request 1 msn 0; receive flushed x4; event invalid request; Error";

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
}

void write(Trial& t, uint32_t psn) {
    t.send(kWriteOnly, psn, 0);
}

// Sends the FIRST packet of a message, then a packet with `opcode`.
void behind(Trial& t, uint8_t first, uint8_t opcode, uint32_t bytes) {
    t.send(first, 0, kMtu, [](Packet& p) { p.dma_length = 8192; });
    t.seen();
    t.send(opcode, 1, bytes);
}

void after_two(Trial& t, uint32_t psn) {
    write(t, 0);
    write(t, 1);
    t.seen();
    write(t, psn);
}

constexpr Check kChecks[] = {
    {"P01", "9.7.2", "The first request has the PSN that the QP expects.",
     [](Trial& t) { write(t, 0); }, "ACK 0 msn 1"},
    {"P02", "9.7.5.1.2", "A request one ahead gets a NAK of the PSN that is missing.",
     [](Trial& t) { write(t, 1); }, "NAK sequence 0 msn 0"},
    {"P03", "9.7.5.1.2", "A request at the end of the window ahead gets the NAK, too.",
     [](Trial& t) { write(t, 0x7fffff); }, "NAK sequence 0 msn 0"},
    {"P04", "9.7.5.1.2", "The NAK is sent once, whatever else is ahead.",
     [](Trial& t) {
         write(t, 1);
         write(t, 2);
         write(t, 3);
     },
     "NAK sequence 0 msn 0"},
    {"P05", "9.7.5.1.2", "The missing request is taken, and the next gap gets a NAK again.",
     [](Trial& t) {
         write(t, 1);
         write(t, 0);
         write(t, 2);
     },
     "NAK sequence 0 msn 0; ACK 0 msn 1; NAK sequence 1 msn 1"},
    {"P06", "9.7.5.1.2", "Packets after the gap are not executed.",
     [](Trial& t) { t.send(kSendOnly, 1, 8); }, "NAK sequence 0 msn 0"},
    {"P07", "9.7.5.1.4", "A duplicate WRITE is acknowledged with the newest PSN.",
     [](Trial& t) { after_two(t, 0); }, "ACK 1 msn 2"},
    {"P08", "9.7.5.1.4", "A duplicate of the newest request is acknowledged.",
     [](Trial& t) { after_two(t, 1); }, "ACK 1 msn 2"},
    {"P09", "9.7.5.1.4", "A duplicate SEND takes no second receive and writes nothing.",
     [](Trial& t) {
         t.send(kSendOnly, 0, 8);
         t.seen();
         t.send(kSendOnly, 0, 8);
     },
     "ACK 0 msn 1"},
    {"P10", "9.7.5.1.4", "A duplicate WRITE does not write again.",
     [](Trial& t) {
         t.send(kWriteOnly, 0, 8);
         t.seen();
         t.send(kWriteOnly, 0, 8);
     },
     "ACK 0 msn 1"},
    {"P11", "9.7.5.1.4", "A duplicate within a message does not disturb it.",
     [](Trial& t) {
         const Packet first = t.request(kSendFirst, 0, kMtu);
         t.put(first);
         t.put(first);
         t.send(kSendLast, 1, 8);
     },
     "ACK 0 msn 0 x2; ACK 1 msn 1; received 1032; memory 0 to 1032"},
    {"P12", "9.7.5.1.4", "A request 2^23 PSNs before the expected one is a duplicate.",
     [](Trial& t) { write(t, 0x800000); }, "ACK 16777215 msn 0"},
    {"P13", "9.7.5.1.4", "A duplicate is not checked for its R_Key.",
     [](Trial& t) {
         write(t, 0);
         t.seen();
         t.send(kWriteOnly, 0, 8, [](Packet& p) { p.rkey = 0; });
     },
     "ACK 0 msn 1"},
    {"P14", "9.7.2", "PSNs wrap from 2^24 - 1 to 0.",
     [](Trial& t) {
         t.connect({.psn = 0xffffff});
         write(t, 0);
         write(t, 1);
     },
     "ACK 0 msn 1; ACK 1 msn 2"},
    {"P15", "9.7.2", "A message goes on over the wrap of the PSN.",
     [](Trial& t) {
         t.connect({.psn = 0xffffff});
         t.send(kSendFirst, 0, kMtu);
         t.send(kSendMiddle, 1, kMtu);
         t.send(kSendLast, 2, 4);
     },
     "ACK 0 msn 0; ACK 1 msn 0; ACK 2 msn 1; received 2052; memory 0 to 2052"},
    {"P16", "9.7.2", "A duplicate from before the wrap is known.",
     [](Trial& t) {
         t.connect({.psn = 0xffffff});
         after_two(t, 0);
     },
     "ACK 1 msn 2"},
    {"P17", "9.7.2", "A gap over the wrap gets the NAK of the PSN that is missing.",
     [](Trial& t) {
         t.connect({.psn = 0xffffff});
         write(t, 2);
     },
     "NAK sequence 0 msn 0"},
    {"P18", "9.7.5.1.4", "A duplicate while a gap waits is acknowledged.",
     [](Trial& t) {
         write(t, 0);
         write(t, 2);
         t.seen();
         write(t, 0);
     },
     "ACK 0 msn 1"},
    {"P19", "9.7.4.1.2", "SEND MIDDLE without FIRST is an invalid request.",
     [](Trial& t) { t.send(kSendMiddle, 0, kMtu); }, kInvalid},
    {"P20", "9.7.4.1.2", "SEND LAST without FIRST is an invalid request.",
     [](Trial& t) { t.send(kSendLast, 0, 8); }, kInvalid},
    {"P21", "9.7.4.1.2", "SEND LAST with immediate data without FIRST is an invalid request.",
     [](Trial& t) { t.send(kSendLastImm, 0, 8); }, kInvalid},
    {"P22", "9.7.4.1.2", "SEND LAST with Invalidate without FIRST is an invalid request.",
     [](Trial& t) { t.send(kSendLastInv, 0, 8); }, kInvalid},
    {"P23", "9.7.4.1.2", "WRITE MIDDLE without FIRST is an invalid request.",
     [](Trial& t) { t.send(kWriteMiddle, 0, kMtu); }, kInvalid},
    {"P24", "9.7.4.1.2", "WRITE LAST without FIRST is an invalid request.",
     [](Trial& t) { t.send(kWriteLast, 0, 8); }, kInvalid},
    {"P25", "9.7.4.1.2", "WRITE LAST with immediate data without FIRST is an invalid request.",
     [](Trial& t) { t.send(kWriteLastImm, 0, 8); }, kInvalid},
    {"P26", "9.7.4.1.2", "SEND FIRST after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kSendFirst, kMtu); }, kInvalidSecond},
    {"P27", "9.7.4.1.2", "SEND ONLY after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kSendOnly, 8); }, kInvalidSecond},
    {"P28", "9.7.4.1.2", "SEND ONLY with immediate data after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kSendOnlyImm, 8); }, kInvalidSecond},
    {"P29", "9.7.4.1.2", "WRITE FIRST after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kWriteFirst, kMtu); }, kInvalidSecond},
    {"P30", "9.7.4.1.2", "WRITE MIDDLE after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kWriteMiddle, kMtu); }, kInvalidSecond},
    {"P31", "9.7.4.1.2", "WRITE LAST after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kWriteLast, 8); }, kInvalidSecond},
    {"P32", "9.7.4.1.2", "WRITE ONLY after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kWriteOnly, 8); }, kInvalidSecond},
    {"P33", "9.7.4.1.2", "CMP SWAP after SEND FIRST is an invalid request.",
     [](Trial& t) { behind(t, kSendFirst, kCmpSwap, 8); }, kInvalidSecond},
    {"P34", "9.7.4.1.2", "SEND MIDDLE after WRITE FIRST is an invalid request.",
     [](Trial& t) { behind(t, kWriteFirst, kSendMiddle, kMtu); }, kInvalidSecond},
    {"P35", "9.7.4.1.2", "SEND LAST after WRITE FIRST is an invalid request.",
     [](Trial& t) { behind(t, kWriteFirst, kSendLast, 8); }, kInvalidSecond},
    {"P36", "9.7.4.1.2", "SEND ONLY after WRITE FIRST is an invalid request.",
     [](Trial& t) { behind(t, kWriteFirst, kSendOnly, 8); }, kInvalidSecond},
    {"P37", "9.7.4.1.2", "WRITE FIRST after WRITE FIRST is an invalid request.",
     [](Trial& t) { behind(t, kWriteFirst, kWriteFirst, kMtu); }, kInvalidSecond},
    {"P38", "9.7.4.1.2", "WRITE ONLY after WRITE FIRST is an invalid request.",
     [](Trial& t) { behind(t, kWriteFirst, kWriteOnly, 8); }, kInvalidSecond},
    {"P39", "9.7.4.1.2", "READ REQUEST after WRITE FIRST is an invalid request.",
     [](Trial& t) { behind(t, kWriteFirst, kReadRequest, 8); }, kInvalidSecond},
    {"P40", "9.7.4.1.3", "The reserved opcode 0x15 is an invalid request.",
     [](Trial& t) { t.send(0x15, 0, 8); }, kInvalid},
    {"P41", "9.7.4.1.3", "The reserved opcode 0x18 is an invalid request.",
     [](Trial& t) { t.send(0x18, 0, 8); }, kInvalid},
    {"P42", "9.7.4.1.3", "The reserved opcode 0x1b is an invalid request.",
     [](Trial& t) { t.send(0x1b, 0, 8); }, kInvalid},
    {"P43", "9.7.4.1.3", "The reserved opcode 0x1f is an invalid request.",
     [](Trial& t) { t.send(0x1f, 0, 8); }, kInvalid},
    {"P44", "9.7.4.1.2", "After the invalid request a QP in Error takes no other request.",
     [](Trial& t) {
         t.send(kSendMiddle, 0, kMtu);
         t.seen();
         write(t, 0);
     },
     "nothing"},
    {"P45", "9.7.5.1.2", "An invalid request ahead of a gap gets the NAK of the gap.",
     [](Trial& t) { t.send(kSendMiddle, 1, kMtu); }, "NAK sequence 0 msn 0"},
    {"P46", "9.7.7.1", "MSN counts each message of several packets once.",
     [](Trial& t) {
         for (uint32_t i = 0; i < 3; ++i) {
             t.send(kWriteFirst, 2 * i, kMtu, [](Packet& p) { p.dma_length = kMtu + 4; });
             t.send(kWriteLast, 2 * i + 1, 4);
         }
     },
     "ACK 0 msn 0; ACK 1 msn 1; ACK 2 msn 1; ACK 3 msn 2; ACK 4 msn 2; ACK 5 msn 3; memory 0 to "
     "1028"},
};

}  // namespace

CheckTable rc_psn_checks() {
    return {"RC responder: PSNs, duplicates, order of opcodes", prepare, kChecks};
}

}  // namespace pib::conformance
