// SPDX-License-Identifier: GPL-2.0-or-later
// libibverbs' names of completions' statuses, for reports of the device.
#pragma once

#include <array>

#include "base/name_table.h"
#include "base/status.h"

namespace pib::hca {

// The table has no names of the statuses that the device does not report.
inline constexpr std::array<const char*, 22> kStatusNames = {
    "IBV_WC_SUCCESS",
    "IBV_WC_LOC_LEN_ERR",
    "IBV_WC_LOC_QP_OP_ERR",
    nullptr,
    "IBV_WC_LOC_PROT_ERR",
    "IBV_WC_WR_FLUSH_ERR",
    "IBV_WC_MW_BIND_ERR",
    "IBV_WC_BAD_RESP_ERR",
    nullptr,
    "IBV_WC_REM_INV_REQ_ERR",
    "IBV_WC_REM_ACCESS_ERR",
    "IBV_WC_REM_OP_ERR",
    "IBV_WC_RETRY_EXC_ERR",
    "IBV_WC_RNR_RETRY_EXC_ERR",
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    "IBV_WC_GENERAL_ERR",
};

constexpr const char* status_name(WcStatus status) {
    return name_at(kStatusNames, status);
}

}  // namespace pib::hca
