// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/path_migration.h"

#include "qp/packet_check.h"

namespace pib::hca {

namespace {

const Port& port_at(const QpServices& services, unsigned number) {
    return *services.parts().ports[number - 1u];
}

bool comes_by_alternate(const QpServices& services, const QueuePair& qp, unsigned port,
                        const ib::PacketView& packet) {
    return qp.attr.alt_port == port && is_from(qp.attr.alt_av, port_at(services, port), packet) &&
           pkey_is_right(qp.attr.alt_pkey_index, port_at(services, port), packet);
}

// Any node can send packets with MigReq on a wrong path, so one event reports all of them until the
// next MODIFY_QP.
void refuse_migration(QpServices& services, QueuePair& qp) {
    if (!qp.migration.error_reported) {
        qp.migration.error_reported = true;
        services.event(Event::kPathMigFailed, qp);
    }
}

}  // namespace

PathCheck check_path(QpServices& services, QueuePair& qp, unsigned port,
                     const ib::PacketView& packet) {
    const PathMigration state = qp.attr.path_mig_state;
    const bool request = packet.bth().mig_req;
    if (state == PathMigration::kArmed && request &&
        comes_by_alternate(services, qp, port, packet)) {
        migrate(services, qp);
        return PathCheck::kOk;
    }
    if (qp.port() != port || !is_from(qp.attr.av, port_at(services, port), packet)) {
        if (state != PathMigration::kMigrated && request) {
            refuse_migration(services, qp);
        }
        return PathCheck::kForeign;
    }
    if (!pkey_is_right(qp.attr.pkey_index, port_at(services, port), packet)) {
        return PathCheck::kWrongPKey;
    }
    if (state == PathMigration::kRearm && !request) {
        qp.attr.path_mig_state = PathMigration::kArmed;
    }
    return PathCheck::kOk;
}

void migrate(QpServices& services, QueuePair& qp) {
    services.scheduler().unpark(qp);  // the QP may wait for room at its old port
    QpAttributes& attr = qp.attr;
    attr.av = attr.alt_av;
    attr.port = attr.alt_port;
    attr.timeout = attr.alt_timeout;
    attr.pkey_index = attr.alt_pkey_index;
    attr.path_mig_state = PathMigration::kMigrated;
    qp.migration.alternate_loaded = false;  // to arm again, software loads another path
    services.event(Event::kPathMigrated, qp);
    services.schedule(qp);
}

bool migrate_if_armed(QpServices& services, QueuePair& qp) {
    if (qp.attr.path_mig_state != PathMigration::kArmed) {
        return false;
    }
    migrate(services, qp);
    return true;
}

}  // namespace pib::hca
