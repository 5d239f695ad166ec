// SPDX-License-Identifier: GPL-2.0-or-later
// Automatic path migration (IBA vol. 1, 17.2.8): the choice between the two paths of a connection,
// and the packets and failures that change it. qp_modify.h checks the requests of software.
#pragma once

#include "ib/wire/packet.h"
#include "qp/qp_services.h"

namespace pib::hca {

// Whether a packet belongs to the connection.
enum class PathCheck : uint8_t { kOk, kForeign, kWrongPKey };

// Checks a packet that has arrived at `port` (counted from 1). The packet may also change the
// migration state: without MigReq it arms a QP in Rearm, with MigReq on the alternate path it makes
// an Armed QP migrate. With MigReq on any other path than the QP's own it raises
// Event::kPathMigFailed, once until the next MODIFY_QP, unless the QP is Migrated.
PathCheck check_path(QpServices& services, QueuePair& qp, unsigned port,
                     const ib::PacketView& packet);

// Makes the alternate path the connection's path, and raises Event::kPathMigrated.
void migrate(QpServices& services, QueuePair& qp);

// Call this when retries on the current path are used up. Migrates and returns true if the QP is
// Armed.
[[nodiscard]] bool migrate_if_armed(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
