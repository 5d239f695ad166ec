// SPDX-License-Identifier: GPL-2.0-or-later
// Memory protection table: L_Keys and R_Keys, their rights, and the translation behind them. The
// only way by which a work request or a packet reaches guest memory (IBA vol. 1, 10.6).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "guest_buffer.h"
#include "table.h"

namespace pib::hca {

// The L_Key that means bus addresses (QUERY_DEVICE:privileged_lkey). Index 0 is never given to a
// region.
constexpr uint32_t kPrivilegedLkey = 0x000000ff;

// Who uses a key: the QP's protection domain, and whether it may use the privileged L_Key.
struct KeyUser {
    uint32_t pd;
    bool privileged;
};

// A range named by a key, and the PIB_HCA_ACCESS_* rights its use needs (0: local read).
struct KeyedRange {
    uint32_t key;
    uint64_t addr;
    uint64_t length;
    uint32_t access;
};

struct MemoryRegion {
    uint32_t pd;
    uint32_t access;
    uint64_t iova;
    uint64_t length;
    uint32_t page_offset;
    uint8_t key;
    bool physical;
    GuestBuffer buffer;
};

class Mpt {
  public:
    Mpt(Host& host, uint32_t max_regions, uint64_t max_total_pages);

    // The key. The PD is checked before.
    CmdResult<uint32_t> create(const pib_hca_create_mr& in);
    CmdStatus destroy(uint32_t key);  // BAD_RESOURCE
    void clear();

    // True when `user` may access all of `range`. A zero length needs no valid key (IBA vol. 1,
    // C9-88).
    bool check(const KeyUser& user, const KeyedRange& range) const;

    // Copies at range.addr after check(); range.length must equal the span. False: refused or not
    // RAM.
    bool read(const KeyUser& user, const KeyedRange& range, std::span<uint8_t> to);
    bool write(const KeyUser& user, const KeyedRange& range, std::span<const uint8_t> from);
    // Atomic on the aligned 8 bytes at range.addr (as Host::dma_cmpxchg64).
    bool cmpxchg64(const KeyUser& user, const KeyedRange& range, uint64_t& expected,
                   uint64_t desired);

    uint32_t regions_of_pd(uint32_t pd) const;  // for FREE_PD's BUSY
    uint32_t count() const { return regions_.count(); }

  private:
    // A range that passed: the region, or none for bus addresses, and the offset in its buffer.
    struct Target {
        const MemoryRegion* region = nullptr;
        uint64_t offset = 0;
    };
    bool resolve(const KeyUser& user, const KeyedRange& range, Target& target) const;
    const MemoryRegion* find(uint32_t key) const;
    CmdResult<MemoryRegion> load(const pib_hca_create_mr& in);

    Host& host_;
    mutable Table<MemoryRegion> regions_;
    uint64_t max_total_pages_;
    uint64_t pages_left_;
    std::unordered_map<uint32_t, uint32_t> regions_of_pd_;
};

}  // namespace pib::hca
