// SPDX-License-Identifier: GPL-2.0-or-later
// Which data VL of a port sends next: the two-level weighted arbitration of IBA 7.6.9. VL15 is not
// its business, it always comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ib/mgmt/port_attrs.h"

namespace pib::fabric {

// Data VLs with a packet that could be sent now, bit per VL.
using VlMask = std::uint16_t;

class VlArbiter {
  public:
    // The port's tables and PortInfo:VLHighLimit; they are referred to, and must stay.
    explicit VlArbiter(const ib::Port& port) : port_(port) {}

    // The VL that sends one packet of `ready`; account() has to follow when it did. A VL that no
    // table lists is served when no listed one is ready.
    [[nodiscard]] std::optional<unsigned> choose(VlMask ready);
    void account(std::size_t bytes);
    // After a change of the tables.
    void restart();

  private:
    // Position in one table and what is left of the entry's weight, in 64-byte units.
    struct Cursor {
        std::size_t index = 0;
        int left = 0;
    };
    using Table = std::span<const ib::VlArbEntry>;

    static std::optional<unsigned> advance(Table table, Cursor& cursor, VlMask ready);
    [[nodiscard]] bool high_may_send() const;

    const ib::Port& port_;
    Cursor high_;
    Cursor low_;
    std::int64_t high_sent_ = 0;  // bytes since a low-priority packet had its turn
    enum class Source : std::uint8_t { kHigh, kLow, kNone } last_ = Source::kNone;
};

}  // namespace pib::fabric
