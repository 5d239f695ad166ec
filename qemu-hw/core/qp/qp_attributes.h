// SPDX-License-Identifier: GPL-2.0-or-later
// Attributes of a queue pair (IBA vol. 1, 11.2.4.2), and the mask of those that a verb changes.
#pragma once

#include <cstdint>

#include "base/qp_kinds.h"

namespace pib::hca {

// Bits of QpAttributes::attr_mask. The register interface has the same bits
// (commands/interface_numbers.cc).
namespace qp_attr {
inline constexpr uint32_t kState = 1u << 0;
inline constexpr uint32_t kCurState = 1u << 1;
inline constexpr uint32_t kEnSqdAsyncNotify = 1u << 2;
inline constexpr uint32_t kAccessFlags = 1u << 3;
inline constexpr uint32_t kPkeyIndex = 1u << 4;
inline constexpr uint32_t kPort = 1u << 5;
inline constexpr uint32_t kQkey = 1u << 6;
inline constexpr uint32_t kAv = 1u << 7;
inline constexpr uint32_t kPathMtu = 1u << 8;
inline constexpr uint32_t kTimeout = 1u << 9;
inline constexpr uint32_t kRetryCnt = 1u << 10;
inline constexpr uint32_t kRnrRetry = 1u << 11;
inline constexpr uint32_t kRqPsn = 1u << 12;
inline constexpr uint32_t kMaxQpRdAtomic = 1u << 13;
inline constexpr uint32_t kAltPath = 1u << 14;
inline constexpr uint32_t kMinRnrTimer = 1u << 15;
inline constexpr uint32_t kSqPsn = 1u << 16;
inline constexpr uint32_t kMaxDestRdAtomic = 1u << 17;
inline constexpr uint32_t kPathMigState = 1u << 18;
inline constexpr uint32_t kCap = 1u << 19;
inline constexpr uint32_t kDestQpn = 1u << 20;
}  // namespace qp_attr

// States of automatic path migration (IBA vol. 1, 17.2.8).
enum class PathMigration : uint8_t { kMigrated = 0, kRearm = 1, kArmed = 2 };

struct QpAttributes {
    uint32_t attr_mask = 0;
    QpState state = QpState::kReset;      // MODIFY_QP: the state to enter; QUERY_QP: the state
    QpState cur_state = QpState::kReset;  // with qp_attr::kCurState: the state that must be current
    uint8_t path_mtu = 0;                 // code of the size in bytes, 1: 256 ... 5: 4096
    PathMigration path_mig_state = PathMigration::kMigrated;
    uint32_t qkey = 0;
    uint32_t rq_psn = 0;
    uint32_t sq_psn = 0;
    uint32_t dest_qpn = 0;
    uint32_t access_flags = 0;  // access::k...
    uint16_t pkey_index = 0;
    uint16_t alt_pkey_index = 0;
    AddressVector av;
    AddressVector alt_av;
    uint8_t port = 0;
    uint8_t alt_port = 0;
    uint8_t timeout = 0;  // Local ACK Timeout: 4.096 us * 2^n, 0: none
    uint8_t alt_timeout = 0;
    uint8_t retry_cnt = 0;
    uint8_t rnr_retry = 0;           // 7: no limit
    uint8_t min_rnr_timer = 0;       // code of a time (IBA vol. 1, 9.7.5.2.8)
    uint8_t max_rd_atomic = 0;       // limit of RequesterState::rd_atomic_outstanding
    uint8_t max_dest_rd_atomic = 0;  // number of responder resources
    uint8_t en_sqd_async_notify = 0;
    bool sq_draining = false;  // QUERY_QP: the state is SQD, and the queue has not drained
};

}  // namespace pib::hca
