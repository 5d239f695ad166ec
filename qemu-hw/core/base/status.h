// SPDX-License-Identifier: GPL-2.0-or-later
// Statuses of the hardware interface as types, so that the compiler rejects mix-ups: command
// statuses, completion statuses and events.
#pragma once

#include <bit>
#include <expected>

#include "pib_hca_hw.h"

namespace pib::hca {

// The core uses the interface's structures directly, so the host must be little-endian as they are.
static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

using CmdStatus = pib_hca_cmd_status;
using WcStatus = pib_hca_wc_status;
using QpState = pib_hca_qp_state;
using QpType = pib_hca_qp_type;

// A command's value or the status that refuses it.
template <typename T>
using CmdResult = std::expected<T, CmdStatus>;

}  // namespace pib::hca
