// SPDX-License-Identifier: GPL-2.0-or-later
// The forwarding tables of one switch (IBA 18.2.4.3), linear and multicast. Subnet management
// writes them in blocks; the packet relay looks up LIDs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/growing_table.h"
#include "ib/wire/mad.h"
#include "ib/wire/types.h"

namespace pib::fabric {

// LFT entry of a LID that is not forwarded (IBA 14.2.5.10).
inline constexpr uint8_t kNoPort = 0xFF;

class LinearForwardingTable {
  public:
    // `cap` is LinearFDBCap: the table has entries for LIDs 0 .. cap - 1.
    explicit LinearForwardingTable(uint16_t cap) : ports_(cap) {}

    [[nodiscard]] uint16_t cap() const { return static_cast<uint16_t>(ports_.size()); }
    // SwitchInfo:LinearFDBTop. Packets to higher LIDs are not forwarded.
    [[nodiscard]] uint16_t top() const { return top_; }
    void set_top(uint16_t top) {
        changes_ += top != top_;
        top_ = top;
    }
    // The number of LIDs up to the highest that has ever had a port.
    [[nodiscard]] size_t used() const { return ports_.used(); }
    // The number of changes that subnet management has made to entries and to top().
    [[nodiscard]] uint64_t changes() const { return changes_; }

    [[nodiscard]] uint8_t port(ib::Lid dlid) const {
        return dlid.value() <= top_ ? ports_[dlid.value()] : kNoPort;
    }
    using Block = std::span<uint8_t, ib::kLftEntriesPerBlock>;
    using ConstBlock = std::span<const uint8_t, ib::kLftEntriesPerBlock>;
    // False: the whole block is past the table's end. Single entries past it read as kNoPort, and
    // writes to them have no effect.
    [[nodiscard]] bool read_block(uint32_t block, Block out) const;
    [[nodiscard]] bool write_block(uint32_t block, ConstBlock in);

  private:
    GrowingTable<uint8_t, kNoPort> ports_;
    uint16_t top_ = 0;
    uint64_t changes_ = 0;
};

// A set of ports of a switch: bit N is port N, at most 63.
using PortMask = uint64_t;

class MulticastForwardingTable {
  public:
    // `cap` is MulticastFDBCap: the table has entries for `cap` LIDs from 0xC000 on.
    explicit MulticastForwardingTable(uint16_t cap) : masks_(cap) {}

    [[nodiscard]] uint16_t cap() const { return static_cast<uint16_t>(masks_.size()); }
    [[nodiscard]] uint16_t top() const { return top_; }
    void set_top(uint16_t top) { top_ = top; }

    // nullopt: the LID is outside of the table or above top(), or its entry has no port.
    [[nodiscard]] std::optional<PortMask> ports(ib::Lid dlid) const;

    // A block is 32 LIDs of 16 ports; `position` selects the ports (IBA 14.2.5.12). False: the
    // block lies past the table, or names ports that a mask cannot hold.
    using Block = std::span<uint8_t, ib::kSmpDataSize>;
    using ConstBlock = std::span<const uint8_t, ib::kSmpDataSize>;
    [[nodiscard]] bool read_block(uint32_t block, unsigned position, Block out) const;
    [[nodiscard]] bool write_block(uint32_t block, unsigned position, ConstBlock in);

  private:
    [[nodiscard]] bool in_table(uint32_t block, unsigned position) const {
        return block * ib::kMftEntriesPerBlock < masks_.size() && position < 4;
    }

    GrowingTable<PortMask, 0> masks_;
    uint16_t top_ = 0;  // MulticastFDBTop; 0: all entries are valid
};

}  // namespace pib::fabric
