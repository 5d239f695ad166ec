// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_modify.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ib/mgmt/link_rate.h"

namespace pib::hca {
namespace {

constexpr uint32_t kState = PIB_HCA_QP_ATTR_STATE;
constexpr uint32_t kCurState = PIB_HCA_QP_ATTR_CUR_STATE;
constexpr uint32_t kNotify = PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY;
constexpr uint32_t kAccess = PIB_HCA_QP_ATTR_ACCESS_FLAGS;
constexpr uint32_t kPkey = PIB_HCA_QP_ATTR_PKEY_INDEX;
constexpr uint32_t kPort = PIB_HCA_QP_ATTR_PORT;
constexpr uint32_t kQkey = PIB_HCA_QP_ATTR_QKEY;
constexpr uint32_t kAv = PIB_HCA_QP_ATTR_AV;
constexpr uint32_t kMtu = PIB_HCA_QP_ATTR_PATH_MTU;
constexpr uint32_t kTimeout = PIB_HCA_QP_ATTR_TIMEOUT;
constexpr uint32_t kRetry = PIB_HCA_QP_ATTR_RETRY_CNT;
constexpr uint32_t kRnrRetry = PIB_HCA_QP_ATTR_RNR_RETRY;
constexpr uint32_t kRqPsn = PIB_HCA_QP_ATTR_RQ_PSN;
constexpr uint32_t kRdAtomic = PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC;
constexpr uint32_t kAltPath = PIB_HCA_QP_ATTR_ALT_PATH;
constexpr uint32_t kRnrTimer = PIB_HCA_QP_ATTR_MIN_RNR_TIMER;
constexpr uint32_t kSqPsn = PIB_HCA_QP_ATTR_SQ_PSN;
constexpr uint32_t kDestRdAtomic = PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC;
constexpr uint32_t kMigState = PIB_HCA_QP_ATTR_PATH_MIG_STATE;
constexpr uint32_t kCap = PIB_HCA_QP_ATTR_CAP;
constexpr uint32_t kDestQpn = PIB_HCA_QP_ATTR_DEST_QPN;

struct Masks {
    uint32_t required;
    uint32_t optional;
};

// The steps of IBA table 91 (QP state transition properties), in this order in each column.
// Transitions from any state to Reset and Error take no attributes, and are not listed.
struct Step {
    QpState from;
    QpState to;
};
constexpr std::array<Step, 9> kSteps = {{{PIB_HCA_QPS_RESET, PIB_HCA_QPS_INIT},
                                         {PIB_HCA_QPS_INIT, PIB_HCA_QPS_INIT},
                                         {PIB_HCA_QPS_INIT, PIB_HCA_QPS_RTR},
                                         {PIB_HCA_QPS_RTR, PIB_HCA_QPS_RTS},
                                         {PIB_HCA_QPS_RTS, PIB_HCA_QPS_RTS},
                                         {PIB_HCA_QPS_RTS, PIB_HCA_QPS_SQD},
                                         {PIB_HCA_QPS_SQD, PIB_HCA_QPS_RTS},
                                         {PIB_HCA_QPS_SQD, PIB_HCA_QPS_SQD},
                                         {PIB_HCA_QPS_SQE, PIB_HCA_QPS_RTS}}};
using Column = std::array<std::optional<Masks>, kSteps.size()>;

constexpr Masks optional_of(Masks masks) {
    return {0, masks.required | masks.optional};
}

constexpr uint32_t kReply = kDestRdAtomic | kRnrTimer;         // only for a reliable responder
constexpr uint32_t kRetries = kRetry | kRnrRetry | kRdAtomic;  // only for a reliable requester
constexpr uint32_t kConnectedLive = kCurState | kAccess | kAltPath | kMigState;
constexpr uint32_t kConnectedSqd = kConnectedLive | kAv | kPkey;
constexpr Masks kToSqd{0, kCurState | kNotify};
constexpr Masks kConnectedInit{kPkey | kPort | kAccess, 0};
constexpr Masks kUdInit{kPkey | kPort | kQkey, 0};
constexpr Masks kSpecialInit{kPkey | kQkey, kPort};
constexpr Masks kUdRtr{0, kPkey | kQkey};
constexpr Masks kUdRts{kSqPsn, kCurState | kQkey};
constexpr Masks kUdLive{0, kCurState | kQkey};
constexpr Masks kUdSqd{0, kCurState | kPkey | kQkey};

constexpr Masks connected_rtr(uint32_t responder) {
    return {kAv | kMtu | kDestQpn | kRqPsn | responder, kAccess | kPkey | kAltPath | kMigState};
}

// RC has both halves, XRC one each (annex A14). SQE exists for unreliable services only (IBA
// 10.3.1.6).
constexpr Column reliable(uint32_t requester, uint32_t responder) {
    const Masks live{0, kConnectedLive | (responder & kRnrTimer)};
    return {kConnectedInit,
            optional_of(kConnectedInit),
            connected_rtr(responder),
            Masks{kSqPsn | kTimeout | requester, live.optional},
            live,
            kToSqd,
            live,
            Masks{0, kConnectedSqd | kPort | kTimeout | requester | responder},
            std::nullopt};
}
constexpr Column kRc = reliable(kRetries, kReply);
constexpr Column kXrcInitiator = reliable(kRetries, 0);
constexpr Column kXrcTarget = reliable(0, kReply);
constexpr Column kUc = {kConnectedInit,
                        optional_of(kConnectedInit),
                        connected_rtr(0),
                        Masks{kSqPsn, kConnectedLive},
                        Masks{0, kConnectedLive},
                        kToSqd,
                        Masks{0, kConnectedLive},
                        Masks{0, kConnectedSqd},
                        Masks{0, kCurState | kAccess}};

constexpr Column datagram(Masks init) {
    return {init, optional_of(init), kUdRtr, kUdRts, kUdLive, kToSqd, kUdLive, kUdSqd, kUdLive};
}
constexpr Column kUd = datagram(kUdInit);
constexpr Column kSpecial = datagram(kSpecialInit);

const Column& column_of(const QueuePair& qp) {
    switch (qp.type) {
        case PIB_HCA_QP_RC:
            return kRc;
        case PIB_HCA_QP_UC:
            return kUc;
        case PIB_HCA_QP_UD:
            return kUd;
        case PIB_HCA_QP_XRC_INI:
            return kXrcInitiator;
        case PIB_HCA_QP_XRC_TGT:
            return kXrcTarget;
        default:
            return kSpecial;
    }
}

std::optional<Masks> find_masks(const QueuePair& qp, QpState to) {
    const auto matches = [&](const Step& step) { return step.from == qp.state && step.to == to; };
    const auto step = std::ranges::find_if(kSteps, matches);
    if (step == kSteps.end()) {
        return std::nullopt;
    }
    return column_of(qp)[static_cast<size_t>(step - kSteps.begin())];
}

bool lid_is_allowed(ib::Lid lid, LidClass allowed) {
    return lid.is_unicast() || (allowed.multicast && lid.is_multicast()) ||
           (allowed.permissive && lid.is_permissive());
}

// PathRecord:Rate (IBA table 246 and annex A16): 2 to 22 have a meaning; 0 is the port's own.
bool rate_is_valid(uint8_t rate) {
    return rate == 0 || ib::data_mbps(rate) != 0;
}

bool access_is_valid(const pib_hca_modify_qp& in) {
    constexpr uint32_t kAll = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                              PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC |
                              PIB_HCA_ACCESS_FLUSH_GLOBAL | PIB_HCA_ACCESS_FLUSH_PERSISTENT;
    return (in.access_flags & ~kAll) == 0;
}

// Attributes that are numbers with an upper limit.
struct Limit {
    uint32_t mask;
    uint32_t (*value)(const pib_hca_modify_qp&);
    uint32_t max;
};

using In = const pib_hca_modify_qp&;
constexpr Limit kLimits[] = {
    {kRqPsn, [](In in) -> uint32_t { return in.rq_psn; }, ib::Psn::kMask},
    {kSqPsn, [](In in) -> uint32_t { return in.sq_psn; }, ib::Psn::kMask},
    {kDestQpn, [](In in) -> uint32_t { return in.dest_qpn; }, ib::Qpn::kMask},
    {kTimeout, [](In in) -> uint32_t { return in.timeout; }, 31},
    {kRetry, [](In in) -> uint32_t { return in.retry_cnt; }, 7},
    {kRnrRetry, [](In in) -> uint32_t { return in.rnr_retry; }, 7},
    {kRnrTimer, [](In in) -> uint32_t { return in.min_rnr_timer; }, 31},
    {kRdAtomic, [](In in) -> uint32_t { return in.max_rd_atomic; }, Limits::kRdAtomic},
    {kDestRdAtomic, [](In in) -> uint32_t { return in.max_dest_rd_atomic; }, Limits::kRdAtomic},
    {kNotify, [](In in) -> uint32_t { return in.en_sqd_async_notify; }, 1},
};

CmdStatus check_vector(const pib_hca_av& av, const Port& port) {
    if (av.reserved[0] != 0 || av.reserved[1] != 0 || (av.flags & ~PIB_HCA_AV_GRH) != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    // The QP's port is an attribute of its own; the vector's field is for datagrams.
    return av.port == 0 && address_vector_is_valid(av, port, {}) ? PIB_HCA_CMD_STATUS_OK
                                                                 : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

CmdStatus check_port_attributes(const QueuePair& qp, In in, std::span<Port* const> ports) {
    const uint8_t number =
        qp.is_special() ? qp.special_port : ((in.attr_mask & kPort) != 0 ? in.port : qp.attr.port);
    if ((in.attr_mask & kPort) != 0 && (in.port != number || in.port == 0)) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    if ((in.attr_mask & (kPort | kPkey | kAv | kMtu)) == 0) {
        return PIB_HCA_CMD_STATUS_OK;
    }
    if (number == 0 || number > ports.size()) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const Port& port = *ports[number - 1];
    if ((in.attr_mask & kPkey) != 0 && in.pkey_index >= port.pkey_count()) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    if ((in.attr_mask & kMtu) != 0 &&
        (!ib::is_valid_mtu_code(in.path_mtu) || 128u << in.path_mtu > port.mtu_bytes())) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    return (in.attr_mask & kAv) != 0 ? check_vector(in.av, port) : PIB_HCA_CMD_STATUS_OK;
}

// IBA 11.2.5.2: the alternate path may have a port, a P_Key and a timeout of its own; the MTU is
// the connection's.
CmdStatus check_alternate_path(const QueuePair& qp, In in, std::span<Port* const> ports) {
    if ((in.attr_mask & kAltPath) == 0) {
        return PIB_HCA_CMD_STATUS_OK;
    }
    if (in.alt_port == 0 || in.alt_port > ports.size() || in.alt_timeout > 31) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const Port& port = *ports[in.alt_port - 1u];
    const uint8_t mtu = (in.attr_mask & kMtu) != 0 ? in.path_mtu : qp.attr.path_mtu;
    if (in.alt_pkey_index >= port.pkey_count() || 128u << mtu > port.mtu_bytes()) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    return check_vector(in.alt_av, port);
}

// IBA 17.2.8: software loads a path and asks for Rearm; the device arms when the peer has done so,
// too; in Armed software may migrate. An armed path cannot be replaced.
CmdStatus check_migration(const QueuePair& qp, In in) {
    const bool loads = (in.attr_mask & kAltPath) != 0;
    const bool armed = qp.attr.path_mig_state == PIB_HCA_MIG_ARMED;
    if ((in.attr_mask & kMigState) == 0) {
        return loads && armed ? PIB_HCA_CMD_STATUS_BAD_STATE : PIB_HCA_CMD_STATUS_OK;
    }
    switch (in.path_mig_state) {
        case PIB_HCA_MIG_MIGRATED:
            return qp.attr.path_mig_state == PIB_HCA_MIG_REARM || (loads && armed)
                       ? PIB_HCA_CMD_STATUS_BAD_STATE
                       : PIB_HCA_CMD_STATUS_OK;
        case PIB_HCA_MIG_REARM:
            return loads || qp.alt_loaded ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_STATE;
        default:
            return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
}

}  // namespace

bool address_vector_is_valid(const pib_hca_av& av, const Port& port, LidClass allowed) {
    if (!lid_is_allowed(ib::Lid(av.dlid), allowed) || av.sl > 15 || av.src_path_bits > 127 ||
        !rate_is_valid(av.static_rate)) {
        return false;
    }
    if ((av.flags & PIB_HCA_AV_GRH) == 0) {
        return true;
    }
    return av.sgid_index < Limits::kGids && port.gid(av.sgid_index) != nullptr &&
           av.flow_label <= 0xfffff;
}

QpState target_state(const QueuePair& qp, const pib_hca_modify_qp& in) {
    return (in.attr_mask & kState) != 0 ? static_cast<QpState>(in.state) : qp.state;
}

CmdStatus check_transition(const QueuePair& qp, const pib_hca_modify_qp& in) {
    if ((in.attr_mask & kCap) != 0) {
        return PIB_HCA_CMD_STATUS_NOT_SUPPORTED;
    }
    if ((in.attr_mask & kCurState) != 0 && in.cur_state != qp.state) {
        return PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    const QpState to = target_state(qp, in);
    if (to > PIB_HCA_QPS_ERR) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const uint32_t given = in.attr_mask & ~kState;
    if ((in.attr_mask & kState) != 0 && (to == PIB_HCA_QPS_RESET || to == PIB_HCA_QPS_ERR)) {
        return (given & ~kCurState) == 0 ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const auto masks = find_masks(qp, to);
    if (!masks) {
        return PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    const bool complete = (given & masks->required) == masks->required;
    const bool allowed = (given & ~(masks->required | masks->optional | kCurState)) == 0;
    return complete && allowed ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

CmdStatus check_attributes(const QueuePair& qp, const pib_hca_modify_qp& in,
                           std::span<Port* const> ports) {
    for (const Limit& limit : kLimits) {
        if ((in.attr_mask & limit.mask) != 0 && limit.value(in) > limit.max) {
            return PIB_HCA_CMD_STATUS_BAD_PARAM;
        }
    }
    if ((in.attr_mask & kAccess) != 0 && !access_is_valid(in)) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    if (const CmdStatus status = check_migration(qp, in); status != PIB_HCA_CMD_STATUS_OK) {
        return status;
    }
    if (const CmdStatus status = check_alternate_path(qp, in, ports);
        status != PIB_HCA_CMD_STATUS_OK) {
        return status;
    }
    return check_port_attributes(qp, in, ports);
}

bool is_migration_command(const QueuePair& qp, const pib_hca_modify_qp& in) {
    return (in.attr_mask & kMigState) != 0 && in.path_mig_state == PIB_HCA_MIG_MIGRATED &&
           qp.attr.path_mig_state == PIB_HCA_MIG_ARMED;
}

void apply_attributes(pib_hca_modify_qp& attr, const pib_hca_modify_qp& in) {
    const auto take = [&](uint32_t mask, auto pib_hca_modify_qp::* field) {
        if ((in.attr_mask & mask) != 0) {
            attr.*field = in.*field;
        }
    };
    take(kNotify, &pib_hca_modify_qp::en_sqd_async_notify);
    take(kAccess, &pib_hca_modify_qp::access_flags);
    take(kPkey, &pib_hca_modify_qp::pkey_index);
    take(kPort, &pib_hca_modify_qp::port);
    take(kQkey, &pib_hca_modify_qp::qkey);
    take(kAv, &pib_hca_modify_qp::av);
    take(kMtu, &pib_hca_modify_qp::path_mtu);
    take(kTimeout, &pib_hca_modify_qp::timeout);
    take(kRetry, &pib_hca_modify_qp::retry_cnt);
    take(kRnrRetry, &pib_hca_modify_qp::rnr_retry);
    take(kRqPsn, &pib_hca_modify_qp::rq_psn);
    take(kRdAtomic, &pib_hca_modify_qp::max_rd_atomic);
    take(kRnrTimer, &pib_hca_modify_qp::min_rnr_timer);
    take(kSqPsn, &pib_hca_modify_qp::sq_psn);
    take(kDestRdAtomic, &pib_hca_modify_qp::max_dest_rd_atomic);
    take(kAltPath, &pib_hca_modify_qp::alt_av);
    take(kAltPath, &pib_hca_modify_qp::alt_port);
    take(kAltPath, &pib_hca_modify_qp::alt_timeout);
    take(kAltPath, &pib_hca_modify_qp::alt_pkey_index);
    if (in.path_mig_state == PIB_HCA_MIG_REARM) {  // Migrated is entered by migrating
        take(kMigState, &pib_hca_modify_qp::path_mig_state);
    }
    take(kDestQpn, &pib_hca_modify_qp::dest_qpn);
}

}  // namespace pib::hca
