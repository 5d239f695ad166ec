// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_modify.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ib/mgmt/link_rate.h"

namespace pib::hca {
namespace {

constexpr uint32_t kState = qp_attr::kState;
constexpr uint32_t kCurState = qp_attr::kCurState;
constexpr uint32_t kNotify = qp_attr::kEnSqdAsyncNotify;
constexpr uint32_t kAccess = qp_attr::kAccessFlags;
constexpr uint32_t kPkey = qp_attr::kPkeyIndex;
constexpr uint32_t kPort = qp_attr::kPort;
constexpr uint32_t kQkey = qp_attr::kQkey;
constexpr uint32_t kAv = qp_attr::kAv;
constexpr uint32_t kMtu = qp_attr::kPathMtu;
constexpr uint32_t kTimeout = qp_attr::kTimeout;
constexpr uint32_t kRetry = qp_attr::kRetryCnt;
constexpr uint32_t kRnrRetry = qp_attr::kRnrRetry;
constexpr uint32_t kRqPsn = qp_attr::kRqPsn;
constexpr uint32_t kRdAtomic = qp_attr::kMaxQpRdAtomic;
constexpr uint32_t kAltPath = qp_attr::kAltPath;
constexpr uint32_t kRnrTimer = qp_attr::kMinRnrTimer;
constexpr uint32_t kSqPsn = qp_attr::kSqPsn;
constexpr uint32_t kDestRdAtomic = qp_attr::kMaxDestRdAtomic;
constexpr uint32_t kMigState = qp_attr::kPathMigState;
constexpr uint32_t kCap = qp_attr::kCap;
constexpr uint32_t kDestQpn = qp_attr::kDestQpn;

constexpr uint8_t kMaxTimeout = 31;
constexpr uint16_t kMaxUnicastLid = 0xbfff;
constexpr uint8_t kMaxSl = 15;
constexpr uint8_t kMaxPathBits = 127;
constexpr uint8_t kMaxRate = 22;
constexpr uint32_t kMaxFlowLabel = 0xfffff;

struct Masks {
    uint32_t required;
    uint32_t optional;
};

// Transitions of IBA table 91 (QP state transition properties). A Column has the masks of one type
// of QP for all kSteps, in the same order. The transitions to Reset and Error are not listed: they
// are permitted in every state, and take no attributes.
struct Step {
    QpState from;
    QpState to;
};
constexpr std::array<Step, 9> kSteps = {{{QpState::kReset, QpState::kInit},
                                         {QpState::kInit, QpState::kInit},
                                         {QpState::kInit, QpState::kRtr},
                                         {QpState::kRtr, QpState::kRts},
                                         {QpState::kRts, QpState::kRts},
                                         {QpState::kRts, QpState::kSqd},
                                         {QpState::kSqd, QpState::kRts},
                                         {QpState::kSqd, QpState::kSqd},
                                         {QpState::kSqe, QpState::kRts}}};
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

// RC QPs have a requester and a responder, XRC initiators only a requester, XRC targets only a
// responder (annex A14). Only unreliable services have the state SQE (IBA 10.3.1.6).
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
        case QpType::kRc:
            return kRc;
        case QpType::kUc:
            return kUc;
        case QpType::kUd:
            return kUd;
        case QpType::kXrcIni:
            return kXrcInitiator;
        case QpType::kXrcTgt:
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

// Codes of PathRecord:Rate are 2 to 22 (IBA 15.2.5.16 and later releases); 0: the port's rate.
bool rate_is_valid(uint8_t rate) {
    return rate == 0 || ib::data_mbps(rate) != 0;
}

constexpr uint32_t kAllAccess = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead |
                                access::kRemoteAtomic | access::kFlushGlobal |
                                access::kFlushPersistent;

// An attribute that is a number with an upper limit.
struct Limit {
    uint32_t mask;
    uint32_t (*value)(const QpAttributes&);
    uint32_t max;
    Rule rule;
};

using In = const QpAttributes&;
constexpr Limit kLimits[] = {
    {kRqPsn, [](In in) -> uint32_t { return in.rq_psn; }, ib::Psn::kMask, Rule::kRqPsn},
    {kSqPsn, [](In in) -> uint32_t { return in.sq_psn; }, ib::Psn::kMask, Rule::kSqPsn},
    {kDestQpn, [](In in) -> uint32_t { return in.dest_qpn; }, ib::Qpn::kMask, Rule::kDestQpn},
    {kTimeout, [](In in) -> uint32_t { return in.timeout; }, kMaxTimeout, Rule::kTimeout},
    {kRetry, [](In in) -> uint32_t { return in.retry_cnt; }, 7, Rule::kRetryCnt},
    {kRnrRetry, [](In in) -> uint32_t { return in.rnr_retry; }, 7, Rule::kRnrRetry},
    {kRnrTimer, [](In in) -> uint32_t { return in.min_rnr_timer; }, 31, Rule::kMinRnrTimer},
    {kRdAtomic, [](In in) -> uint32_t { return in.max_rd_atomic; }, Limits::kRdAtomic,
     Rule::kMaxRdAtomic},
    {kDestRdAtomic, [](In in) -> uint32_t { return in.max_dest_rd_atomic; }, Limits::kRdAtomic,
     Rule::kMaxDestRdAtomic},
    {kNotify, [](In in) -> uint32_t { return in.en_sqd_async_notify; }, 1, Rule::kSqdNotify},
};

Verdict check_vector(const AddressVector& av, const Port& port) {
    // A connected QP has its port in QpAttributes::port; only datagrams use the vector's field.
    return av.port == 0 ? check_address_vector(av, port, {}) : refuse(Rule::kVectorPort, av.port);
}

Verdict check_port_attributes(const QueuePair& qp, In in, std::span<Port* const> ports) {
    const uint8_t number =
        qp.is_special() ? qp.special_port : ((in.attr_mask & kPort) != 0 ? in.port : qp.attr.port);
    if ((in.attr_mask & kPort) != 0 && (in.port != number || in.port == 0)) {
        return refuse(Rule::kPathPort, in.port, ports.size());
    }
    if ((in.attr_mask & (kPort | kPkey | kAv | kMtu)) == 0) {
        return CmdStatus::kOk;
    }
    if (number == 0 || number > ports.size()) {
        return refuse(Rule::kPathPort, number, ports.size());
    }
    const Port& port = *ports[number - 1];
    if ((in.attr_mask & kPkey) != 0 && in.pkey_index >= port.pkey_count()) {
        return refuse(Rule::kPkeyIndex, in.pkey_index, port.pkey_count() - 1);
    }
    if ((in.attr_mask & kMtu) != 0 &&
        (!ib::is_valid_mtu_code(in.path_mtu) || 128u << in.path_mtu > port.mtu_bytes())) {
        return refuse(Rule::kPathMtu, in.path_mtu, port.mtu_bytes());
    }
    return (in.attr_mask & kAv) != 0 ? check_vector(in.av, port) : CmdStatus::kOk;
}

// IBA 11.2.4.2: the alternate path may have a port, a P_Key and a timeout of its own; the MTU is
// the connection's.
Verdict check_alternate_path(const QueuePair& qp, In in, std::span<Port* const> ports) {
    if ((in.attr_mask & kAltPath) == 0) {
        return CmdStatus::kOk;
    }
    if (in.alt_port == 0 || in.alt_port > ports.size()) {
        return refuse(Rule::kAltPort, in.alt_port, ports.size());
    }
    if (in.alt_timeout > kMaxTimeout) {
        return refuse(Rule::kAltTimeout, in.alt_timeout, kMaxTimeout);
    }
    const Port& port = *ports[in.alt_port - 1u];
    const uint8_t mtu = (in.attr_mask & kMtu) != 0 ? in.path_mtu : qp.attr.path_mtu;
    if (in.alt_pkey_index >= port.pkey_count()) {
        return refuse(Rule::kAltPkeyIndex, in.alt_pkey_index, port.pkey_count() - 1);
    }
    if (!ib::is_valid_mtu_code(mtu) || 128u << mtu > port.mtu_bytes()) {
        return refuse(Rule::kAltMtu, mtu, port.mtu_bytes());
    }
    return check_vector(in.alt_av, port).of_alternate();
}

// IBA 17.2.8: software loads a path and asks for Rearm. The QP enters Armed when the peer has asked
// for Rearm, too. In Armed, software may migrate, and may replace the path only if it asks for
// Rearm again.
Verdict check_migration(const QueuePair& qp, In in) {
    const bool loads = (in.attr_mask & kAltPath) != 0;
    const bool armed = qp.attr.path_mig_state == PathMigration::kArmed;
    if ((in.attr_mask & kMigState) == 0) {
        return loads && armed ? refuse(Rule::kPathArmed, in.attr_mask) : CmdStatus::kOk;
    }
    switch (in.path_mig_state) {
        case PathMigration::kMigrated:
            return qp.attr.path_mig_state == PathMigration::kRearm || (loads && armed)
                       ? refuse(Rule::kPathMigrated, static_cast<uint8_t>(in.path_mig_state))
                       : CmdStatus::kOk;
        case PathMigration::kRearm:
            return loads || qp.migration.alternate_loaded
                       ? CmdStatus::kOk
                       : refuse(Rule::kPathRearm, static_cast<uint8_t>(in.path_mig_state));
        default:
            return refuse(Rule::kMigState, static_cast<uint8_t>(in.path_mig_state),
                          static_cast<uint8_t>(PathMigration::kRearm));
    }
}

uint8_t number_of(QpState state) {
    return static_cast<uint8_t>(state);
}

Verdict check_masks(uint32_t attr_mask, const Masks& masks) {
    const uint32_t missing = masks.required & ~attr_mask;
    if (missing != 0) {
        return refuse(Rule::kRequired, attr_mask, missing);
    }
    const uint32_t taken = masks.required | masks.optional | kState | kCurState;
    return (attr_mask & ~taken) == 0 ? CmdStatus::kOk
                                     : refuse(Rule::kNotTaken, attr_mask, attr_mask & ~taken);
}

}  // namespace

Verdict check_address_vector(const AddressVector& av, const Port& port, LidClass allowed) {
    if (!lid_is_allowed(ib::Lid(av.dlid), allowed)) {
        return refuse(Rule::kVectorLid, av.dlid, kMaxUnicastLid);
    }
    if (av.sl > kMaxSl) {
        return refuse(Rule::kVectorSl, av.sl, kMaxSl);
    }
    if (av.src_path_bits > kMaxPathBits) {
        return refuse(Rule::kVectorPathBits, av.src_path_bits, kMaxPathBits);
    }
    if (!rate_is_valid(av.static_rate)) {
        return refuse(Rule::kVectorRate, av.static_rate, kMaxRate);
    }
    if (!av.has_grh) {
        return CmdStatus::kOk;
    }
    if (av.sgid_index >= Limits::kGids || port.gid(av.sgid_index) == nullptr) {
        return refuse(Rule::kVectorGid, av.sgid_index, Limits::kGids);
    }
    return av.flow_label <= kMaxFlowLabel
               ? CmdStatus::kOk
               : refuse(Rule::kVectorFlowLabel, av.flow_label, kMaxFlowLabel);
}

QpState target_state(const QueuePair& qp, const QpAttributes& in) {
    return (in.attr_mask & kState) != 0 ? in.state : qp.state;
}

Verdict check_transition(const QueuePair& qp, const QpAttributes& in) {
    if ((in.attr_mask & kCap) != 0) {
        return refuse(Rule::kModifyCap, in.attr_mask);
    }
    if ((in.attr_mask & kCurState) != 0 && in.cur_state != qp.state) {
        return refuse(Rule::kCurState, number_of(in.cur_state), number_of(qp.state));
    }
    const QpState to = target_state(qp, in);
    if (to > QpState::kErr) {
        return refuse(Rule::kState, number_of(to), number_of(QpState::kErr));
    }
    if ((in.attr_mask & kState) != 0 && (to == QpState::kReset || to == QpState::kErr)) {
        return check_masks(in.attr_mask, Masks{0, 0});
    }
    const auto masks = find_masks(qp, to);
    return masks ? check_masks(in.attr_mask, *masks)
                 : refuse(Rule::kTransition, number_of(to), number_of(qp.state));
}

Verdict check_attributes(const QueuePair& qp, const QpAttributes& in,
                         std::span<Port* const> ports) {
    for (const Limit& limit : kLimits) {
        if ((in.attr_mask & limit.mask) != 0 && limit.value(in) > limit.max) {
            return refuse(limit.rule, limit.value(in), limit.max);
        }
    }
    if ((in.attr_mask & kAccess) != 0 && (in.access_flags & ~kAllAccess) != 0) {
        return refuse(Rule::kQpAccess, in.access_flags, kAllAccess);
    }
    return check_migration(qp, in)
        .and_then([&] { return check_alternate_path(qp, in, ports); })
        .and_then([&] { return check_port_attributes(qp, in, ports); });
}

bool is_migration_command(const QueuePair& qp, const QpAttributes& in) {
    return (in.attr_mask & kMigState) != 0 && in.path_mig_state == PathMigration::kMigrated &&
           qp.attr.path_mig_state == PathMigration::kArmed;
}

void apply_attributes(QpAttributes& attr, const QpAttributes& in) {
    const auto take = [&](uint32_t mask, auto QpAttributes::* field) {
        if ((in.attr_mask & mask) != 0) {
            attr.*field = in.*field;
        }
    };
    take(kNotify, &QpAttributes::en_sqd_async_notify);
    take(kAccess, &QpAttributes::access_flags);
    take(kPkey, &QpAttributes::pkey_index);
    take(kPort, &QpAttributes::port);
    take(kQkey, &QpAttributes::qkey);
    take(kAv, &QpAttributes::av);
    take(kMtu, &QpAttributes::path_mtu);
    take(kTimeout, &QpAttributes::timeout);
    take(kRetry, &QpAttributes::retry_cnt);
    take(kRnrRetry, &QpAttributes::rnr_retry);
    take(kRqPsn, &QpAttributes::rq_psn);
    take(kRdAtomic, &QpAttributes::max_rd_atomic);
    take(kRnrTimer, &QpAttributes::min_rnr_timer);
    take(kSqPsn, &QpAttributes::sq_psn);
    take(kDestRdAtomic, &QpAttributes::max_dest_rd_atomic);
    take(kAltPath, &QpAttributes::alt_av);
    take(kAltPath, &QpAttributes::alt_port);
    take(kAltPath, &QpAttributes::alt_timeout);
    take(kAltPath, &QpAttributes::alt_pkey_index);
    if (in.path_mig_state == PathMigration::kRearm) {  // migrate() enters Migrated
        take(kMigState, &QpAttributes::path_mig_state);
    }
    take(kDestQpn, &QpAttributes::dest_qpn);
}

}  // namespace pib::hca
