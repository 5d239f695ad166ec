// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a reliable connection: RDMA WRITE, and the R_Keys of all requests.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;
constexpr uint32_t kTooLong = 0x80000001;
constexpr std::string_view kInvalid =
    "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error";
constexpr std::string_view kInvalidSecond =
    "ACK 0 msn 0; NAK invalid request 1 msn 0; receive flushed x4; event invalid request; memory 0 "
    "to 1024; Error";
constexpr std::string_view kNoAccess =
    "NAK remote access 0 msn 0; receive flushed x4; event access error; Error";

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
}

// Sends a WRITE FIRST of one MTU with DMALen `length`, then `opcode` with `bytes`.
void message(Trial& t, uint32_t length, uint8_t opcode, uint32_t bytes) {
    t.send(kWriteFirst, 0, kMtu, [&](Packet& p) { p.dma_length = length; });
    t.send(opcode, 1, bytes);
}

void with(Trial& t, uint8_t opcode, uint32_t bytes, const Trial::Change& change) {
    t.send(opcode, 0, bytes, change);
}

void with_rights(Trial& t, uint32_t rights, uint8_t opcode) {
    t.connect({.access = rights});
    t.send(opcode, 0, 8);
}

// Sends a request of 8 bytes to a region with these rights.
void to_region(Trial& t, uint32_t rights, uint8_t opcode) {
    const auto mr = t.bench.driver.create_mr(t.bench.pd, 4096, rights);
    t.send(opcode, 0, 8, [&](Packet& p) {
        p.va = mr.addr;
        p.rkey = mr.key;
    });
}

constexpr Check kChecks[] = {
    {"W01", "9.4.3", "WRITE ONLY of 8 bytes is placed and acknowledged; it takes no receive.",
     [](Trial& t) { t.send(kWriteOnly, 0, 8); }, "ACK 0 msn 1; memory 0 to 8"},
    {"W02", "9.4.3", "WRITE ONLY of 0 bytes is acknowledged.",
     [](Trial& t) { t.send(kWriteOnly, 0, 0); }, "ACK 0 msn 1"},
    {"W03", "9.7.4.1.5", "The R_Key of a WRITE of 0 bytes is not checked.",
     [](Trial& t) {
         with(t, kWriteOnly, 0, [](Packet& p) {
             p.rkey = 0;
             p.va = 0;
         });
     },
     "ACK 0 msn 1"},
    {"W04", "9.4.3", "WRITE FIRST, MIDDLE and LAST are one message.",
     [](Trial& t) {
         message(t, 2 * kMtu + 3, kWriteMiddle, kMtu);
         t.send(kWriteLast, 2, 3);
     },
     "ACK 0 msn 0; ACK 1 msn 0; ACK 2 msn 1; memory 0 to 2051"},
    {"W05", "9.4.3", "WRITE ONLY with immediate data takes a receive.",
     [](Trial& t) { t.send(kWriteOnlyImm, 0, 8); },
     "ACK 0 msn 1; received 8 by WRITE imm 0x1020304; memory 0 to 8"},
    {"W06", "9.4.3", "WRITE LAST with immediate data takes a receive.",
     [](Trial& t) { message(t, kMtu + 8, kWriteLastImm, 8); },
     "ACK 0 msn 0; ACK 1 msn 1; received 1032 by WRITE imm 0x1020304; memory 0 to 1032"},
    {"W07", "9.7.4.1.4", "WRITE ONLY with immediate data and without a receive gets an RNR NAK.",
     [](Trial& t) {
         t.connect({.receives = 0});
         t.send(kWriteOnlyImm, 0, 8);
     },
     "RNR NAK 0 timer 1 msn 0"},
    {"W08", "9.7.4.1.4", "WRITE ONLY needs no receive.",
     [](Trial& t) {
         t.connect({.receives = 0});
         t.send(kWriteOnly, 0, 8);
     },
     "ACK 0 msn 1; memory 0 to 8"},
    {"W09", "9.7.4.1.4", "WRITE LAST with immediate data and without a receive gets an RNR NAK.",
     [](Trial& t) {
         t.connect({.receives = 0});
         message(t, kMtu + 8, kWriteLastImm, 8);
     },
     "ACK 0 msn 0; RNR NAK 1 timer 1 msn 0; memory 0 to 1024"},
    {"W10", "9.4.3", "The receive of a WRITE with immediate data need not hold its bytes.",
     [](Trial& t) {
         t.connect({.receives = 1, .receive_bytes = 0});
         t.send(kWriteOnlyImm, 0, 8);
     },
     "ACK 0 msn 1; received 8 by WRITE imm 0x1020304; memory 0 to 8"},
    {"W11", "9.7.4.1.6", "WRITE ONLY that brings a byte more than DMALen is an invalid request.",
     [](Trial& t) { with(t, kWriteOnly, 9, [](Packet& p) { p.dma_length = 8; }); }, kInvalid},
    {"W12", "9.7.4.1.6", "WRITE ONLY that brings a byte less than DMALen is an invalid request.",
     [](Trial& t) { with(t, kWriteOnly, 7, [](Packet& p) { p.dma_length = 8; }); }, kInvalid},
    {"W13", "9.7.4.1.6", "WRITE ONLY with data and DMALen 0 is an invalid request.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.dma_length = 0; }); }, kInvalid},
    {"W14", "9.7.4.1.6", "WRITE FIRST of less than the path MTU is an invalid request.",
     [](Trial& t) { with(t, kWriteFirst, kMtu - 4, [](Packet& p) { p.dma_length = 4096; }); },
     kInvalid},
    {"W15", "9.7.4.1.6", "WRITE FIRST of more than the path MTU is an invalid request.",
     [](Trial& t) { with(t, kWriteFirst, kMtu + 4, [](Packet& p) { p.dma_length = 4096; }); },
     kInvalid},
    {"W16", "9.7.4.1.6", "WRITE FIRST that leaves no byte for LAST is an invalid request.",
     [](Trial& t) { t.send(kWriteFirst, 0, kMtu); }, kInvalid},
    {"W17", "9.7.4.1.6", "WRITE FIRST with a DMALen beyond 2^31 is an invalid request.",
     [](Trial& t) { with(t, kWriteFirst, kMtu, [](Packet& p) { p.dma_length = kTooLong; }); },
     kInvalid},
    {"W18", "9.7.4.1.6", "WRITE MIDDLE of less than the path MTU is an invalid request.",
     [](Trial& t) { message(t, 4096, kWriteMiddle, kMtu - 4); }, kInvalidSecond},
    {"W19", "9.7.4.1.6", "WRITE MIDDLE that leaves no byte for LAST is an invalid request.",
     [](Trial& t) { message(t, 2 * kMtu, kWriteMiddle, kMtu); }, kInvalidSecond},
    {"W20", "9.7.4.1.6", "WRITE LAST that brings a byte less than DMALen is an invalid request.",
     [](Trial& t) { message(t, kMtu + 8, kWriteLast, 7); }, kInvalidSecond},
    {"W21", "9.7.4.1.6", "WRITE LAST that brings a byte more than DMALen is an invalid request.",
     [](Trial& t) { message(t, kMtu + 8, kWriteLast, 9); }, kInvalidSecond},
    {"W22", "9.7.4.1.6", "WRITE LAST of 0 bytes is an invalid request.",
     [](Trial& t) { message(t, kMtu + 8, kWriteLast, 0); }, kInvalidSecond},
    {"W23", "9.7.4.1.5", "An R_Key that does not exist is a remote access error.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.rkey = 0xdeadbe00; }); }, kNoAccess},
    {"W24", "9.7.4.1.5", "R_Key 0 is a remote access error.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.rkey = 0; }); }, kNoAccess},
    {"W25", "9.7.4.1.5", "An R_Key with a different low byte is a remote access error.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.rkey ^= 1; }); }, kNoAccess},
    {"W26", "9.7.4.1.5", "An R_Key that has been destroyed is a remote access error.",
     [](Trial& t) {
         t.bench.driver.destroy(PIB_HCA_CMD_DESTROY_MR, t.region.key);
         t.send(kWriteOnly, 0, 8);
     },
     kNoAccess},
    {"W27", "9.7.4.1.5", "A WRITE that begins below the region is a remote access error.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.va -= 1; }); }, kNoAccess},
    {"W28", "9.7.4.1.5", "A WRITE that ends a byte beyond the region is a remote access error.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.va += Trial::kRegionBytes - 7; }); },
     kNoAccess},
    {"W29", "9.7.4.1.5", "A WRITE that ends with the region is taken.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.va += Trial::kRegionBytes - 8; }); },
     "ACK 0 msn 1; memory 49144 to 49152"},
    {"W30", "9.7.4.1.5", "A WRITE whose end exceeds 2^64 is a remote access error.",
     [](Trial& t) { with(t, kWriteOnly, 8, [](Packet& p) { p.va = UINT64_MAX - 3; }); }, kNoAccess},
    {"W31", "9.7.4.1.5",
     "WRITE FIRST is refused when DMALen exceeds the region; no byte is written.",
     [](Trial& t) { with(t, kWriteFirst, kMtu, [](Packet& p) { p.dma_length = 0x10000; }); },
     kNoAccess},
    {"W32", "9.7.4.1.5", "A region of another protection domain is a remote access error.",
     [](Trial& t) {
         const uint32_t pd = t.bench.driver.alloc_pd();
         const auto mr = t.bench.driver.create_mr(
             pd, 4096, PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE);
         with(t, kWriteOnly, 8, [&](Packet& p) {
             p.va = mr.addr;
             p.rkey = mr.key;
         });
     },
     kNoAccess},
    {"W33", "9.7.4.1.5", "WRITE to a region without remote write is a remote access error.",
     [](Trial& t) {
         to_region(t, PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_READ, kWriteOnly);
     },
     kNoAccess},
    {"W34", "9.7.4.1.5", "READ of a region without remote read is a remote access error.",
     [](Trial& t) {
         to_region(t, PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE, kReadRequest);
     },
     kNoAccess},
    {"W35", "9.7.4.1.5", "FETCH ADD on a region without remote atomic is a remote access error.",
     [](Trial& t) {
         to_region(
             t,
             PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE | PIB_HCA_ACCESS_REMOTE_READ,
             kFetchAdd);
     },
     kNoAccess},
    {"W36", "9.7.4.1.3", "WRITE to a QP without remote write is an invalid request.",
     [](Trial& t) { with_rights(t, PIB_HCA_ACCESS_REMOTE_READ, kWriteOnly); }, kInvalid},
    {"W37", "9.7.4.1.3", "READ from a QP without remote read is an invalid request.",
     [](Trial& t) { with_rights(t, PIB_HCA_ACCESS_REMOTE_WRITE, kReadRequest); }, kInvalid},
    {"W38", "9.7.4.1.3", "FETCH ADD to a QP without remote atomic is an invalid request.",
     [](Trial& t) { with_rights(t, PIB_HCA_ACCESS_REMOTE_WRITE, kFetchAdd); }, kInvalid},
    {"W39", "9.7.4.1.3", "CMP SWAP to a QP without remote atomic is an invalid request.",
     [](Trial& t) { with_rights(t, PIB_HCA_ACCESS_REMOTE_READ, kCmpSwap); }, kInvalid},
    {"W40", "9.7.4.1.3", "SEND to a QP without any remote right is taken.",
     [](Trial& t) { with_rights(t, 0, kSendOnly); }, "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"W41", "9.2.2", "The solicited event of WRITE with immediate data marks the completion.",
     [](Trial& t) { with(t, kWriteOnlyImm, 8, [](Packet& p) { p.solicited = true; }); },
     "ACK 0 msn 1; received 8 by WRITE imm 0x1020304 solicited; memory 0 to 8"},
    {"W42", "9.7.5.1.1", "One ACK answers a WRITE of three packets, of which the last one asks.",
     [](Trial& t) {
         const auto quiet = [](Packet& p) {
             p.ack = false;
             p.dma_length = 2 * kMtu + 8;
         };
         t.send(kWriteFirst, 0, kMtu, quiet);
         t.send(kWriteMiddle, 1, kMtu, quiet);
         t.send(kWriteLast, 2, 8);
     },
     "ACK 2 msn 1; memory 0 to 2056"},
    {"W43", "9.7.4.1.5", "A WRITE to an address in the middle of a page goes there.",
     [](Trial& t) { with(t, kWriteOnly, 5, [](Packet& p) { p.va += 4093; }); },
     "ACK 0 msn 1; memory 4093 to 4098"},
};

}  // namespace

CheckTable rc_write_checks() {
    return {"RC responder: WRITE and R_Keys", prepare, kChecks};
}

}  // namespace pib::conformance
