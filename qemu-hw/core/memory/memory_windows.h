// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows: allocation, binding, invalidation (IBA vol. 1, 10.6.7).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/verdict.h"
#include "memory/key_check.h"
#include "memory/memory_watch.h"
#include "memory/registration.h"

namespace pib::hca {

class MemoryWindows {
  public:
    explicit MemoryWindows(KeyTable& keys) : keys_(keys) {}

    void set_watch(MemoryWatch* watch) { watch_ = watch; }
    CmdResult<uint32_t> alloc(const WindowRequest& in);
    Verdict dealloc(uint32_t rkey);
    // Execute work requests. False, without effect: memory management operation error (IBA 11.6.2).
    [[nodiscard]] bool bind(const KeyUser& user, const WindowBinding& in);
    [[nodiscard]] bool invalidate(uint32_t number, const KeyUser& user, uint8_t key, bool remote);
    // Frees the windows of type 2 that the QP has bound, at most kUnbindsPerCall in each call.
    // While is_unbinding() is true, windows are left; the caller destroys no key and calls
    // unbind_more() again.
    static constexpr uint32_t kUnbindsPerCall = 1024;
    void unbind_all_of(uint32_t qpn) {
        unbinding_ = qpn;
        unbind_more();
    }
    void unbind_more();
    [[nodiscard]] bool is_unbinding() const { return unbinding_.has_value(); }
    void clear() {
        of_qp_.clear();
        unbinding_.reset();
    }

  private:
    const MemoryRegion* region_to_bind(const KeyUser& user, const WindowBinding& in) const;
    void unbind(MemoryWindow& window, uint32_t number);

    KeyTable& keys_;
    MemoryWatch* watch_ = nullptr;
    std::set<std::pair<uint32_t, uint32_t>> of_qp_;  // QPN, number of a window of type 2
    std::optional<uint32_t> unbinding_;              // the QP whose windows are being freed
};

}  // namespace pib::hca
