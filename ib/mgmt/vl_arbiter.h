// SPDX-License-Identifier: GPL-2.0-or-later
// Which data VL of a port sends next: the two-level weighted arbitration of IBA 7.6.9. VL15 is not
// its business, it always comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ib/mgmt/port_attrs.h"

namespace pib::ib {

// Data VLs with a packet that could be sent now, bit per VL.
using VlMask = std::uint16_t;

class VlArbiter {
  public:
    // The port's tables and PortInfo:VLHighLimit; they are referred to, and must stay.
    explicit VlArbiter(const Port& port) : port_(port) {}

    // The VL that sends one packet of `ready`; account() has to follow when it did. A VL that no
    // table lists is served when no listed one is ready.
    [[nodiscard]] std::optional<unsigned> choose(VlMask ready);
    // Bytes that the last chosen VL may still send in one batch: until then choose() would choose
    // it again, if the same VLs stay ready. A packet counts as the next multiple of 64. The last
    // packet may exceed the number, as it may exceed a weight. At least 1.
    [[nodiscard]] std::uint32_t allowance() const;
    // A packet of the VL that was chosen last has gone, LRH to end of padding.
    void account(std::size_t bytes);
    // After a change of the tables.
    void restart();

  private:
    // Position in one table and what is left of the entry's weight, in 64-byte units.
    struct Cursor {
        std::size_t index = 0;
        int left = 0;
    };
    using Table = std::span<const VlArbEntry>;

    static std::optional<unsigned> advance(Table table, Cursor& cursor, VlMask ready);
    [[nodiscard]] bool high_may_send() const;
    [[nodiscard]] std::optional<std::int64_t> high_limit() const;

    const Port& port_;
    Cursor high_;
    Cursor low_;
    std::int64_t high_sent_ = 0;  // bytes since a low-priority packet had its turn
    enum class Source : std::uint8_t { kHigh, kLow, kNone } last_ = Source::kNone;
    // When `last_` was chosen, a VL of the other table was ready, too.
    bool other_waits_ = false;
};

}  // namespace pib::ib
