// SPDX-License-Identifier: GPL-2.0-or-later
// Checks page lists of the register interface, and converts them to those of the core.
#pragma once

#include "base/verdict.h"
#include "memory/page_list.h"
#include "pib_hca_hw.h"

namespace pib::hca {

inline Verdict check_reserved(const pib_hca_pages& in) {
    return in.reserved == 0 ? CmdStatus::kOk : refuse(Rule::kPagesReserved, in.reserved);
}

// The caller has checked the reserved field of `in`.
inline PageList page_list(const pib_hca_pages& in) {
    return {.root = in.root,
            .page_count = in.page_count,
            .levels = in.levels,
            .log_page_size = in.log_page_size};
}

}  // namespace pib::hca
