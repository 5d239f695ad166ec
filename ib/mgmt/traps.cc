// SPDX-License-Identifier: GPL-2.0-or-later
// Notices and the trap queue.
#include "ib/mgmt/traps.h"

#include <algorithm>

namespace pib::ib {
namespace {

namespace nd = notice_details;
namespace nd259 = notice_details_259;

Notice make_notice(NoticeType type, uint16_t trap_number) {
    Notice n{};
    set(n, notice::kIsGeneric, 1);
    set(n, notice::kType, static_cast<unsigned>(type));
    set(n, notice::kTrapNumber, trap_number);
    return n;
}

// Shortest interval between any two traps of a port, and between repetitions of one trap if
// SubnetTimeOut is shorter.
constexpr uint64_t kMinTrapIntervalNs = 1'000'000;

uint64_t trap_interval_ns(uint8_t subnet_timeout) {
    return std::max<uint64_t>(4096ULL << (subnet_timeout & 0x1F), kMinTrapIntervalNs);
}

Notice key_notice(uint16_t trap_number, const KeyViolation& violation) {
    Notice n = make_notice(NoticeType::kSecurity, trap_number);
    set(n, nd::kLid1, violation.slid.value());
    set(n, nd::kLid2, violation.dlid.value());
    set(n, nd::kKey, violation.key);
    set(n, nd::kSl, violation.sl.value());
    set(n, nd::kQp1, violation.src_qp.value());
    set(n, nd::kQp2, violation.dest_qp.value());
    std::ranges::copy(violation.sgid.bytes, n.begin() + nd::kGid1Offset);
    std::ranges::copy(violation.dgid.bytes, n.begin() + nd::kGid2Offset);
    return n;
}

Mad trap_mad(const TrapQueue::Pending& trap, const TrapSender& sender) {
    Mad mad;
    mad.set(mad_header::kBaseVersion, kMadBaseVersion);
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kSubnLidRouted));
    mad.set(mad_header::kClassVersion, kSmpClassVersion);
    mad.set(mad_header::kMethod, static_cast<unsigned>(Method::kTrap));
    mad.set(mad_header::kTransactionId, trap.transaction_id);
    mad.set(mad_header::kAttributeId, attr::kNotice);
    std::ranges::copy(trap.notice, mad.smp_data().begin());
    set(mad.smp_data(), notice::kProducerType, static_cast<unsigned>(sender.producer));
    set(mad.smp_data(), notice::kIssuerLid, sender.lid.value());
    return mad;
}

void sent(TrapQueue::Pending& trap, uint64_t interval_ns, uint64_t now_ns) {
    trap.earliest_ns = now_ns + interval_ns;
    trap.pause_ns =
        std::clamp(2 * trap.pause_ns, interval_ns, std::max(interval_ns, TrapQueue::kMaxPauseNs));
    trap.due_ns = now_ns + trap.pause_ns;
}

// A TrapRepress of the former SM must not end a trap before the new SM has received it.
void restart(TrapQueue& queue, uint64_t now_ns) {
    for (TrapQueue::Pending& trap : queue.pending) {
        trap.transaction_id = queue.next_transaction_id++;
        trap.due_ns = now_ns;
        trap.pause_ns = 0;
    }
}

}  // namespace

Notice link_state_notice(Lid switch_lid) {
    Notice n = make_notice(NoticeType::kUrgent, trap::kLinkStateChange);
    set(n, nd::kLid128, switch_lid.value());
    return n;
}

Notice threshold_notice(uint16_t trap_number, Lid lid, uint8_t port) {
    Notice n = make_notice(NoticeType::kUrgent, trap_number);
    set(n, nd::kLid, lid.value());
    set(n, nd::kPortNumber, port);
    return n;
}

Notice local_changes_notice(Lid lid, const LocalChanges& changes) {
    Notice n = make_notice(NoticeType::kInformational, trap::kLocalChanges);
    set(n, nd::kLid, lid.value());
    set(n, nd::kOtherLocalChanges, changes.changes != 0 ? 1 : 0);
    set(n, nd::kCapabilityMask, changes.capability_mask);
    set(n, nd::kChangeFlags, changes.changes);
    set(n, nd::kCapabilityMask2, changes.capability_mask2);
    return n;
}

Notice system_image_guid_notice(Lid lid, Guid system_image_guid) {
    Notice n = make_notice(NoticeType::kInformational, trap::kSystemImageGuidChange);
    set(n, nd::kLid, lid.value());
    set(n, nd::kSystemImageGuid, system_image_guid.value());
    return n;
}

Notice bad_m_key_notice(const Mad& smp, Lid slid) {
    Notice n = make_notice(NoticeType::kSecurity, trap::kBadMKey);
    set(n, nd::kLid, slid.value());
    set(n, nd::kMethod, static_cast<unsigned>(smp.method()));
    set(n, nd::kAttributeId, smp.attribute_id());
    set(n, nd::kAttributeModifier, smp.attribute_modifier());
    set(n, nd::kMKey, m_key(smp));
    if (!smp.is_directed_route()) {
        return n;
    }
    set(n, nd::kDrSlid, dr_slid(smp).value());
    set(n, nd::kDrNotice, 1);
    const size_t hops = std::min<size_t>(hop_count(smp), nd::kDrReturnPathSize);
    set(n, nd::kDrPathTruncated, hops < hop_count(smp) ? 1 : 0);
    set(n, nd::kDrHopCount, hops);
    std::copy_n(return_path(smp).begin(), hops, n.begin() + nd::kDrReturnPathOffset);
    return n;
}

Notice bad_p_key_notice(const KeyViolation& violation) {
    return key_notice(trap::kBadPKey, violation);
}

Notice bad_q_key_notice(const KeyViolation& violation) {
    return key_notice(trap::kBadQKey, violation);
}

Notice bad_p_key_at_switch_notice(const KeyViolation& violation, Lid switch_lid, uint8_t port) {
    Notice n = make_notice(NoticeType::kSecurity, trap::kBadPKeyAtSwitchPort);
    const bool with_gids = !violation.sgid.is_zero();
    set(n, nd259::kDataValid,
        nd259::kLid1Valid | nd259::kLid2Valid | nd259::kPKeyValid | nd259::kSlValid |
            nd259::kQp1Valid | nd259::kQp2Valid |
            (with_gids ? nd259::kGid1Valid | nd259::kGid2Valid : 0));
    set(n, nd259::kLid1, violation.slid.value());
    set(n, nd259::kLid2, violation.dlid.value());
    set(n, nd259::kPKey, violation.key);
    set(n, nd259::kSl, violation.sl.value());
    set(n, nd259::kQp1, violation.src_qp.value());
    set(n, nd259::kQp2, violation.dest_qp.value());
    std::ranges::copy(violation.sgid.bytes, n.begin() + nd259::kGid1Offset);
    std::ranges::copy(violation.dgid.bytes, n.begin() + nd259::kGid2Offset);
    set(n, nd259::kSwitchLid, switch_lid.value());
    set(n, nd259::kPortNumber, port);
    return n;
}

void TrapQueue::add(const Notice& notice, uint64_t now_ns) {
    const auto same_number = [&](const Pending& waiting) {
        return get(waiting.notice, notice::kTrapNumber) == get(notice, notice::kTrapNumber);
    };
    const auto same = [&](const Pending& waiting) {
        // Producer and issuer are set when the trap is sent; the other fields decide whether two
        // notices are equal.
        return same_number(waiting) &&
               std::ranges::equal(std::span(waiting.notice).subspan<notice::kDetailsOffset>(),
                                  std::span(notice).subspan<notice::kDetailsOffset>());
    };
    if (const auto waiting = std::ranges::find_if(pending, same); waiting != pending.end()) {
        // A trap that was sent before gets a new transaction ID, so that a late TrapRepress of the
        // earlier event does not end this one.
        if (waiting->pause_ns != 0) {
            waiting->transaction_id = next_transaction_id++;
        }
        waiting->due_ns = std::min(waiting->due_ns, std::max(waiting->earliest_ns, now_ns));
        waiting->pause_ns = 0;
        return;
    }
    const auto of_number = static_cast<size_t>(std::ranges::count_if(pending, same_number));
    if (of_number < kMaxOfNumber && pending.size() < kMaxPending) {
        pending.push_back(
            {.notice = notice, .transaction_id = next_transaction_id++, .due_ns = now_ns});
    }
}

std::optional<Mad> TrapQueue::next(const TrapSender& sender, uint64_t now_ns) {
    if (!sender.active || !sender.sm_lid.is_unicast() || now_ns < quiet_until_ns) {
        return std::nullopt;
    }
    if (sender.sm_lid != sm_lid) {
        sm_lid = sender.sm_lid;
        restart(*this, now_ns);
    }
    const auto due = std::ranges::min_element(pending, {}, &Pending::due_ns);
    if (due == pending.end() || due->due_ns > now_ns) {
        return std::nullopt;
    }
    sent(*due, trap_interval_ns(sender.subnet_timeout), now_ns);
    quiet_until_ns = now_ns + kMinTrapIntervalNs;
    return trap_mad(*due, sender);
}

std::optional<uint64_t> TrapQueue::deadline_ns(Lid sm) const {
    const auto due = std::ranges::min_element(pending, {}, &Pending::due_ns);
    if (due == pending.end()) {
        return std::nullopt;
    }
    return sm == sm_lid ? std::max(due->due_ns, quiet_until_ns) : quiet_until_ns;
}

void TrapQueue::repress(const Mad& trap_repress) {
    std::erase_if(pending, [&](const Pending& waiting) {
        return waiting.transaction_id == trap_repress.transaction_id();
    });
}

}  // namespace pib::ib
