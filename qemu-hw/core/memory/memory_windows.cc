// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/memory_windows.h"

#include "base/access.h"
#include "memory/mpt_rules.h"
#include "memory/registration.h"

namespace pib::hca {

namespace {

uint8_t key_byte(uint32_t key) {
    return static_cast<uint8_t>(key & 0xff);
}

}  // namespace

CmdResult<uint32_t> MemoryWindows::alloc(const WindowRequest& in) {
    if (in.type != kWindowType1 && in.type != kWindowType2) {
        return std::unexpected(refuse(Rule::kWindowType, in.type));
    }
    if (keys_.is_full()) {
        return std::unexpected(refuse(Rule::kObjectLimit, 0, keys_.capacity()));
    }
    MemoryWindow window{};
    window.pd = in.pd;
    window.type = in.type;
    window.key = in.key;
    return KeyTable::key_of(keys_.insert(window, in.pd)) | in.key;
}

Verdict MemoryWindows::dealloc(uint32_t rkey) {
    const uint32_t number = KeyTable::number_of(rkey);
    MemoryWindow* window = keys_.window(number);
    if (window == nullptr) {
        return refuse(Rule::kNoWindow, rkey);
    }
    unbind(*window, number);
    keys_.erase(number, window->pd);
    return CmdStatus::kOk;
}

void MemoryWindows::unbind(MemoryWindow& window, uint32_t number) {
    if (!window.bound) {
        return;
    }
    if (watch_ != nullptr) {
        watch_->key_revoked(number);
    }
    window.bound = false;
    --keys_.region(window.region)->windows;
    if (window.type == kWindowType2) {
        of_qp_.erase({window.qpn, number});
    }
}

void MemoryWindows::unbind_more() {
    for (uint32_t n = 0; unbinding_; ++n) {
        const auto it = of_qp_.lower_bound({*unbinding_, 0});
        if (it == of_qp_.end() || it->first != *unbinding_) {
            unbinding_.reset();
        } else if (n == kUnbindsPerCall) {
            return;
        } else {
            const uint32_t number = it->second;
            unbind(*keys_.window(number), number);
        }
    }
}

// Returns the region if the window may be bound to it (IBA 10.6.7.2.1): the region has the QP's PD,
// permits binding and contains the range. If the window permits remote writes or atomics, the
// region permits local writes.
const MemoryRegion* MemoryWindows::region_to_bind(const KeyUser& user,
                                                  const WindowBinding& in) const {
    const MemoryRegion* region = keys_.region_with(in.lkey);
    if (region == nullptr || region->is_free() || region->pd != user.pd ||
        (region->access & access::kMwBind) == 0) {
        return nullptr;
    }
    const bool may_write = (region->access & access::kLocalWrite) != 0;
    const KeyedRange range{.key = in.lkey, .addr = in.addr, .length = in.length, .access = 0};
    Target target;
    const bool fits = (may_write || !writes_remotely(in.access)) &&
                      range_is_sane(in.addr, in.length) && resolve_region(*region, range, target);
    return fits ? region : nullptr;
}

bool MemoryWindows::bind(const KeyUser& user, const WindowBinding& in) {
    const uint32_t number = KeyTable::number_of(in.rkey);
    MemoryWindow* window = keys_.window(number);
    if (window == nullptr || window->pd != user.pd || window->key == key_byte(in.rkey)) {
        return false;
    }
    const bool type_1 = window->type == kWindowType1;
    if (type_1 && in.length == 0) {
        unbind(*window, number);
        window->key = key_byte(in.rkey);
        return true;
    }
    if (region_to_bind(user, in) == nullptr || (in.access & ~kWindowAccess) != 0 ||
        (!type_1 && window->bound)) {
        return false;
    }
    unbind(*window, number);
    ++keys_.region(KeyTable::number_of(in.lkey))->windows;
    *window = {.pd = window->pd,
               .type = window->type,
               .key = key_byte(in.rkey),
               .bound = true,
               .access = in.access,
               .addr = in.addr,
               .length = in.length,
               .region = KeyTable::number_of(in.lkey),
               .qpn = user.qpn};
    if (!type_1) {
        of_qp_.insert({user.qpn, number});
    }
    return true;
}

// Windows of type 1 cannot be invalidated: a bind of length 0 unbinds them (IBA 10.6.7.2.4).
bool MemoryWindows::invalidate(uint32_t number, const KeyUser& user, uint8_t key, bool remote) {
    MemoryWindow* found = keys_.window(number);
    if (found == nullptr) {
        return false;
    }
    MemoryWindow& window = *found;
    if (window.type != kWindowType2 || window.pd != user.pd || window.key != key) {
        return false;
    }
    if (!window.bound) {
        return !remote;
    }
    if (window.qpn != user.qpn) {
        return false;
    }
    unbind(window, number);
    return true;
}

}  // namespace pib::hca
