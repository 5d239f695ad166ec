// SPDX-License-Identifier: GPL-2.0-or-later
// Memory protection table: L_Keys and R_Keys, their rights, and the translation behind them. The
// only way by which a work request or a packet reaches guest memory (IBA vol. 1, 10.6).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/table.h"
#include "memory/guest_buffer.h"
#include "memory/located.h"
#include "memory/on_demand.h"

namespace pib::hca {

// The L_Key for bus addresses (QUERY_DEVICE:privileged_lkey). No region gets index 0.
constexpr uint32_t kPrivilegedLkey = 0x000000ff;

// User of a key: the QP's protection domain, its right to the privileged L_Key, and the QP itself,
// to which windows of type 2 are bound.
struct KeyUser {
    uint32_t pd;
    bool privileged;
    uint32_t qpn = UINT32_MAX;
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
    bool fast;            // PIB_HCA_MR_FAST
    bool valid;           // false: a fast region in the Free state (IBA 10.6.4.1)
    uint32_t fast_pages;  // the most pages that a fast region may get
    uint32_t windows;     // bound to it
    bool on_demand;       // PIB_HCA_MR_ON_DEMAND: translated by `table`, not by `buffer`
    OnDemandTable table;
    uint32_t number;  // in the table of keys
    GuestBuffer buffer;
};

struct MemoryWindow {
    uint32_t pd;
    uint8_t type;  // PIB_HCA_MW_TYPE_*
    uint8_t key;
    // The binding. Without one: Free (type 2), or bound to nothing (type 1).
    bool bound;
    uint32_t access;
    uint64_t addr;  // in the region's address space
    uint64_t length;
    uint32_t region;  // its number in the table
    uint32_t qpn;     // type 2: by which it was bound
};

// Observer of added and removed memory (one_copy.h).
class MemoryWatch {
  public:
    virtual ~MemoryWatch() = default;
    // A region with a page list may be used from now on.
    virtual void region_comes(const MemoryRegion& region) = 0;
    // The region or window with this number is being destroyed: when the call returns, the switch
    // no longer accesses its memory.
    virtual void key_goes(uint32_t number) = 0;
    // Called after key_goes() for a region that stays unchanged.
    virtual void region_goes(const MemoryRegion& region) = 0;
    // All keys go.
    virtual void keys_cleared() = 0;
};

class Mpt {
  public:
    Mpt(Host& host, uint32_t max_keys, uint64_t max_total_pages);

    // The key. The PD is checked before.
    CmdResult<uint32_t> create(const pib_hca_create_mr& in);
    CmdStatus destroy(uint32_t key);  // BAD_RESOURCE; BUSY while windows are bound
    // The region under its new key. BAD_RESOURCE; BUSY while windows are bound; BAD_PARAM also for
    // what is no region of memory's own. Refused, it stays as it was.
    CmdResult<uint32_t> reregister(uint32_t key, const pib_hca_rereg_mr& in);
    CmdResult<uint32_t> alloc_window(const pib_hca_alloc_mw& in);
    CmdStatus dealloc_window(uint32_t rkey);  // BAD_RESOURCE
    void clear();

    // Work requests on keys. False is a memory management operation error (IBA 11.6.2), and nothing
    // has changed. Reserved fields are checked before.
    bool bind(const KeyUser& user, const pib_hca_wqe_bind& in);
    bool fast_register(const KeyUser& user, const pib_hca_wqe_reg& in);
    bool invalidate_local(const KeyUser& user, uint32_t key);
    // By a SEND with Invalidate (IBA 9.4.1.1.3).
    bool invalidate_remote(const KeyUser& user, uint32_t rkey);
    // The QP is destroyed or reset: frees the windows of type 2 that it has bound.
    void unbind_windows_of(uint32_t qpn);

    // True when `user` may access all of `range`. A zero length needs no valid key (IBA vol. 1,
    // C9-88).
    bool check(const KeyUser& user, const KeyedRange& range) const;

    // Copies at range.addr after check(); range.length must equal the span. False: refused, not
    // RAM, or an absent page, which take_miss() reports; then a prefix may have been copied.
    bool read(const KeyUser& user, const KeyedRange& range, std::span<uint8_t> to);
    bool write(const KeyUser& user, const KeyedRange& range, std::span<const uint8_t> from);
    // Adds the location of the range to `out`, for callers that move the bytes themselves. False:
    // refused as by read() and write(), or a part has no lasting host address; then a prefix may
    // have been added.
    bool locate(const KeyUser& user, const KeyedRange& range, Located& out) const;
    // Atomic on the aligned 8 bytes at range.addr (as Host::dma_cmpxchg64).
    bool cmpxchg64(const KeyUser& user, const KeyedRange& range, uint64_t& expected,
                   uint64_t desired);

    // The absent page that made the last read(), write() or cmpxchg64() fail, if any.
    std::optional<PageMiss> take_miss() { return std::exchange(miss_, std::nullopt); }

    // Whether a FLUSH with the rights of range.access may name the range or, with `whole`, the
    // whole region or window of the key.
    bool may_flush(const KeyUser& user, const KeyedRange& range, bool whole) const;
    // Makes all earlier writes visible to the whole guest.
    void flush() { host_.dma_barrier(); }

    // Outlives the table; nullptr: nobody.
    void set_watch(MemoryWatch* watch) { watch_ = watch; }

    uint32_t keys_of_pd(uint32_t pd) const;  // for FREE_PD's BUSY
    uint32_t count() const { return keys_.count(); }
    // f(key without its key byte, region or window), if the key's index is in use.
    template <typename F>
    void look_at(uint32_t key, F&& f) const {
        const uint32_t number = number_of(key);
        if (const MemoryKey* entry = keys_.find(number)) {
            std::visit([&](const auto& e) { f(key_of(number), e); }, *entry);
        }
    }
    // The same for all of them.
    template <typename F>
    void visit(F&& f) const {
        keys_.for_each([&](uint32_t number, const MemoryKey& entry) {
            std::visit([&](const auto& e) { f(key_of(number), e); }, entry);
        });
    }

  private:
    using MemoryKey = std::variant<MemoryRegion, MemoryWindow>;

    // A checked range: the region, or none for bus addresses, and the offset in its buffer.
    struct Target {
        const MemoryRegion* region = nullptr;
        uint64_t offset = 0;
    };
    bool resolve(const KeyUser& user, const KeyedRange& range, Target& target) const;
    bool resolve_region(const MemoryRegion& region, const KeyedRange& range, Target& target) const;
    bool resolve_window(const MemoryWindow& window, const KeyUser& user, const KeyedRange& range,
                        Target& target) const;
    // Bus address of the byte of an on-demand region; records the miss.
    std::optional<uint64_t> demand(const Target& target, const KeyedRange& range, uint64_t done,
                                   bool for_write);
    // piece(bus address, position, bytes) for each page of the range, until one returns false.
    template <typename Piece>
    bool for_each_page(const Target& target, const KeyedRange& range, bool for_write,
                       Piece&& piece);
    // The table number of a key.
    static uint32_t number_of(uint32_t key);
    static uint32_t key_of(uint32_t number);  // its key byte is 0
    // By number; nullptr when it is not there or of the other kind.
    MemoryRegion* region_at(uint32_t number) const;
    MemoryWindow* window_at(uint32_t number) const;
    // The region with this key, valid or not.
    MemoryRegion* find_region(uint32_t key) const;
    CmdResult<MemoryRegion> load(const pib_hca_create_mr& in);
    void region_goes(const MemoryRegion& region);
    void leave_pd(uint32_t pd);
    CmdResult<uint32_t> insert(MemoryKey entry, uint32_t pd, uint8_t key_byte);
    void erase(uint32_t number, uint32_t pd);
    // The region to which `in` may bind a window, or nullptr.
    MemoryRegion* region_to_bind(const KeyUser& user, const pib_hca_wqe_bind& in) const;
    void unbind(MemoryWindow& window, uint32_t number);
    bool invalidate(const KeyUser& user, uint32_t key, bool remote);
    bool invalidate_region(MemoryRegion& region, const KeyUser& user, uint8_t key, bool remote);
    bool invalidate_window(MemoryWindow& window, uint32_t number, const KeyUser& user, uint8_t key,
                           bool remote);

    Host& host_;
    MemoryWatch* watch_ = nullptr;
    std::optional<PageMiss> miss_;
    mutable Table<MemoryKey> keys_;
    uint64_t max_total_pages_;
    uint64_t pages_left_;
    std::unordered_map<uint32_t, uint32_t> keys_of_pd_;
    std::set<std::pair<uint32_t, uint32_t>> windows_of_qp_;  // QPN, the window's number
};

}  // namespace pib::hca
