// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a reliable connection: RDMA READ.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr uint32_t kMtu = Trial::kMtu;
constexpr std::string_view kInvalid =
    "NAK invalid request 0 msn 0; receive flushed x4; event invalid request; Error";
constexpr std::string_view kNoAccess =
    "NAK remote access 0 msn 0; receive flushed x4; event access error; Error";
constexpr std::string_view kThreePackets =
    "READ FIRST 0 msn 1 1024 bytes from 0; READ MIDDLE 1 1024 bytes from 1024; READ LAST 2 msn 1 "
    "952 bytes from 2048";

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
}

void read(Trial& t, uint32_t psn, uint32_t bytes, uint64_t offset = 0) {
    t.send(kReadRequest, psn, bytes, [&](Packet& p) { p.va += offset; });
}

void with(Trial& t, uint32_t bytes, const Trial::Change& change) {
    t.send(kReadRequest, 0, bytes, change);
}

// Sends a READ of three packets, discards its responses, and sends the request again, which
// `change` has changed.
void again(Trial& t, uint32_t psn, uint32_t bytes, const Trial::Change& change) {
    read(t, 0, 3000);
    t.seen();
    t.send(kReadRequest, psn, bytes, change);
}

constexpr Check kChecks[] = {
    {"R01", "9.4.4", "READ of 8 bytes is answered by READ RESPONSE ONLY.",
     [](Trial& t) { read(t, 0, 8); }, "READ ONLY 0 msn 1 8 bytes from 0"},
    {"R02", "9.4.4", "READ of 0 bytes is answered by an empty READ RESPONSE ONLY.",
     [](Trial& t) { read(t, 0, 0); }, "READ ONLY 0 msn 1 0 bytes"},
    {"R03", "9.7.4.1.5", "The R_Key of a READ of 0 bytes is not checked.",
     [](Trial& t) {
         with(t, 0, [](Packet& p) {
             p.rkey = 0;
             p.va = 1;
         });
     },
     "READ ONLY 0 msn 1 0 bytes"},
    {"R04", "9.4.4", "READ of one path MTU is answered by READ RESPONSE ONLY.",
     [](Trial& t) { read(t, 0, kMtu); }, "READ ONLY 0 msn 1 1024 bytes from 0"},
    {"R05", "9.4.4", "READ of a byte more than the path MTU is answered by FIRST and LAST.",
     [](Trial& t) { read(t, 0, kMtu + 1); },
     "READ FIRST 0 msn 1 1024 bytes from 0; READ LAST 1 msn 1 1 bytes"},
    {"R06", "9.4.4", "READ of 3000 bytes is answered by FIRST, MIDDLE and LAST.",
     [](Trial& t) { read(t, 0, 3000); }, kThreePackets},
    {"R07", "9.2.4", "The response of 5 bytes has pad bytes, which are not data.",
     [](Trial& t) { read(t, 0, 5, 8); }, "READ ONLY 0 msn 1 5 bytes from 8"},
    {"R08", "9.4.4", "READ from an odd address returns the bytes from there.",
     [](Trial& t) { read(t, 0, 9, 4093); }, "READ ONLY 0 msn 1 9 bytes from 4093"},
    {"R09", "9.7.3.2", "A READ of three response packets takes three PSNs.",
     [](Trial& t) {
         read(t, 0, 3000);
         t.send(kWriteOnly, 3, 8);
     },
     "READ FIRST 0 msn 1 1024 bytes from 0; READ MIDDLE 1 1024 bytes from 1024; READ LAST 2 msn 1 "
     "952 bytes from 2048; ACK 3 msn 2; memory 0 to 8"},
    {"R10", "9.7.3.2", "A request whose PSN a READ's response has is a duplicate.",
     [](Trial& t) {
         read(t, 0, 3000);
         t.seen();
         t.send(kWriteOnly, 1, 8);
     },
     "ACK 2 msn 1"},
    {"R11", "9.4.4", "READ without AckReq is answered, too.",
     [](Trial& t) { with(t, 8, [](Packet& p) { p.ack = false; }); },
     "READ ONLY 0 msn 1 8 bytes from 0"},
    {"R12", "9.7.5.1.1", "The response to a READ acknowledges the WRITE before it.",
     [](Trial& t) {
         t.send(kWriteOnly, 0, 8, [](Packet& p) { p.ack = false; });
         read(t, 1, 8);
     },
     "READ ONLY 1 msn 2 8 bytes from 0; memory 0 to 8"},
    {"R13", "9.7.4.1.5", "READ with an R_Key that does not exist is a remote access error.",
     [](Trial& t) { with(t, 8, [](Packet& p) { p.rkey = 0x1234500; }); }, kNoAccess},
    {"R14", "9.7.4.1.5", "READ that ends a byte beyond the region is a remote access error.",
     [](Trial& t) { read(t, 0, 8, Trial::kRegionBytes - Trial::kPattern - 7); }, kNoAccess},
    {"R15", "9.7.4.1.5", "READ that ends with the region is answered.",
     [](Trial& t) { read(t, 0, 8, Trial::kRegionBytes - Trial::kPattern - 8); },
     "READ ONLY 0 msn 1 8 bytes from 32760"},
    {"R16", "9.7.4.1.6", "READ with a DMALen beyond 2^31 is an invalid request.",
     [](Trial& t) { with(t, 8, [](Packet& p) { p.dma_length = 0x80000001; }); }, kInvalid},
    {"R17", "9.7.4.1.5", "READ of 2^31 bytes exceeds the region: a remote access error.",
     [](Trial& t) { with(t, 8, [](Packet& p) { p.dma_length = 0x80000000; }); }, kNoAccess},
    {"R18", "9.7.4.1.4", "READ to a QP without responder resources is an invalid request.",
     [](Trial& t) {
         t.connect({.reads = 0});
         read(t, 0, 8);
     },
     kInvalid},
    {"R19", "9.7.4.1.4", "READs one by one, more than the QP has resources, are answered.",
     [](Trial& t) {
         t.connect({.reads = 1});
         read(t, 0, 8);
         read(t, 1, 8, 8);
         read(t, 2, 8, 16);
     },
     "READ ONLY 0 msn 1 8 bytes from 0; READ ONLY 1 msn 2 8 bytes from 8; READ ONLY 2 msn 3 8 "
     "bytes "
     "from 16"},
    {"R20", "9.7.5.1.4", "A duplicate READ is answered again from the beginning.",
     [](Trial& t) { again(t, 0, 3000, {}); }, kThreePackets},
    {"R21", "9.7.5.1.4", "A duplicate READ of the rest is answered by the rest.",
     [](Trial& t) { again(t, 1, 3000 - kMtu, [](Packet& p) { p.va += kMtu; }); },
     "READ FIRST 1 msn 1 1024 bytes from 1024; READ LAST 2 msn 1 952 bytes from 2048"},
    {"R22", "9.7.5.1.4", "A duplicate READ of the last packet is answered by ONLY.",
     [](Trial& t) { again(t, 2, 3000 - 2 * kMtu, [](Packet& p) { p.va += 2 * kMtu; }); },
     "READ ONLY 2 msn 1 952 bytes from 2048"},
    {"R23", "9.7.5.1.4", "A duplicate READ of one packet in the middle is answered by ONLY.",
     [](Trial& t) { again(t, 1, kMtu, [](Packet& p) { p.va += kMtu; }); },
     "READ ONLY 1 msn 1 1024 bytes from 1024"},
    {"R24", "9.7.5.1.4", "A duplicate READ whose address does not fit its PSN is dropped.",
     [](Trial& t) { again(t, 1, 8, {}); }, "nothing"},
    {"R25", "9.7.5.1.4", "A duplicate READ that is longer than the first one is dropped.",
     [](Trial& t) { again(t, 0, 3001, {}); }, "nothing"},
    {"R26", "9.7.5.1.4", "A duplicate READ with another R_Key is dropped.",
     [](Trial& t) { again(t, 0, 8, [](Packet& p) { p.rkey ^= 1; }); }, "nothing"},
    {"R27", "9.7.5.1.4", "A duplicate READ returns the present contents of memory.",
     [](Trial& t) {
         read(t, 0, 8);
         t.set_word(Trial::kPattern, 0x0807060504030201);
         t.seen();
         read(t, 0, 8);
     },
     "READ ONLY 0 msn 1 8 bytes from 0"},
    {"R28", "9.7.5.1.4", "A duplicate READ that the responder has forgotten is dropped.",
     [](Trial& t) {
         t.connect({.reads = 1});
         read(t, 0, 8);
         read(t, 1, 8);
         t.seen();
         read(t, 0, 8);
     },
     "nothing"},
    {"R29", "9.7.5.1.4", "A duplicate READ whose region has gone is a remote access error.",
     [](Trial& t) {
         read(t, 0, 8);
         t.seen();
         t.bench.driver.destroy(PIB_HCA_CMD_DESTROY_MR, t.region.key);
         read(t, 0, 8);
     },
     "NAK remote access 0 msn 1; receive flushed x4; event access error; Error"},
    {"R30", "9.7.4.1.6", "READ request that brings data is an invalid request.",
     [](Trial& t) { with(t, 8, [&](Packet& p) { p.payload = t.payload(8); }); }, kInvalid},
    {"R31", "9.7.4.1.2", "READ request within a SEND is an invalid request.",
     [](Trial& t) {
         t.send(kSendFirst, 0, kMtu);
         t.seen();
         read(t, 1, 8);
     },
     "NAK invalid request 1 msn 0; receive flushed x4; event invalid request; Error"},
    {"R32", "9.7.7.1", "The response to a READ does not count the request after it in MSN.",
     [](Trial& t) {
         t.stranger.send(t.request(kReadRequest, 0, 2 * kMtu));
         t.stranger.send(t.request(kFetchAdd, 2, 8));
         t.settle();
     },
     "READ FIRST 0 msn 1 1024 bytes from 0; READ LAST 1 msn 1 1024 bytes from 1024; ATOMIC ACK 2 "
     "msn 2 value 0xa5004004a5004000"},
    {"R33", "9.5", "SEND, READ and WRITE in one go are answered in the order of their PSNs.",
     [](Trial& t) {
         t.stranger.send(t.request(kSendOnly, 0, 8));
         t.stranger.send(t.request(kReadRequest, 1, 8));
         t.stranger.send(t.request(kWriteOnly, 2, 8));
         t.settle();
     },
     "READ ONLY 1 msn 2 8 bytes from 0; ACK 2 msn 3; received 8; memory 0 to 8"},
};

}  // namespace

CheckTable rc_read_checks() {
    return {"RC responder: READ", prepare, kChecks};
}

}  // namespace pib::conformance
