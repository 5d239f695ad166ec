// SPDX-License-Identifier: GPL-2.0-or-later
// Headers of packets to a reliable connection, checksums, and which connection a packet belongs to.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

constexpr std::string_view kTaken = "ACK 0 msn 1; received 8; memory 0 to 8";

void prepare(Trial& t) {
    t.bring_up();
    t.connect();
}

void with(Trial& t, const Trial::Change& change) {
    t.send(kSendOnly, 0, 8, change);
}

// Sends a SEND ONLY with flipped bits in byte `at`, which counts from the end if negative.
void damaged(Trial& t, int at, uint8_t bits) {
    Bytes bytes = write(t.request(kSendOnly, 0, 8));
    const size_t index = at >= 0 ? static_cast<size_t>(at) : bytes.size() + static_cast<size_t>(at);
    bytes[index] ^= bits;
    t.put_bytes(bytes);
}

// As damaged(), with a VCRC that matches the damaged bytes.
void damaged_inside(Trial& t, size_t at, uint8_t bits) {
    Bytes bytes = write(t.request(kSendOnly, 0, 8));
    bytes[at] ^= bits;
    const uint16_t sum = vcrc(ByteSpan(bytes).first(bytes.size() - 2));
    bytes[bytes.size() - 2] = static_cast<uint8_t>(sum);
    bytes[bytes.size() - 1] = static_cast<uint8_t>(sum >> 8);
    t.put_bytes(bytes);
}

Gid gid_of(uint64_t low) {
    Gid gid{0xfe, 0x80};
    for (unsigned i = 0; i < 8; ++i) {
        gid[15 - i] = static_cast<uint8_t>(low >> (8 * i));
    }
    return gid;
}

constexpr uint64_t kPortGuid = 0x5254000000000101;

Grh grh_of(uint64_t source, uint64_t destination) {
    return {.sgid = gid_of(source), .dgid = gid_of(destination)};
}

// Sends a packet with this GRH, or without one, to a connection whose path has a GRH.
void with_grh(Trial& t, const std::optional<Grh>& grh) {
    t.connect({.grh = true});
    with(t, [&](Packet& p) { p.grh = grh; });
}

// Sends a packet with the GRH of the path, which `change` has changed.
void with_changed_grh(Trial& t, void (*change)(Grh&)) {
    Grh grh = grh_of(Trial::kStrangerLid, kPortGuid);
    change(grh);
    with_grh(t, grh);
}

constexpr Check kChecks[] = {
    {"H01", "7.8.2", "A packet whose VCRC is wrong is dropped.",
     [](Trial& t) { damaged(t, -1, 1); }, "nothing"},
    {"H02", "7.8.1", "A packet whose ICRC is wrong is dropped, with a right VCRC.",
     [](Trial& t) { damaged_inside(t, 8 + 12 + 8, 1); }, "nothing"},
    {"H03", "7.8.1", "A packet whose payload is damaged is dropped, with a right VCRC.",
     [](Trial& t) { damaged_inside(t, 8 + 12, 0x80); }, "nothing"},
    {"H04", "7.8.1", "A packet whose PSN is damaged is dropped, with a right VCRC.",
     [](Trial& t) { damaged_inside(t, 8 + 11, 1); }, "nothing"},
    {"H05", "7.8.1", "A packet whose DestQP is damaged is dropped, with a right VCRC.",
     [](Trial& t) { damaged_inside(t, 8 + 7, 1); }, "nothing"},
    {"H06", "7.8.1", "A packet whose SLID is damaged is dropped, with a right VCRC.",
     [](Trial& t) { damaged_inside(t, 7, 4); }, "nothing"},
    {"H07", "7.8.1", "The ICRC does not cover LRH:VL, which a switch may change.",
     [](Trial& t) { damaged_inside(t, 0, 0x10); }, kTaken},
    {"H08", "7.8.1", "The ICRC does not cover FECN and BECN, which a switch may change.",
     [](Trial& t) { damaged_inside(t, 8 + 4, 0xc0); }, kTaken},
    {"H09", "7.8.2", "A packet whose LRH is damaged is dropped by its VCRC.",
     [](Trial& t) { damaged(t, 0, 0x10); }, "nothing"},
    {"H10", "7.8", "A packet without checksums is taken where the frame says so.",
     [](Trial& t) { t.stranger.send_packet(write_elided(t.request(kSendOnly, 0, 8)), true); },
     kTaken},
    {"H11", "7.7.2", "A packet with another link version is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.link_version = 1; }); }, "nothing"},
    {"H12", "7.7.5", "A raw packet is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.lnh = 0; }); }, "nothing"},
    {"H13", "7.7.5", "A raw packet with an IPv6 header is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.lnh = 1; }); }, "nothing"},
    {"H14", "7.7.5", "A packet that says it has a GRH and has none is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.lnh = 3; }); }, "nothing"},
    {"H15", "7.7.8", "A packet whose PktLen is a word too small is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.length = 7; }); }, "nothing"},
    {"H16", "7.7.8", "A packet whose PktLen is a word too large is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.length = 9; }); }, "nothing"},
    {"H17", "7.7.6", "A packet to another LID is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dlid = 0x11; }); }, "nothing"},
    {"H18", "7.7.6", "A packet to LID 0 is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dlid = 0; }); }, "nothing"},
    {"H19", "7.7.6", "A packet to the permissive LID is dropped on a data VL.",
     [](Trial& t) { with(t, [](Packet& p) { p.dlid = 0xffff; }); }, "nothing"},
    {"H20", "9.6.1.2", "A packet from another LID than the path's is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.slid = 3; }); }, "nothing"},
    {"H21", "9.6.1.2", "A packet from LID 0 is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.slid = 0; }); }, "nothing"},
    {"H22", "10.5.2", "A packet of a connection to a multicast LID is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dlid = 0xc001; }); }, "nothing"},
    {"H23", "7.6.1", "A packet on a VL that the port does not have is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.vl = 8; }); }, "nothing"},
    {"H24", "9.6.1.5", "A packet of a connection on VL15 is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.vl = 15; }); }, "nothing"},
    {"H25", "7.6.1", "A packet on another VL that the port has is taken.",
     [](Trial& t) { with(t, [](Packet& p) { p.vl = 7; }); }, kTaken},
    {"H26", "7.7.3", "A packet with another SL than the path's is taken.",
     [](Trial& t) { with(t, [](Packet& p) { p.sl = 5; }); }, kTaken},
    {"H27", "9.2.5", "A packet with another transport version is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.transport_version = 1; }); }, "nothing"},
    {"H28", "9.2.4", "A packet with more pad than payload is dropped.",
     [](Trial& t) { t.send(kSendOnly, 0, 0, [](Packet& p) { p.pad = 3; }); }, "nothing"},
    {"H29", "9.6.1.1", "A packet to a QP that does not exist is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dest_qp += 1; }); }, "nothing"},
    {"H30", "9.6.1.1", "A packet of a connection to QP 0 is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dest_qp = 0; }); }, "nothing"},
    {"H31", "9.6.1.1", "A packet of a connection to QP 1 is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dest_qp = 1; }); }, "nothing"},
    {"H32", "10.5.2", "A packet of a connection to QP 0xffffff is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.dest_qp = 0xffffff; }); }, "nothing"},
    {"H33", "9.6.1.1", "A UC packet to an RC QP is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.opcode |= kUc; }); }, "nothing"},
    {"H34", "9.6.1.1", "An RD packet to an RC QP is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.opcode |= kRd; }); }, "nothing"},
    {"H35", "9.6.1.1", "A UD packet to an RC QP is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.opcode |= kUd; }); }, "nothing"},
    {"H36", "9.6.1.1", "An XRC packet to an RC QP is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.opcode |= kXrc; }); }, "nothing"},
    {"H37", "9.6.1.1", "A packet of a reserved service to an RC QP is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.opcode |= 0xc0; }); }, "nothing"},
    {"H38", "10.9.3", "A packet with a P_Key of another partition is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.pkey = 0x8001; }); }, "nothing"},
    {"H39", "10.9.3", "A packet with P_Key 0 is dropped.",
     [](Trial& t) { with(t, [](Packet& p) { p.pkey = 0; }); }, "nothing"},
    {"H40", "10.9.3", "A packet of a limited member is taken by a full member.",
     [](Trial& t) { with(t, [](Packet& p) { p.pkey = 0x7fff; }); }, kTaken},
    {"H41", "9.2.1", "The reserved bits beside AckReq are ignored.",
     [](Trial& t) {
         Bytes bytes = write_elided(t.request(kSendOnly, 0, 8));
         bytes[8 + 8] |= 0x7f;
         t.stranger.send_packet(bytes, true);
     },
     kTaken},
    {"H42", "9.6.1.2.3", "A GRH to the port's GID on a path without GRH is taken.",
     [](Trial& t) { with(t, [](Packet& p) { p.grh = grh_of(Trial::kStrangerLid, kPortGuid); }); },
     kTaken,
     "IBA drops it, as the path has no GRH. Routers add one, and the packet is for this port."},
    {"H43", "9.6.1.2.3", "A GRH to another GID is dropped.",
     [](Trial& t) {
         with(t, [](Packet& p) { p.grh = grh_of(Trial::kStrangerLid, kPortGuid + 1); });
     },
     "nothing"},
    {"H44", "9.6.1.2.3", "The GRH of the path is taken.",
     [](Trial& t) { with_grh(t, grh_of(Trial::kStrangerLid, kPortGuid)); }, kTaken},
    {"H45", "9.6.1.2.3", "A packet without GRH on a path with GRH is dropped.",
     [](Trial& t) { with_grh(t, std::nullopt); }, "nothing"},
    {"H46", "9.6.1.2.3", "A GRH from another GID than the path's is dropped.",
     [](Trial& t) { with_grh(t, grh_of(Trial::kStrangerLid + 1, kPortGuid)); }, "nothing"},
    {"H47", "9.6.1.2.3", "A GRH to another GID than the path's is dropped.",
     [](Trial& t) { with_grh(t, grh_of(Trial::kStrangerLid, kPortGuid + 1)); }, "nothing"},
    {"H48", "8.3.1", "A GRH with another IP version is dropped.",
     [](Trial& t) { with_changed_grh(t, [](Grh& grh) { grh.version = 4; }); }, "nothing"},
    {"H49", "8.3.3", "A GRH whose PayLen is a word too large is dropped.",
     [](Trial& t) { with_changed_grh(t, [](Grh& grh) { grh.payload_length = 12 + 8 + 4 + 4; }); },
     "nothing"},
    {"H50", "8.3.4", "A GRH whose next header is not IBA's is dropped.",
     [](Trial& t) { with_changed_grh(t, [](Grh& grh) { grh.next_header = 0x11; }); }, "nothing"},
    {"H51", "7.8.1", "The ICRC does not cover GRH:HopLmt, TClass and FlowLabel.",
     [](Trial& t) {
         t.connect({.grh = true});
         Bytes bytes = write(t.request(
             kSendOnly, 0, 8, [](Packet& p) { p.grh = grh_of(Trial::kStrangerLid, kPortGuid); }));
         bytes[8 + 7] = 9;
         bytes[8 + 3] = 1;
         const uint16_t sum = vcrc(ByteSpan(bytes).first(bytes.size() - 2));
         bytes[bytes.size() - 2] = static_cast<uint8_t>(sum);
         bytes[bytes.size() - 1] = static_cast<uint8_t>(sum >> 8);
         t.put_bytes(bytes);
     },
     kTaken},
    {"H52", "9.2.3", "A migrated bit of 0 is taken by a QP that has no other path.",
     [](Trial& t) { with(t, [](Packet& p) { p.migrated = false; }); }, kTaken},
};

}  // namespace

CheckTable rc_header_checks() {
    return {"Headers, checksums and addresses", prepare, kChecks};
}

}  // namespace pib::conformance
