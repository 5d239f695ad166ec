// SPDX-License-Identifier: GPL-2.0-or-later
// Multicast groups and the QPs attached to them (IBA vol. 1, 10.5). A group is a GID and the LID
// that subnet management gave it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/verdict.h"
#include "ib/wire/types.h"

namespace pib::hca {

struct McastGroup {
    ib::Gid mgid;
    ib::Lid mlid;
};

class McastTable {
  public:
    // Attaches a QP; `added`: the QP was not attached before. A QP that is attached twice gets one
    // copy of each packet (IBA 11.3.1). Errors: BAD_PARAM, MGID or MLID; NO_RESOURCES.
    Verdict attach(const McastGroup& group, uint32_t qpn, bool& added);
    // Detaches a QP. Errors: BAD_PARAM, MGID or MLID; BAD_RESOURCE, the QP is not attached.
    Verdict detach(const McastGroup& group, uint32_t qpn);
    // The QPs attached to a group, in the order of their attachment.
    std::span<const uint32_t> members(const ib::Gid& mgid, ib::Lid mlid) const;
    void clear() { groups_.clear(); }

  private:
    using Key = std::pair<ib::Gid, ib::Lid>;
    std::map<Key, std::vector<uint32_t>> groups_;
};

}  // namespace pib::hca
