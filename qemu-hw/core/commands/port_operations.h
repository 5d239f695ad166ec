// SPDX-License-Identifier: GPL-2.0-or-later
// The commands about ports and about the node as subnet management sees it. The command queue has
// copied the input and checked its length; these functions check the fields. A refused command
// changes nothing.
#pragma once

#include <array>
#include <cstdint>

#include "base/verdict.h"
#include "pib_hca_hw.h"
#include "port/hca_ports.h"

namespace pib::hca {

using PKeyTable = std::array<uint16_t, Limits::kPkeys>;
using GidTable = std::array<std::array<uint8_t, 16>, Limits::kGids>;

// QUERY_PORT, QUERY_PKEYS (0: an empty entry), QUERY_GIDS (all zero: an empty entry). Error:
// BAD_RESOURCE, no such port.
CmdResult<pib_hca_query_port> query_port(HcaPorts& ports, uint32_t port);
CmdResult<PKeyTable> query_pkeys(HcaPorts& ports, uint32_t port);
CmdResult<GidTable> query_gids(HcaPorts& ports, uint32_t port);

// MODIFY_PORT. Errors: BAD_RESOURCE, BAD_RESERVED, or BAD_PARAM for a capability that software may
// not set, or that is both set and cleared.
Verdict modify_port(HcaPorts& ports, uint32_t port, const pib_hca_modify_port& in, uint64_t now_ns);

// MODIFY_DEVICE. Errors: BAD_RESERVED for an unknown bit of the mask or a reserved field that is
// not 0, BAD_PARAM for a GUID of 0.
Verdict modify_device(HcaPorts& ports, const pib_hca_modify_device& in, uint64_t now_ns);

// MAD_IFC. Errors: BAD_RESOURCE, BAD_RESERVED. The MAD is written to the output only with
// RESULT_REPLY.
struct MadIfcReply {
    uint32_t result = PIB_HCA_MAD_RESULT_SUCCESS;
    ib::Mad mad;
    [[nodiscard]] bool has_mad() const { return (result & PIB_HCA_MAD_RESULT_REPLY) != 0; }
};
CmdResult<MadIfcReply> mad_ifc(HcaPorts& ports, uint32_t port, const pib_hca_mad_ifc& in,
                               uint64_t now_ns);

}  // namespace pib::hca
