// SPDX-License-Identifier: GPL-2.0-or-later
// Automatic path migration (IBA vol. 1, 17.2.8): the choice between the two paths of a connection,
// and the packets and failures that change it. qp_modify.h checks the requests of software.
#pragma once

#include "ib/wire/packet.h"
#include "qp/qp_services.h"

namespace pib::hca {

// Whether a packet belongs to the connection.
enum class PathCheck : uint8_t { kOk, kForeign, kWrongPKey };

// `port`: 1.., where the packet arrived. The packet may also change the migration state: without
// MigReq it arms a QP in Rearm, with MigReq on the alternate path it makes an Armed QP migrate, and
// with MigReq on another path it raises Event::kPathMigFailed.
PathCheck check_path(QpServices& services, QueuePair& qp, unsigned port,
                     const ib::PacketView& packet);

// Makes the alternate path the connection's path, and raises Event::kPathMigrated.
void migrate(QpServices& services, QueuePair& qp);

// To be called when the path has failed. Migrates if the QP is Armed, else returns false.
bool migrate_if_armed(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
