// SPDX-License-Identifier: GPL-2.0-or-later
// Chooses the data VL whose packet a port sends next: the two-level weighted arbitration of IBA
// 7.6.9. VL15 precedes all others and is not arbitrated here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ib/mgmt/port_attrs.h"

namespace pib::ib {

// Data VLs with a packet that could be sent now, one bit per VL.
using VlMask = uint16_t;

class VlArbiter {
  public:
    // Refers to the port's tables and PortInfo:VLHighLimit, which must outlive the arbiter.
    explicit VlArbiter(const PortAttrs& port) : port_(port) {}

    // The VL of the set `ready` that may send one packet; call account() when it has. The set is
    // not empty. A VL that no table lists is chosen when no listed VL is ready.
    [[nodiscard]] unsigned choose(VlMask ready);
    // Bytes, at least 1, for which choose() would choose the last chosen VL again if the same VLs
    // stay ready: the VL may send them in one batch. A packet counts as the next multiple of 64
    // bytes. The last packet may exceed the number, as it may exceed a weight.
    [[nodiscard]] uint32_t allowance() const;
    // A packet of the VL that was chosen last has been sent; `bytes` is LRH to the end of padding.
    void account(size_t bytes);
    // Call after a change of the tables.
    void restart();

  private:
    // The current entry of one table, and the unused part of its weight in units of 64 bytes.
    struct Cursor {
        size_t index = 0;
        int left = 0;
    };
    using Table = std::span<const VlArbEntry>;

    [[nodiscard]] static unsigned advance(Table table, Cursor& cursor, VlMask ready);
    [[nodiscard]] bool high_may_send() const;
    [[nodiscard]] std::optional<int64_t> high_limit() const;

    const PortAttrs& port_;
    Cursor high_;
    Cursor low_;
    int64_t high_sent_ = 0;  // bytes of high priority since the last low-priority packet
    enum class Source : uint8_t { kHigh, kLow, kNone } last_ = Source::kNone;
    // a VL of the other table was also ready when `last_` was chosen
    bool other_waits_ = false;
};

}  // namespace pib::ib
