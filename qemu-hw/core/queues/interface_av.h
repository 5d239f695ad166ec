// SPDX-License-Identifier: GPL-2.0-or-later
// Converts address vectors of the register interface to those of the core.
#pragma once

#include <algorithm>

#include "base/qp_kinds.h"
#include "pib_hca_hw.h"

namespace pib::hca {

// The caller has checked the reserved fields and flags of `in`.
inline AddressVector address_vector(const pib_hca_av& in) {
    AddressVector av{.dlid = in.dlid,
                     .sl = in.sl,
                     .port = in.port,
                     .src_path_bits = in.src_path_bits,
                     .static_rate = in.static_rate,
                     .has_grh = (in.flags & PIB_HCA_AV_GRH) != 0,
                     .sgid_index = in.sgid_index,
                     .flow_label = in.flow_label,
                     .traffic_class = in.traffic_class,
                     .hop_limit = in.hop_limit};
    std::ranges::copy(in.dgid, av.dgid.begin());
    return av;
}

}  // namespace pib::hca
