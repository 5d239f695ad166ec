// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/mcast_table.h"

#include <algorithm>

namespace pib::hca {
namespace {

using Key = std::pair<ib::Gid, ib::Lid>;

Key key_of(const McastGroup& group) {
    return {group.mgid, group.mlid};
}

constexpr uint16_t kLastMlid = 0xfffe;

Verdict check(const McastGroup& group) {
    if (!group.mgid.is_multicast()) {
        return refuse(Rule::kMcastGid, 0, group.mgid.bytes[0]);
    }
    return group.mlid.is_multicast() ? CmdStatus::kOk
                                     : refuse(Rule::kMcastLid, group.mlid.value(), kLastMlid);
}

}  // namespace

Verdict McastTable::attach(const McastGroup& group, uint32_t qpn, bool& added) {
    added = false;
    if (const Verdict status = check(group); status != CmdStatus::kOk) {
        return status;
    }
    const Key key = key_of(group);
    auto found = groups_.find(key);
    if (found == groups_.end()) {
        if (groups_.size() >= Limits::kMcastGroups) {
            return refuse(Rule::kMcastGroups, 0, Limits::kMcastGroups);
        }
        found = groups_.try_emplace(key).first;
    }
    std::vector<uint32_t>& members = found->second;
    if (std::ranges::find(members, qpn) != members.end()) {
        return CmdStatus::kOk;
    }
    if (members.size() >= Limits::kMcastAttachPerGroup) {
        return refuse(Rule::kMcastMembers, 0, Limits::kMcastAttachPerGroup);
    }
    members.push_back(qpn);
    added = true;
    return CmdStatus::kOk;
}

Verdict McastTable::detach(const McastGroup& group, uint32_t qpn) {
    if (const Verdict status = check(group); status != CmdStatus::kOk) {
        return status;
    }
    const auto found = groups_.find(key_of(group));
    if (found == groups_.end() || std::erase(found->second, qpn) == 0) {
        return refuse(Rule::kMcastDetached, qpn);
    }
    if (found->second.empty()) {
        groups_.erase(found);
    }
    return CmdStatus::kOk;
}

std::span<const uint32_t> McastTable::members(const ib::Gid& mgid, ib::Lid mlid) const {
    const auto found = groups_.find({mgid, mlid});
    if (found == groups_.end()) {
        return {};
    }
    return found->second;
}

}  // namespace pib::hca
