// SPDX-License-Identifier: GPL-2.0-or-later
// Work requests that change keys.
#pragma once

#include <cstring>

#include "hca.h"

namespace pib::hca::test {

template <typename T>
std::vector<uint8_t> bytes_of(const T& value) {
    std::vector<uint8_t> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

inline SendWr local_inv(uint32_t key, uint8_t flags = PIB_HCA_WQE_SIGNALED) {
    const pib_hca_wqe_key segment{.key = key, .reserved = {}};
    return {.opcode = PIB_HCA_WQE_LOCAL_INV, .flags = flags, .segment = bytes_of(segment)};
}

inline SendWr bind_mw(const pib_hca_wqe_bind& bind, uint8_t flags = PIB_HCA_WQE_SIGNALED) {
    return {.opcode = PIB_HCA_WQE_BIND_MW, .flags = flags, .segment = bytes_of(bind)};
}

inline SendWr reg_mr(const pib_hca_wqe_reg& reg, uint8_t flags = PIB_HCA_WQE_SIGNALED) {
    return {.opcode = PIB_HCA_WQE_REG_MR, .flags = flags, .segment = bytes_of(reg)};
}

inline SendWr send_with_inv(uint32_t rkey, std::vector<pib_hca_sge> sges = {}) {
    return {.opcode = PIB_HCA_WQE_SEND_WITH_INV, .imm = rkey, .sges = std::move(sges)};
}

// The key with the next key byte (ibv_inc_rkey()).
constexpr uint32_t next_key(uint32_t key) {
    return (key & ~0xffu) | ((key + 1) & 0xff);
}

}  // namespace pib::hca::test
