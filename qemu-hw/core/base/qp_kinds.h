// SPDX-License-Identifier: GPL-2.0-or-later
// Types, states and numbers of queue pairs, and their addresses. The register interface has the
// same numbers (commands/interface_numbers.cc).
#pragma once

#include <array>
#include <cstdint>

namespace pib::hca {

enum class QpType : uint8_t {
    kSmi = 0,
    kGsi = 1,
    kRc = 2,
    kUc = 3,
    kUd = 4,
    kXrcIni = 9,   // requester only
    kXrcTgt = 10,  // responder only
};

enum class QpState : uint8_t {
    kReset = 0,
    kInit = 1,
    kRtr = 2,
    kRts = 3,
    kSqd = 4,
    kSqe = 5,
    kErr = 6,
};

// Lower QPNs are those of SMI and GSI QPs.
inline constexpr uint32_t kFirstQpn = 0x40;

// QPN of a port's SMI or GSI QP. Ports count from 1.
constexpr uint32_t special_qpn(unsigned port, bool is_gsi) {
    return 2 * (port - 1) + (is_gsi ? 1 : 0);
}

// An address vector (IBA vol. 1, 11.2.2.1).
struct AddressVector {
    uint16_t dlid = 0;
    uint8_t sl = 0;
    uint8_t port = 0;           // the port of a datagram's QP; else 0
    uint8_t src_path_bits = 0;  // low LMC bits of the source LID
    uint8_t static_rate = 0;    // PathRecord:Rate; 0: the port's rate
    bool has_grh = false;       // the fields below apply
    uint8_t sgid_index = 0;
    uint32_t flow_label = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    std::array<uint8_t, 16> dgid{};
};

}  // namespace pib::hca
