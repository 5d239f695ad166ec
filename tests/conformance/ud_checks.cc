// SPDX-License-Identifier: GPL-2.0-or-later
// Datagrams: keys, addresses, groups, and packets that a datagram QP sends.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr std::string_view kTaken = "received 48; memory 40 to 48";
constexpr uint16_t kMlid = 0xc001;
constexpr uint32_t kGroupQp = 0xffffff;
constexpr uint64_t kPortGuid = 0x5254000000000101;
constexpr size_t kPKeyViolationsAt = kSmpData + 46;
constexpr size_t kQKeyViolationsAt = kSmpData + 48;

void prepare(Trial& t) {
    t.bring_up();
    t.connect({.type = PIB_HCA_QP_UD});
}

void ud(Trial& t, uint32_t bytes, const Trial::Change& change = {}) {
    t.send(kUd | kSendOnly, 0, bytes, change);
}

void note_violations(Trial& t) {
    const Bytes info = t.ask(smp_packet({.attribute = attribute::kPortInfo, .modifier = 1}));
    t.note("P_Key " + std::to_string(number_at(info, kPKeyViolationsAt, 2)) + ", Q_Key " +
           std::to_string(number_at(info, kQKeyViolationsAt, 2)) + " violations");
}

Gid group() {
    return {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
}

Grh to_port(uint64_t guid) {
    Grh grh{.sgid = {0xfe, 0x80}, .dgid = {0xfe, 0x80}};
    for (unsigned i = 0; i < 8; ++i) {
        grh.dgid[15 - i] = static_cast<uint8_t>(guid >> (8 * i));
    }
    return grh;
}

void attach(Trial& t) {
    pib_hca_mcast in{.mgid = {}, .mlid = kMlid, .reserved = {}};
    const Gid gid = group();
    std::copy(gid.begin(), gid.end(), in.mgid);
    hca::test::MiniDriver::must(t.bench.driver.command_in(PIB_HCA_CMD_ATTACH_MCAST, t.qp.qpn, in),
                                "ATTACH_MCAST");
}

// Sends a datagram to the group, which `change` has changed.
void to_group(Trial& t, const Trial::Change& change = {}) {
    attach(t);
    ud(t, 8, [&](Packet& p) {
        p.dlid = kMlid;
        p.dest_qp = kGroupQp;
        p.grh = Grh{.sgid = {0xfe, 0x80}, .dgid = group()};
        if (change) {
            change(p);
        }
    });
}

void send(Trial& t, uint32_t bytes, const std::function<void(hca::test::SendWr&)>& change = {}) {
    hca::test::SendWr wr{.dest_qpn = 77, .qkey = 0x5566};
    wr.av.dlid = Trial::kStrangerLid;
    wr.av.port = 1;
    wr.sges = {hca::test::MiniDriver::sge(t.region, Trial::kPattern, bytes)};
    if (change) {
        change(wr);
    }
    t.post_send(wr);
}

constexpr Check kChecks[] = {
    {"D01", "9.8.3",
     "A datagram of 8 bytes is placed after 40 bytes for a GRH; it is not answered.",
     [](Trial& t) { ud(t, 8); }, kTaken},
    {"D02", "9.8.3", "A datagram of 0 bytes takes a receive.", [](Trial& t) { ud(t, 0); },
     "received 40"},
    {"D03", "9.8.3", "Immediate data are handed to the receiver.",
     [](Trial& t) { t.send(kUd | kSendOnlyImm, 0, 8); },
     "received 48 imm 0x1020304; memory 40 to 48"},
    {"D04", "9.8.3", "The PSN of a datagram is not checked.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.psn = 0xabcdef; }); }, kTaken},
    {"D05", "9.2.4", "Pad bytes are not data.", [](Trial& t) { ud(t, 5); },
     "received 45; memory 40 to 45"},
    {"D06", "9.2.2", "The solicited event marks the completion.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.solicited = true; }); },
     "received 48 solicited; memory 40 to 48"},
    {"D07", "10.2.5", "A datagram with another Q_Key is dropped and counted.",
     [](Trial& t) {
         ud(t, 8, [](Packet& p) { p.qkey ^= 1; });
         note_violations(t);
     },
     "P_Key 0, Q_Key 1 violations"},
    {"D08", "10.9.3", "A datagram with a P_Key of another partition is dropped and counted.",
     [](Trial& t) {
         ud(t, 8, [](Packet& p) { p.pkey = 0x8123; });
         note_violations(t);
     },
     "P_Key 1, Q_Key 0 violations"},
    {"D09", "10.9.3", "The P_Key is checked before the Q_Key.",
     [](Trial& t) {
         ud(t, 8, [](Packet& p) {
             p.pkey = 0x8123;
             p.qkey = 0;
         });
         note_violations(t);
     },
     "P_Key 1, Q_Key 0 violations"},
    {"D10", "10.9.3", "A datagram of a limited member is taken by a full member.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.pkey = 0x7fff; }); }, kTaken},
    {"D11", "9.8.3", "SEND FIRST of a datagram is not an opcode and is dropped.",
     [](Trial& t) { t.send(kUd | kSendFirst, 0, 1024); }, "nothing"},
    {"D12", "9.8.3", "WRITE ONLY of a datagram is not an opcode and is dropped.",
     [](Trial& t) { t.send(kUd | kWriteOnly, 0, 8); }, "nothing"},
    {"D13", "9.6.1.1", "An RC packet to a datagram QP is dropped.",
     [](Trial& t) { t.send(kSendOnly, 0, 8); }, "nothing"},
    {"D14", "9.8.3", "A datagram without a receive is dropped.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UD, .receives = 0});
         ud(t, 8);
     },
     "nothing"},
    {"D15", "9.9.3.1", "A datagram longer than its receive is dropped; the receive stays.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UD, .receives = 1, .receive_bytes = 48});
         ud(t, 9);
         t.note(t.seen());
         ud(t, 8);
     },
     "nothing; received 48; memory 40 to 48"},
    {"D16", "9.9.3.1", "A receive whose L_Key is wrong completes with an error and ends the QP.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UD, .receives = 0});
         const pib_hca_sge sge = {.addr = t.region.addr, .length = 64, .lkey = t.region.key ^ 1};
         t.bench.driver.post_recv(t.qp, {&sge, 1});
         ud(t, 8);
     },
     "receive LOC_PROT_ERR; Error"},
    {"D17", "9.8.3", "A datagram may come from any LID.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.slid = 77; }); }, kTaken},
    {"D18", "9.6.1.2.3", "The GRH to the port's GID is taken and stored before the data.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.grh = to_port(kPortGuid); }); },
     "received 48 with GRH; other memory 0 to 1; other memory 5 to 10; other memory 24 to 26; "
     "other "
     "memory 32 to 34; other memory 38 to 48"},
    {"D19", "9.6.1.2.3", "A datagram with a GRH to another GID is dropped.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.grh = to_port(kPortGuid + 1); }); }, "nothing"},
    {"D20", "9.6.1.2.3", "A datagram with a GRH to GID 0 is dropped.",
     [](Trial& t) { ud(t, 8, [](Packet& p) { p.grh = Grh{}; }); }, "nothing"},
    {"D21", "8.3.1", "A datagram with a GRH of IP version 4 is dropped.",
     [](Trial& t) {
         ud(t, 8, [](Packet& p) {
             p.grh = to_port(kPortGuid);
             p.grh->version = 4;
         });
     },
     "nothing"},
    {"D22", "10.5.2", "A datagram to the group reaches its member.",
     [](Trial& t) {
         to_group(t);
         const std::string seen = t.seen();
         t.note(seen.substr(0, seen.find(';')));
     },
     "received 48 with GRH"},
    {"D23", "10.5.2", "A datagram to the group does not reach a QP that is not a member.",
     [](Trial& t) {
         ud(t, 8, [](Packet& p) {
             p.dlid = kMlid;
             p.dest_qp = kGroupQp;
             p.grh = Grh{.sgid = {0xfe, 0x80}, .dgid = group()};
         });
     },
     "nothing"},
    {"D24", "10.5.2", "A datagram to the group's LID and another group's GID is dropped.",
     [](Trial& t) { to_group(t, [](Packet& p) { p.grh->dgid[15] = 2; }); }, "nothing"},
    {"D25", "10.5.2", "A datagram to the group's GID and another group's LID is dropped.",
     [](Trial& t) { to_group(t, [](Packet& p) { p.dlid = kMlid + 1; }); }, "nothing"},
    {"D26", "10.5.2", "A datagram to the group without GRH is dropped.",
     [](Trial& t) { to_group(t, [](Packet& p) { p.grh.reset(); }); }, "nothing"},
    {"D27", "10.5.2", "A datagram to the group's LID with the QP's own number is dropped.",
     [](Trial& t) { to_group(t, [&](Packet& p) { p.dest_qp = t.qp.qpn; }); }, "nothing"},
    {"D28", "10.5.2", "A datagram to the group's GID by the port's own LID is dropped.",
     [](Trial& t) { to_group(t, [](Packet& p) { p.dlid = Trial::kLid; }); }, "nothing"},
    {"D29", "10.5.2", "A datagram to QP 0xffffff by the port's own LID is dropped.",
     [](Trial& t) {
         to_group(t, [](Packet& p) {
             p.dlid = Trial::kLid;
             p.grh.reset();
         });
     },
     "nothing"},
    {"D30", "10.5.2", "A datagram to the group with another Q_Key is dropped and not counted.",
     [](Trial& t) {
         to_group(t, [](Packet& p) { p.qkey ^= 1; });
         note_violations(t);
     },
     "P_Key 0, Q_Key 0 violations"},
    {"D31", "7.7.8", "A datagram of more than 4096 bytes is dropped.",
     [](Trial& t) {
         t.connect({.type = PIB_HCA_QP_UD, .receives = 1, .receive_bytes = 0x2000});
         ud(t, 4100);
     },
     "nothing"},
    {"D32", "9.8.3", "A datagram is sent and completes at once; it asks for no ACK.",
     [](Trial& t) { send(t, 8); }, "SEND ONLY 8 bytes from 0; completed"},
    {"D33", "9.3.2", "Its DETH has the Q_Key of the request and the sender's QPN.",
     [](Trial& t) {
         send(t, 8);
         const Packet p = t.stranger.take_packets()[0];
         t.note(p.qkey == 0x5566 && p.source_qp == t.qp.qpn && p.dest_qp == 77 &&
                        p.opcode == (kUd | kSendOnly)
                    ? "right DETH"
                    : "wrong DETH");
     },
     "right DETH; completed"},
    {"D34", "10.2.5", "A Q_Key with the highest bit set is replaced by the QP's own.",
     [](Trial& t) {
         send(t, 8, [](hca::test::SendWr& wr) { wr.qkey = 0x80000001; });
         t.note(t.stranger.take_packets()[0].qkey == t.connection.qkey ? "own Q_Key" : "another");
     },
     "own Q_Key; completed"},
    {"D35", "9.8.3", "A datagram longer than the MTU fails.", [](Trial& t) { send(t, 4097); },
     "request LOC_LEN_ERR; SQE"},
    {"D36", "9.8.3", "A WRITE that is posted to a datagram QP fails.",
     [](Trial& t) { send(t, 8, [](auto& wr) { wr.opcode = PIB_HCA_WQE_RDMA_WRITE; }); },
     "request LOC_QP_OP_ERR; SQE"},
    {"D37", "10.2.2.2", "An address vector of another port fails.",
     [](Trial& t) { send(t, 8, [](auto& wr) { wr.av.port = 2; }); }, "request LOC_QP_OP_ERR; SQE"},
    {"D38", "9.8.3", "A datagram to LID 0 fails.",
     [](Trial& t) { send(t, 8, [](auto& wr) { wr.av.dlid = 0; }); }, "request LOC_QP_OP_ERR; SQE"},
    {"D39", "10.3.1.6", "A datagram QP in SQE receives.",
     [](Trial& t) {
         send(t, 4097);
         t.seen();
         ud(t, 8);
     },
     kTaken},
    {"D40", "9.2.9", "Each datagram has the next PSN.",
     [](Trial& t) {
         send(t, 8);
         send(t, 8);
         const auto packets = t.stranger.take_packets();
         t.note("PSN + " + std::to_string(packets[1].psn - packets[0].psn));
     },
     "PSN + 1; completed x2"},
};

}  // namespace

CheckTable ud_checks() {
    return {"UD", prepare, kChecks};
}

}  // namespace pib::conformance
