// SPDX-License-Identifier: GPL-2.0-or-later
// Memory protection table: L_Keys and R_Keys, their rights, and the memory behind them. Work
// requests and packets reach guest memory only through this table (IBA vol. 1, 10.6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "base/verdict.h"
#include "memory/key_check.h"
#include "memory/key_table.h"
#include "memory/memory_watch.h"
#include "memory/memory_windows.h"
#include "memory/registration.h"
#include "memory/sg_list.h"

namespace pib::hca {

class Mpt {
  public:
    Mpt(Host& host, uint32_t max_keys, uint64_t max_total_pages,
        NumberChoice choice = NumberChoice::kRound);

    // Returns the key. The caller has checked the PD.
    CmdResult<uint32_t> create(const Registration& in);
    // Errors: BAD_RESOURCE (there is no such region), BUSY (windows are bound to it).
    Verdict destroy(uint32_t key);
    // Returns the new key. Errors: those of create() and destroy(), and BAD_PARAM for a physical,
    // fast or on-demand region. A refusal leaves the region unchanged.
    CmdResult<uint32_t> reregister(uint32_t key, const Reregistration& in);
    CmdResult<uint32_t> alloc_window(const WindowRequest& in) { return windows_.alloc(in); }
    // Error: BAD_RESOURCE (there is no such window).
    Verdict dealloc_window(uint32_t rkey) { return windows_.dealloc(rkey); }
    void clear();

    // Work requests on keys. False is a memory management operation error (IBA 11.6.2), and nothing
    // has changed. The caller has checked reserved fields.
    [[nodiscard]] bool bind(const KeyUser& user, const WindowBinding& in) {
        return windows_.bind(user, in);
    }
    [[nodiscard]] bool fast_register(const KeyUser& user, const FastRegistration& in);
    [[nodiscard]] bool invalidate_local(const KeyUser& user, uint32_t key) {
        return invalidate(user, key, false);
    }
    // Executes the invalidation of a SEND with Invalidate from the peer (IBA 9.4.1.1.3).
    [[nodiscard]] bool invalidate_remote(const KeyUser& user, uint32_t rkey) {
        return invalidate(user, rkey, true);
    }
    // Call unbind_all_of() before a QP is destroyed or reset. The command that does so completes
    // when is_unbinding() is false.
    MemoryWindows& windows() { return windows_; }

    // True when `user` may access all of `range`. A zero length needs no valid key (IBA vol. 1,
    // C9-88).
    [[nodiscard]] bool check(const KeyUser& user, const KeyedRange& range) const;

    // Copy from or to range.addr after the checks of check(); range.length must be the size of the
    // span. False: the access is not permitted, or a part is not RAM, or a page is absent, which
    // take_miss() reports; in the last two cases a prefix may have been copied.
    [[nodiscard]] bool read(const KeyUser& user, const KeyedRange& range, std::span<uint8_t> to);
    [[nodiscard]] bool write(const KeyUser& user, const KeyedRange& range,
                             std::span<const uint8_t> from);
    // Adds the location of the range to `out`, for a peer copy. False: the access is not permitted,
    // `out` has no room for the key, or a part has no lasting host address; then a prefix may have
    // been added.
    [[nodiscard]] bool locate(const KeyUser& user, const KeyedRange& range, SgList& out) const;
    // Executes Host::dma_cmpxchg64() on the 8 bytes at range.addr. False: as read(), or the bus
    // address of these bytes is not a multiple of 8.
    [[nodiscard]] bool cmpxchg64(const KeyUser& user, const KeyedRange& range, uint64_t& expected,
                                 uint64_t desired);

    // The absent page that made the last read(), write() or cmpxchg64() fail, if any.
    [[nodiscard]] std::optional<PageMiss> take_miss() { return std::exchange(miss_, std::nullopt); }

    // Whether a FLUSH with the rights of range.access may name the range or, with `whole`, the
    // whole region or window of the key.
    [[nodiscard]] bool may_flush(const KeyUser& user, const KeyedRange& range, bool whole) const {
        return hca::may_flush(keys_, user, range, whole);
    }
    // Makes all earlier writes visible to the whole guest.
    void flush() { host_.dma_barrier(); }

    // `watch` must outlive the table; nullptr: no observer.
    void set_watch(MemoryWatch* watch) {
        watch_ = watch;
        windows_.set_watch(watch);
    }

    // The table of regions and windows; FREE_PD and the dump of objects count its entries.
    const KeyTable& keys() const { return keys_; }
    // Calls f(key with key byte 0, region or window) if the key's index is in use.
    template <typename F>
    void look_at(uint32_t key, F&& f) const {
        const uint32_t number = KeyTable::number_of(key);
        if (const MemoryKey* entry = keys_.find(number)) {
            std::visit([&](const auto& e) { f(KeyTable::key_of(number), e); }, *entry);
        }
    }
    // Calls f with the arguments of look_at() for all keys in use.
    template <typename F>
    void visit(F&& f) const {
        keys_.for_each([&](uint32_t number, const MemoryKey& entry) {
            std::visit([&](const auto& e) { f(KeyTable::key_of(number), e); }, entry);
        });
    }

  private:
    [[nodiscard]] bool invalidate(const KeyUser& user, uint32_t key, bool remote);

    Host& host_;
    MemoryWatch* watch_ = nullptr;
    std::optional<PageMiss> miss_;
    KeyTable keys_;
    MemoryWindows windows_{keys_};
    uint64_t max_total_pages_;
    uint64_t pages_left_;
};

}  // namespace pib::hca
