// SPDX-License-Identifier: GPL-2.0-or-later
// Management datagrams as the conformance peer writes them (IBA 13.4, 14.2.1, 16.1).
#pragma once

#include "packet.h"

namespace pib::conformance {

enum class Method : uint8_t {
    kGet = 0x01,
    kSet = 0x02,
    kGetResp = 0x81,
    kTrap = 5,
    kTrapRepress = 7
};
enum class MadClass : uint8_t {
    kSubnLid = 0x01,
    kSubnAdm = 0x03,
    kPerf = 0x04,
    kSubnDirected = 0x81
};

namespace attribute {
constexpr uint16_t kClassPortInfo = 0x0001;
constexpr uint16_t kNodeDescription = 0x0010;
constexpr uint16_t kNodeInfo = 0x0011;
constexpr uint16_t kPortCounters = 0x0012;
constexpr uint16_t kGuidInfo = 0x0014;
constexpr uint16_t kPortInfo = 0x0015;
constexpr uint16_t kPKeyTable = 0x0016;
constexpr uint16_t kSlToVl = 0x0017;
constexpr uint16_t kVlArbitration = 0x0018;
constexpr uint16_t kPortCountersExtended = 0x001d;
}  // namespace attribute

constexpr size_t kMadBytes = 256;
constexpr size_t kSmpData = 64;   // offset of the attribute in an SMP
constexpr size_t kPerfData = 64;  // and in a performance MAD
constexpr uint32_t kGsiQKey = 0x80010000;

struct Mad {
    uint8_t base_version = 1;
    MadClass mad_class = MadClass::kSubnDirected;
    uint8_t class_version = 1;
    Method method = Method::kGet;
    uint16_t status = 0;  // with the D bit
    uint8_t hop_pointer = 1;
    uint8_t hop_count = 1;
    uint64_t transaction = 0x1122334455667788;
    uint16_t attribute = attribute::kPortInfo;
    uint32_t modifier = 0;
    uint64_t m_key = 0;
    uint16_t dr_slid = 0xffff;
    uint16_t dr_dlid = 0xffff;
    Bytes data = {};  // from offset 64 on
};

Bytes write(const Mad& mad);
// A directed-route SMP from one hop away, on VL15.
Packet smp_packet(const Mad& mad);
// A MAD to QP1 of a LID.
Packet gmp_packet(const Mad& mad, uint16_t slid, uint16_t dlid);

}  // namespace pib::conformance
