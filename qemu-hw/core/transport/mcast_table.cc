// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/mcast_table.h"

#include <algorithm>

namespace pib::hca {
namespace {

using Key = std::pair<ib::Gid, ib::Lid>;

Key key_of(const pib_hca_mcast& group) {
    Key key{ib::Gid{}, ib::Lid(group.mlid)};
    std::ranges::copy(group.mgid, key.first.bytes.begin());
    return key;
}

CmdStatus check(const pib_hca_mcast& group) {
    if (!std::ranges::all_of(group.reserved, [](uint8_t byte) { return byte == 0; })) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const Key key = key_of(group);
    return key.first.is_multicast() && key.second.is_multicast() ? PIB_HCA_CMD_STATUS_OK
                                                                 : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

}  // namespace

CmdStatus McastTable::attach(const pib_hca_mcast& group, uint32_t qpn, bool& added) {
    added = false;
    if (const CmdStatus status = check(group); status != PIB_HCA_CMD_STATUS_OK) {
        return status;
    }
    const Key key = key_of(group);
    auto found = groups_.find(key);
    if (found == groups_.end()) {
        if (groups_.size() >= Limits::kMcastGroups) {
            return PIB_HCA_CMD_STATUS_NO_RESOURCES;
        }
        found = groups_.try_emplace(key).first;
    }
    std::vector<uint32_t>& members = found->second;
    if (std::ranges::find(members, qpn) != members.end()) {
        return PIB_HCA_CMD_STATUS_OK;
    }
    if (members.size() >= Limits::kMcastAttachPerGroup) {
        return PIB_HCA_CMD_STATUS_NO_RESOURCES;
    }
    members.push_back(qpn);
    added = true;
    return PIB_HCA_CMD_STATUS_OK;
}

CmdStatus McastTable::detach(const pib_hca_mcast& group, uint32_t qpn) {
    if (const CmdStatus status = check(group); status != PIB_HCA_CMD_STATUS_OK) {
        return status;
    }
    const auto found = groups_.find(key_of(group));
    if (found == groups_.end() || std::erase(found->second, qpn) == 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (found->second.empty()) {
        groups_.erase(found);
    }
    return PIB_HCA_CMD_STATUS_OK;
}

std::span<const uint32_t> McastTable::members(const ib::Gid& mgid, ib::Lid mlid) const {
    const auto found = groups_.find({mgid, mlid});
    if (found == groups_.end()) {
        return {};
    }
    return found->second;
}

}  // namespace pib::hca
