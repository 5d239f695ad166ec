// SPDX-License-Identifier: GPL-2.0-or-later
// Queries of the PMA, which may ask for the counters of any port of the HCA.
#pragma once

#include <cstdint>
#include <optional>

#include "ib/wire/mad.h"

namespace pib::hca {

class HcaPorts;

// Adds the time of current waits to the counters of all ports (ib::XmitWait). Call this before the
// PMA reads these counters.
void count_waits(HcaPorts& ports);

// Returns the PMA's response, or nullopt if the request gets none.
[[nodiscard]] std::optional<ib::Mad> answer_pma(HcaPorts& ports, const ib::Mad& request,
                                                uint64_t now_ns);

}  // namespace pib::hca
