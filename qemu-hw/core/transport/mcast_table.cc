// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/mcast_table.h"

#include <algorithm>

namespace pib::hca {
namespace {

using Key = std::pair<ib::Gid, ib::Lid>;

Key key_of(const McastGroup& group) {
    return {group.mgid, group.mlid};
}

CmdStatus check(const McastGroup& group) {
    return group.mgid.is_multicast() && group.mlid.is_multicast() ? CmdStatus::kOk
                                                                  : CmdStatus::kBadParam;
}

}  // namespace

CmdStatus McastTable::attach(const McastGroup& group, uint32_t qpn, bool& added) {
    added = false;
    if (const CmdStatus status = check(group); status != CmdStatus::kOk) {
        return status;
    }
    const Key key = key_of(group);
    auto found = groups_.find(key);
    if (found == groups_.end()) {
        if (groups_.size() >= Limits::kMcastGroups) {
            return CmdStatus::kNoResources;
        }
        found = groups_.try_emplace(key).first;
    }
    std::vector<uint32_t>& members = found->second;
    if (std::ranges::find(members, qpn) != members.end()) {
        return CmdStatus::kOk;
    }
    if (members.size() >= Limits::kMcastAttachPerGroup) {
        return CmdStatus::kNoResources;
    }
    members.push_back(qpn);
    added = true;
    return CmdStatus::kOk;
}

CmdStatus McastTable::detach(const McastGroup& group, uint32_t qpn) {
    if (const CmdStatus status = check(group); status != CmdStatus::kOk) {
        return status;
    }
    const auto found = groups_.find(key_of(group));
    if (found == groups_.end() || std::erase(found->second, qpn) == 0) {
        return CmdStatus::kBadResource;
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
