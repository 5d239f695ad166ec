// SPDX-License-Identifier: GPL-2.0-or-later
// The subnet management agent.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

// PortInfo, from the start of its MAD.
constexpr size_t kLidAt = kSmpData + 16;
constexpr size_t kMKeyBitsAt = kSmpData + 34;
constexpr size_t kGuidCapAt = kSmpData + 50;
constexpr size_t kMKeyViolationsAt = kSmpData + 44;
constexpr uint64_t kKey = 0x1234;

void prepare(Trial& t) {
    t.bring_up();
}

std::string hex(uint64_t number) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (int shift = 12; shift >= 0; shift -= 4) {
        text += kDigits[number >> shift & 0xf];
    }
    return text;
}

// Method and status of the answer.
void note_answer(Trial& t, const Bytes& answer) {
    t.note(answer.size() != kMadBytes
               ? "no answer"
               : (answer[3] == 0x81 ? "GetResp, status " : "another method, status ") +
                     hex(number_at(answer, 4, 2)));
}

void asks(Trial& t, const Mad& mad, const Trial::Change& change = {}) {
    Packet packet = smp_packet(mad);
    if (change) {
        change(packet);
    }
    note_answer(t, t.ask(packet));
}

void gets(Trial& t, uint16_t which, uint32_t modifier = 0) {
    asks(t, {.attribute = which, .modifier = modifier});
}

void sets(Trial& t, uint16_t which, uint32_t modifier) {
    const Bytes now = t.ask(smp_packet({.attribute = which, .modifier = modifier}));
    asks(t, {.method = Method::kSet,
             .attribute = which,
             .modifier = modifier,
             .data = {now.begin() + kSmpData, now.begin() + 2 * kSmpData}});
}

// Sets an M_Key and its protection bits.
void protect(Trial& t, uint8_t bits) {
    t.set_port_info([&](Bytes& info) {
        info[6] = kKey >> 8;
        info[7] = kKey & 0xff;
        info[34] = static_cast<uint8_t>((info[34] & 0x3f) | bits << 6);
    });
}

void shows(Trial& t, uint16_t which, uint32_t modifier, size_t at, unsigned bytes) {
    const Bytes answer = t.ask(smp_packet({.attribute = which, .modifier = modifier}));
    t.note("value " + std::to_string(number_at(answer, at, bytes)));
}

// Sends Set(PortInfo) with the present attribute, in which one byte is replaced.
void sets_byte(Trial& t, size_t at, uint8_t value) {
    Bytes status;
    const Bytes now = t.ask(smp_packet({.attribute = attribute::kPortInfo, .modifier = 1}));
    Mad mad{.method = Method::kSet, .attribute = attribute::kPortInfo, .modifier = 1};
    mad.data.assign(now.begin() + kSmpData, now.begin() + 2 * kSmpData);
    mad.data[32] &= 0xf0;
    mad.data[33] &= 0x0f;
    mad.data[at] = value;
    note_answer(t, t.ask(smp_packet(mad)));
}

Mad lid_routed(uint16_t which) {
    return {.mad_class = MadClass::kSubnLid, .attribute = which};
}

void by_lid(Trial& t, const Mad& mad, const Trial::Change& change = {}) {
    asks(t, mad, [&](Packet& p) {
        p.dlid = Trial::kLid;
        p.slid = Trial::kStrangerLid;
        if (change) {
            change(p);
        }
    });
}

constexpr std::string_view kOk = "GetResp, status 8000";  // with the D bit
constexpr std::string_view kUnsupported = "GetResp, status 800c";
constexpr std::string_view kBadField = "GetResp, status 801c";

constexpr Check kChecks[] = {
    {"M01", "14.2.5.3", "Get(NodeInfo) is answered.",
     [](Trial& t) { gets(t, attribute::kNodeInfo); }, kOk},
    {"M02", "14.2.5.2", "Get(NodeDescription) is answered.",
     [](Trial& t) { gets(t, attribute::kNodeDescription); }, kOk},
    {"M03", "14.2.5.6", "Get(PortInfo) of port 1 is answered.",
     [](Trial& t) { gets(t, attribute::kPortInfo, 1); }, kOk},
    {"M04", "14.2.5.6", "Get(PortInfo) of port 0 is that of the port which it came to.",
     [](Trial& t) { gets(t, attribute::kPortInfo, 0); }, kOk},
    {"M05", "14.2.5.6", "Get(PortInfo) of a port that does not exist has status 7.",
     [](Trial& t) { gets(t, attribute::kPortInfo, 9); }, kBadField},
    {"M06", "14.2.5.7", "Get(P_KeyTable) of block 0 is answered.",
     [](Trial& t) { gets(t, attribute::kPKeyTable); }, kOk},
    {"M07", "14.2.5.7", "Get(P_KeyTable) of a block beyond the table has status 7.",
     [](Trial& t) { gets(t, attribute::kPKeyTable, 0x7ff); }, kBadField},
    {"M08", "14.2.5.5", "Get(GUIDInfo) of block 0 is answered.",
     [](Trial& t) { gets(t, attribute::kGuidInfo); }, kOk},
    {"M09", "14.2.5.5", "Get(GUIDInfo) of a block beyond GUIDCap has status 7.",
     [](Trial& t) { gets(t, attribute::kGuidInfo, 0xff); }, kBadField},
    {"M10", "14.2.5.8", "Get(SLtoVLMappingTable) is answered.",
     [](Trial& t) { gets(t, attribute::kSlToVl); }, kOk},
    {"M11", "14.2.5.9", "Get(VLArbitrationTable) of the first block is answered.",
     [](Trial& t) { gets(t, attribute::kVlArbitration, 1 << 16); }, kOk},
    {"M12", "14.2.5.9", "Get(VLArbitrationTable) of block 0 has status 7.",
     [](Trial& t) { gets(t, attribute::kVlArbitration, 0); }, kBadField},
    {"M13", "14.2.5.4", "Get(SwitchInfo) of an adapter is not supported.",
     [](Trial& t) { gets(t, 0x0012); }, kUnsupported},
    {"M14", "14.2.5.10", "Get(LinearForwardingTable) of an adapter is not supported.",
     [](Trial& t) { gets(t, 0x0019); }, kUnsupported},
    {"M15", "14.2.5.12", "Get(MulticastForwardingTable) of an adapter is not supported.",
     [](Trial& t) { gets(t, 0x001b); }, kUnsupported},
    {"M16", "13.4.7", "Get of an unknown attribute is not supported.",
     [](Trial& t) { gets(t, 0x7777); }, kUnsupported},
    {"M17", "14.2.5", "Set(NodeInfo) is not supported.",
     [](Trial& t) { sets(t, attribute::kNodeInfo, 0); }, kUnsupported},
    {"M18", "14.2.5", "Set(NodeDescription) is not supported.",
     [](Trial& t) { sets(t, attribute::kNodeDescription, 0); }, kUnsupported},
    {"M19", "13.4.7", "A MAD of another base version gets no answer.",
     [](Trial& t) { asks(t, {.base_version = 2, .attribute = attribute::kNodeInfo}); }, "no answer",
     "IBA lists status 1 for it, too. A MAD of an unknown base version has an unknown format, so "
     "that "
     "no header can be written for its answer."},
    {"M20", "13.4.7", "A MAD of another class version has status 1.",
     [](Trial& t) { asks(t, {.class_version = 2, .attribute = attribute::kNodeInfo}); },
     "GetResp, status 8004"},
    {"M21", "13.4.7", "A method that does not exist is not supported.",
     [](Trial& t) {
         asks(t, {.method = static_cast<Method>(0x10), .attribute = attribute::kNodeInfo});
     },
     "GetResp, status 8008"},
    {"M22", "13.4.5", "A GetResp gets no answer.",
     [](Trial& t) { asks(t, {.method = Method::kGetResp, .attribute = attribute::kNodeInfo}); },
     "no answer"},
    {"M23", "14.3.12", "A TrapRepress gets no answer.",
     [](Trial& t) { asks(t, {.method = Method::kTrapRepress, .attribute = 2}); }, "no answer"},
    {"M24", "14.2.2.2", "A directed route whose hop pointer is not at its end is dropped.",
     [](Trial& t) {
         asks(t, {.hop_pointer = 1, .hop_count = 2, .attribute = attribute::kNodeInfo});
     },
     "no answer"},
    {"M25", "14.2.2.2", "A directed route whose hop count exceeds 63 is dropped.",
     [](Trial& t) {
         asks(t, {.hop_pointer = 1, .hop_count = 64, .attribute = attribute::kNodeInfo});
     },
     "no answer"},
    {"M26", "14.2.2.2", "A directed route whose hop pointer is beyond its count is dropped.",
     [](Trial& t) {
         asks(t, {.hop_pointer = 3, .hop_count = 1, .attribute = attribute::kNodeInfo});
     },
     "no answer"},
    {"M27", "14.2.2.4", "A directed request with the D bit is dropped.",
     [](Trial& t) { asks(t, {.status = 0x8000, .attribute = attribute::kNodeInfo}); }, "no answer"},
    {"M28", "14.2.2", "A directed route with a LID-routed part to another LID is dropped.",
     [](Trial& t) { asks(t, {.attribute = attribute::kNodeInfo, .dr_dlid = 5}); }, "no answer"},
    {"M29", "14.2.2", "A LID-routed SMP is answered, without the D bit.",
     [](Trial& t) { by_lid(t, lid_routed(attribute::kNodeInfo)); }, "GetResp, status 0000"},
    {"M30", "14.2.2", "A LID-routed SMP to another LID is dropped.",
     [](Trial& t) {
         by_lid(t, lid_routed(attribute::kNodeInfo), [](Packet& p) { p.dlid = 0x55; });
     },
     "no answer"},
    {"M31", "13.5.1", "An SMP on a data VL is dropped.",
     [](Trial& t) { by_lid(t, lid_routed(attribute::kNodeInfo), [](Packet& p) { p.vl = 0; }); },
     "no answer"},
    {"M32", "13.5.1", "An SMP to QP 1 on VL15 is dropped.",
     [](Trial& t) {
         asks(t, {.attribute = attribute::kNodeInfo}, [](Packet& p) { p.dest_qp = 1; });
     },
     "no answer"},
    {"M33", "10.9.8", "The P_Key of an SMP is not checked.",
     [](Trial& t) {
         asks(t, {.attribute = attribute::kNodeInfo}, [](Packet& p) { p.pkey = 0x1234; });
     },
     kOk},
    {"M34", "13.5.1", "The Q_Key of an SMP is not checked.",
     [](Trial& t) {
         asks(t, {.attribute = attribute::kNodeInfo}, [](Packet& p) { p.qkey = 0x1234; });
     },
     kOk},
    {"M35", "13.4.2", "An SMP of 255 bytes is dropped.",
     [](Trial& t) {
         asks(t, {.attribute = attribute::kNodeInfo}, [](Packet& p) { p.payload.pop_back(); });
     },
     "no answer"},
    {"M36", "13.4.2", "An SMP of 260 bytes is dropped.",
     [](Trial& t) {
         asks(t, {.attribute = attribute::kNodeInfo}, [](Packet& p) { p.payload.resize(260); });
     },
     "no answer"},
    {"M37", "9.8.3", "An SMP whose opcode has immediate data is dropped.",
     [](Trial& t) {
         asks(t, {.attribute = attribute::kNodeInfo},
              [](Packet& p) { p.opcode = kUd | kSendOnlyImm; });
     },
     "no answer"},
    {"M38", "14.2.4", "With an M_Key and protection 0 a Get without it is answered.",
     [](Trial& t) {
         protect(t, 0);
         gets(t, attribute::kPortInfo, 1);
     },
     kOk},
    {"M39", "14.2.4", "With protection 0 the M_Key of Get(PortInfo) is shown.",
     [](Trial& t) {
         protect(t, 0);
         shows(t, attribute::kPortInfo, 1, kSmpData, 8);
     },
     "value 4660"},
    {"M40", "14.2.4", "With protection 1 a Get without M_Key is answered with M_Key 0.",
     [](Trial& t) {
         protect(t, 1);
         shows(t, attribute::kPortInfo, 1, kSmpData, 8);
     },
     "value 0"},
    {"M41", "14.2.4", "With protection 1 a Set without M_Key gets no answer.",
     [](Trial& t) {
         protect(t, 1);
         asks(t, {.method = Method::kSet,
                  .attribute = attribute::kPortInfo,
                  .modifier = 1,
                  .data = Bytes(64)});
     },
     "no answer"},
    {"M42", "14.2.4", "With protection 2 a Get without M_Key gets no answer.",
     [](Trial& t) {
         protect(t, 2);
         gets(t, attribute::kPortInfo, 1);
     },
     "no answer"},
    {"M43", "14.2.4", "With protection 2 a Get with a wrong M_Key gets no answer.",
     [](Trial& t) {
         protect(t, 2);
         asks(t, {.attribute = attribute::kNodeInfo, .m_key = kKey + 1});
     },
     "no answer"},
    {"M44", "14.2.4", "With protection 2 a Get with the M_Key is answered.",
     [](Trial& t) {
         protect(t, 2);
         asks(t, {.attribute = attribute::kNodeInfo, .m_key = kKey});
     },
     kOk},
    {"M45", "14.2.4", "An SMP with a wrong M_Key is counted in M_KeyViolations.",
     [](Trial& t) {
         protect(t, 2);
         asks(t, {.attribute = attribute::kNodeInfo, .m_key = 1});
         const Bytes info =
             t.ask(smp_packet({.attribute = attribute::kPortInfo, .modifier = 1, .m_key = kKey}));
         t.note(std::to_string(number_at(info, kMKeyViolationsAt, 2)) + " counted");
     },
     "no answer; 1 counted"},
    {"M46", "14.2.5.6", "Set(PortInfo) with LID 0xc000, a multicast LID, has status 7.",
     [](Trial& t) { sets_byte(t, 16, 0xc0); }, kBadField},
    {"M47", "14.2.5.6", "Set(PortInfo) changes the LID.",
     [](Trial& t) {
         sets_byte(t, 17, 0x44);
         shows(t, attribute::kPortInfo, 1, kLidAt, 2);
     },
     "GetResp, status 8000; value 68"},
    {"M48", "14.2.5.6", "Set(PortInfo) with NeighborMTU 0 has status 7.",
     [](Trial& t) { sets_byte(t, 36, 0x00); }, kBadField},
    {"M49", "14.2.5.6", "Set(PortInfo) with NeighborMTU 6 has status 7.",
     [](Trial& t) { sets_byte(t, 36, 0x60); }, kBadField},
    {"M50", "14.2.5.6", "Set(PortInfo) with OperationalVLs beyond VLCap has status 7.",
     [](Trial& t) { sets_byte(t, 43, 0x60); }, kBadField},
    {"M51", "14.2.5.6", "Set(PortInfo) from Active to Initialize has status 7.",
     [](Trial& t) { sets_byte(t, 32, 0x02); }, kBadField},
    {"M52", "14.2.5.6", "Set(PortInfo) with PortState 5 has status 7.",
     [](Trial& t) { sets_byte(t, 32, 0x05); }, kBadField},
    {"M53", "14.2.5.6", "Set(PortInfo) takes the port Down, from where it trains again.",
     [](Trial& t) {
         sets_byte(t, 32, 0x01);
         const Bytes info = t.ask(smp_packet({.attribute = attribute::kPortInfo, .modifier = 1}));
         t.note("state " + std::to_string(info[kSmpData + 32] & 0xf));
     },
     "GetResp, status 8000; state 2"},
    {"M54", "14.2.5.6", "Read-only components of Set(PortInfo) are ignored.",
     [](Trial& t) {
         sets_byte(t, 50, 0xff);
         shows(t, attribute::kPortInfo, 1, kGuidCapAt, 1);
     },
     "GetResp, status 8000; value 16"},
    {"M55", "14.2.5.6", "Set(PortInfo) sets the protection bits and LMC.",
     [](Trial& t) {
         sets_byte(t, 34, 0x42);
         shows(t, attribute::kPortInfo, 1, kMKeyBitsAt, 1);
     },
     "GetResp, status 8000; value 66"},
    {"M56", "14.2.5.7", "Set(P_KeyTable) changes the table.",
     [](Trial& t) {
         Bytes keys(64);
         keys[0] = keys[1] = 0xff;
         keys[2] = 0x81;
         keys[3] = 0x23;
         asks(t, {.method = Method::kSet, .attribute = attribute::kPKeyTable, .data = keys});
         shows(t, attribute::kPKeyTable, 0, kSmpData + 2, 2);
     },
     "GetResp, status 8000; value 33059"},
    {"M57", "14.2.5.8", "Set(SLtoVLMappingTable) changes the table.",
     [](Trial& t) {
         asks(t,
              {.method = Method::kSet, .attribute = attribute::kSlToVl, .data = Bytes(64, 0x11)});
         shows(t, attribute::kSlToVl, 0, kSmpData, 1);
     },
     "GetResp, status 8000; value 17"},
    {"M58", "13.4.3", "The answer has the transaction ID, attribute and modifier of the request.",
     [](Trial& t) {
         const Bytes answer = t.ask(smp_packet({.attribute = attribute::kPortInfo, .modifier = 1}));
         t.note(number_at(answer, 8, 8) == 0x1122334455667788 && number_at(answer, 16, 2) == 0x15 &&
                        number_at(answer, 20, 4) == 1 && answer[1] == 0x81
                    ? "the same"
                    : "others");
     },
     "the same"},
    {"M59", "14.2.2.5", "The answer to a directed route leaves with the hop pointer at its count.",
     [](Trial& t) {
         const Bytes answer = t.ask(smp_packet({.attribute = attribute::kNodeInfo}));
         t.note("hop pointer " + std::to_string(answer[6]) + ", hop count " +
                std::to_string(answer[7]));
     },
     "hop pointer 1, hop count 1"},
    {"M60", "14.2.5.3", "NodeInfo says adapter, one port, and the GUIDs.",
     [](Trial& t) {
         const Bytes info = t.ask(smp_packet({.attribute = attribute::kNodeInfo}));
         t.note("type " + std::to_string(info[kSmpData + 2]) + ", ports " +
                std::to_string(info[kSmpData + 3]) + ", node " +
                std::to_string(number_at(info, kSmpData + 12 + 4, 4)) + ", local port " +
                std::to_string(info[kSmpData + 36]));
     },
     "type 1, ports 1, node 256, local port 1"},
};

}  // namespace

CheckTable mad_checks() {
    return {"Subnet management agent", prepare, kChecks};
}

}  // namespace pib::conformance
