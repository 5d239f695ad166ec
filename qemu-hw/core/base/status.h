// SPDX-License-Identifier: GPL-2.0-or-later
// Statuses of refusals: command statuses, completion statuses and events of the hardware interface
// as types, so that the compiler rejects mix-ups.
#pragma once

#include <bit>
#include <expected>

#include "pib_hca_hw.h"

namespace pib::hca {

// The interface is little-endian, and the core uses its structures as they are in memory.
static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

using CmdStatus = pib_hca_cmd_status;
using WcStatus = pib_hca_wc_status;
using QpState = pib_hca_qp_state;
using QpType = pib_hca_qp_type;

// A command's value or the status that refuses it.
template <typename T>
using CmdResult = std::expected<T, CmdStatus>;

}  // namespace pib::hca
