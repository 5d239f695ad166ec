// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a reliable connection: atomics, SEND with Invalidate, FLUSH, ATOMIC WRITE.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint64_t kWordAt = Trial::kPattern;
constexpr std::string_view kInvalid =
    "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error";
constexpr std::string_view kNoAccess =
    "NAK remote access 0 msn 0; receive flushed x4; event access error; Error";

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
    t.set_word(kWordAt, 70);
}

void add(Trial& t, uint32_t psn, uint64_t number) {
    t.send(kFetchAdd, psn, 8, [&](Packet& p) { p.swap_or_add = number; });
}

void swap(Trial& t, uint32_t psn, uint64_t compare, uint64_t number) {
    t.send(kCmpSwap, psn, 8, [&](Packet& p) {
        p.compare = compare;
        p.swap_or_add = number;
    });
}

void note_word(Trial& t) {
    t.note("the word is " + std::to_string(t.word(kWordAt)));
    t.set_word(kWordAt, t.word(kWordAt));
}

void with(Trial& t, uint8_t opcode, const Trial::Change& change) {
    t.send(opcode, 0, 8, change);
}

constexpr Check kChecks[] = {
    {"A01", "9.4.5", "FETCH ADD adds to the word and returns its old value.",
     [](Trial& t) {
         add(t, 0, 5);
         note_word(t);
     },
     "the word is 75; ATOMIC ACK 0 msn 1 value 0x46"},
    {"A02", "9.4.5",
     "CMP SWAP of a word that equals the compare data swaps it and returns the old value.",
     [](Trial& t) {
         swap(t, 0, 70, 9);
         note_word(t);
     },
     "the word is 9; ATOMIC ACK 0 msn 1 value 0x46"},
    {"A03", "9.4.5",
     "CMP SWAP of a word that differs from the compare data leaves it and returns it.",
     [](Trial& t) {
         swap(t, 0, 71, 9);
         note_word(t);
     },
     "the word is 70; ATOMIC ACK 0 msn 1 value 0x46"},
    {"A04", "9.4.5", "FETCH ADD wraps at 2^64.",
     [](Trial& t) {
         add(t, 0, UINT64_MAX);
         note_word(t);
     },
     "the word is 69; ATOMIC ACK 0 msn 1 value 0x46"},
    {"A05", "9.4.5", "A duplicate FETCH ADD returns the first result and adds nothing.",
     [](Trial& t) {
         add(t, 0, 5);
         add(t, 0, 5);
         note_word(t);
     },
     "the word is 75; ATOMIC ACK 0 msn 1 value 0x46 x2"},
    {"A06", "9.4.5", "A duplicate CMP SWAP returns the first result and changes nothing.",
     [](Trial& t) {
         swap(t, 0, 70, 9);
         t.set_word(kWordAt, 70);
         swap(t, 0, 70, 9);
         note_word(t);
     },
     "the word is 70; ATOMIC ACK 0 msn 1 value 0x46 x2"},
    {"A07", "9.4.5", "The results of the last four atomics are kept, one in each resource.",
     [](Trial& t) {
         for (uint32_t i = 0; i < 4; ++i) {
             add(t, i, 1);
         }
         t.seen();
         add(t, 0, 1);
         note_word(t);
     },
     "the word is 74; ATOMIC ACK 0 msn 1 value 0x46"},
    {"A08", "9.4.5", "A duplicate atomic that the responder has forgotten is not executed.",
     [](Trial& t) {
         for (uint32_t i = 0; i < 5; ++i) {
             add(t, i, 1);
         }
         t.seen();
         add(t, 0, 1);
         note_word(t);
     },
     "the word is 75"},
    {"A09", "9.4.5", "FETCH ADD at an address that 8 does not divide is an invalid request.",
     [](Trial& t) { with(t, kFetchAdd, [](Packet& p) { p.va += 4; }); }, kInvalid},
    {"A10", "9.4.5", "CMP SWAP at an address that 8 does not divide is an invalid request.",
     [](Trial& t) { with(t, kCmpSwap, [](Packet& p) { p.va += 1; }); }, kInvalid},
    {"A11", "9.7.4.1.5", "FETCH ADD with an R_Key that does not exist is a remote access error.",
     [](Trial& t) { with(t, kFetchAdd, [](Packet& p) { p.rkey ^= 0x100; }); }, kNoAccess},
    {"A12", "9.7.4.1.5", "CMP SWAP beyond the region is a remote access error.",
     [](Trial& t) {
         with(t, kCmpSwap, [&](Packet& p) { p.va = t.region.addr + Trial::kRegionBytes; });
     },
     kNoAccess},
    {"A13", "9.7.4.1.6", "FETCH ADD that brings data is an invalid request.",
     [](Trial& t) { with(t, kFetchAdd, [&](Packet& p) { p.payload = t.payload(4); }); }, kInvalid},
    {"A14", "9.7.4.1.4", "FETCH ADD to a QP without responder resources is an invalid request.",
     [](Trial& t) {
         t.connect({.reads = 0});
         add(t, 0, 1);
     },
     kInvalid},
    {"A15", "9.7.3.2", "An atomic has one PSN.",
     [](Trial& t) {
         add(t, 0, 0);
         t.send(kWriteOnly, 1, 8);
     },
     "ATOMIC ACK 0 msn 1 value 0x46; ACK 1 msn 2; memory 0 to 8"},
    {"A16", "9.7.4.1.2", "FETCH ADD within a WRITE is an invalid request.",
     [](Trial& t) {
         t.send(kWriteFirst, 0, 1024, [](Packet& p) { p.dma_length = 2048; });
         t.seen();
         add(t, 1, 1);
     },
     "NAK invalid request 1 msn 0; receive flushed x4; event invalid request; Error"},
    {"A17", "A7, 10.6.7",
     "SEND ONLY with Invalidate of a key that does not exist ends the connection.",
     [](Trial& t) { with(t, kSendOnlyInv, [](Packet& p) { p.immediate = 0x12300; }); },
     "receive REM_INV_REQ_ERR; receive flushed x3; memory 0 to 8; Error"},
    {"A18", "A7, 10.6.7", "SEND with Invalidate of a region that is not a fast one ends it, too.",
     [](Trial& t) { with(t, kSendOnlyInv, [&](Packet& p) { p.immediate = t.region.key; }); },
     "receive REM_INV_REQ_ERR; receive flushed x3; memory 0 to 8; Error"},
    {"A19", "A19", "ATOMIC WRITE of 8 bytes is placed and answered by an empty response.",
     [](Trial& t) { t.send(kAtomicWrite, 0, 8); }, "READ ONLY 0 msn 1 0 bytes; memory 0 to 8"},
    {"A20", "A19", "A duplicate ATOMIC WRITE is answered and not executed.",
     [](Trial& t) {
         t.send(kAtomicWrite, 0, 8);
         t.seen();
         t.send(kAtomicWrite, 0, 8);
     },
     "READ ONLY 0 msn 1 0 bytes"},
    {"A21", "A19", "ATOMIC WRITE of 4 bytes is an invalid request.",
     [](Trial& t) { t.send(kAtomicWrite, 0, 4); }, kInvalid},
    {"A22", "A19", "ATOMIC WRITE at an address that 8 does not divide is an invalid request.",
     [](Trial& t) { with(t, kAtomicWrite, [](Packet& p) { p.va += 4; }); }, kInvalid},
    {"A23", "A19", "ATOMIC WRITE with an R_Key that does not exist is a remote access error.",
     [](Trial& t) { with(t, kAtomicWrite, [](Packet& p) { p.rkey ^= 1; }); }, kNoAccess},
    {"A24", "A19", "FLUSH to a QP without the right is an invalid request.",
     [](Trial& t) { t.send(kFlush, 0, 8); }, kInvalid},
    {"A25", "A19", "FLUSH to global visibility of a region without the right is an access error.",
     [](Trial& t) {
         t.connect({.access = PIB_HCA_ACCESS_FLUSH_GLOBAL});
         t.send(kFlush, 0, 8);
     },
     kNoAccess},
    {"A26", "A19", "FLUSH with a placement type of 0 is an invalid request.",
     [](Trial& t) {
         t.connect({.access = PIB_HCA_ACCESS_FLUSH_GLOBAL});
         with(t, kFlush, [](Packet& p) { p.flush_type = 0; });
     },
     kInvalid},
};

}  // namespace

CheckTable rc_atomic_checks() {
    return {"RC responder: atomics, Invalidate, FLUSH, ATOMIC WRITE", prepare, kChecks};
}

}  // namespace pib::conformance
