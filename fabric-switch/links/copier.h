// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy at one link of the switch: the unfinished offers that were sent to its adapter, and the
// adapter's pull (docs/fabric-protocol.md, "Peer copy").
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "links/adapter_memory.h"

namespace pib::fabric {

// Counts since the adapter shared its memory.
struct CopyCounts {
    uint64_t forwarded = 0;   // offers of the adapter that were forwarded or dropped whole
    uint64_t split = 0;       // offers forwarded as packets
    uint64_t lost = 0;        // offers that were no longer valid
    uint64_t bytes = 0;       // copied to the adapter
    uint64_t pulls = 0;       // pulls that succeeded
    uint64_t unfinished = 0;  // pulls that were cancelled, or whose offer was revoked
    uint64_t refused = 0;     // pulls to memory that was not registered
};

// The offers sent to an adapter, numbered from 1. At most kSize are unfinished, because an adapter
// may never finish an offer.
class OfferTable {
  public:
    static constexpr uint64_t kSize = 256;

    explicit OfferTable(const AdapterMemory& reader) : reader_(reader) {}
    // The number of the next offer; nullopt while the table is full.
    [[nodiscard]] std::optional<uint64_t> next();
    // Adds the offer with the number next().
    void add(const OfferRecord& offer);
    // The offer with this number; nullptr: no such offer, or it is finished.
    [[nodiscard]] const OfferRecord* find(uint64_t handle);

  private:
    void look();

    const AdapterMemory& reader_;
    uint64_t given_ = 0;
    uint64_t finished_ = 0;
    std::array<OfferRecord, kSize> offers_;
};

class Copier {
  public:
    explicit Copier(std::shared_ptr<const AdapterMemory> own);
    ~Copier() { give_up(); }
    Copier(const Copier&) = delete;
    Copier& operator=(const Copier&) = delete;

    // The adapter's memory; nullptr after give_up().
    [[nodiscard]] const std::shared_ptr<const AdapterMemory>& memory() const { return own_; }
    [[nodiscard]] OfferTable& table() { return table_; }
    // kOfferRoom bytes for offers that are split into packets.
    [[nodiscard]] std::span<uint8_t> room() { return {room_.get(), link::kOfferRoom}; }
    [[nodiscard]] CopyCounts& counts() { return counts_; }
    [[nodiscard]] const CopyCounts& counts() const { return counts_; }

    // Begins a pull. The error names the peer's violation of the protocol.
    [[nodiscard]] std::expected<void, std::string> start(const link::Pull& pull);
    [[nodiscard]] bool is_copying() const { return pull_.has_value(); }
    // Copies at most `bytes` bytes of the pull; true: the pull has been answered.
    [[nodiscard]] bool step(uint64_t bytes);
    // The connection ends: answers the current pull with kGone, and releases the memory.
    void give_up();

  private:
    [[nodiscard]] link::PullResult copy(uint64_t bytes);
    void answer(link::PullResult result);

    std::shared_ptr<const AdapterMemory> own_;
    OfferTable table_;
    std::unique_ptr<uint8_t[]> room_;
    CopyCounts counts_;
    std::optional<link::Pull> pull_;
    OfferRecord offer_;  // offer of the pull
    SegmentCursor from_, to_;
    uint64_t left_ = 0;  // bytes
};

}  // namespace pib::fabric
