// SPDX-License-Identifier: GPL-2.0-or-later
// Memory windows, fast registration and invalidation: operations of work requests and packets on
// keys (IBA vol. 1, 10.6.4 and 10.6.7).
#include <utility>

#include "base/config.h"
#include "memory/mpt.h"
#include "memory/mpt_rules.h"

namespace pib::hca {

namespace {

uint8_t key_byte(uint32_t key) {
    return static_cast<uint8_t>(key & 0xff);
}

}  // namespace

// ---------------------------------------------------------------- windows

CmdResult<uint32_t> Mpt::alloc_window(const pib_hca_alloc_mw& in) {
    if (in.type != PIB_HCA_MW_TYPE_1 && in.type != PIB_HCA_MW_TYPE_2) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    if (keys_.count() == keys_.capacity()) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    MemoryWindow window{};
    window.pd = in.pd;
    window.type = in.type;
    window.key = in.key;
    return insert(window, in.pd, in.key);
}

CmdStatus Mpt::dealloc_window(uint32_t rkey) {
    const uint32_t number = number_of(rkey);
    MemoryWindow* window = window_at(number);
    if (window == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    unbind(*window, number);
    erase(number, window->pd);
    return PIB_HCA_CMD_STATUS_OK;
}

void Mpt::unbind(MemoryWindow& window, uint32_t number) {
    if (!window.bound) {
        return;
    }
    if (watch_ != nullptr) {
        watch_->key_goes(number);
    }
    window.bound = false;
    --region_at(window.region)->windows;
    if (window.type == PIB_HCA_MW_TYPE_2) {
        windows_of_qp_.erase({window.qpn, number});
    }
}

void Mpt::unbind_windows_of(uint32_t qpn) {
    for (auto it = windows_of_qp_.lower_bound({qpn, 0});
         it != windows_of_qp_.end() && it->first == qpn;
         it = windows_of_qp_.lower_bound({qpn, 0})) {
        const uint32_t number = it->second;
        unbind(*window_at(number), number);
    }
}

// IBA 10.6.7.2.1: same PD, bind enabled, within the region, and not more rights than it has.
MemoryRegion* Mpt::region_to_bind(const KeyUser& user, const pib_hca_wqe_bind& in) const {
    MemoryRegion* region = find_region(in.lkey);
    if (region == nullptr || !region->valid || region->pd != user.pd ||
        (region->access & PIB_HCA_ACCESS_MW_BIND) == 0) {
        return nullptr;
    }
    const bool may_write = (region->access & PIB_HCA_ACCESS_LOCAL_WRITE) != 0;
    const KeyedRange range{.key = in.lkey, .addr = in.addr, .length = in.length, .access = 0};
    Target target;
    const bool fits = (may_write || !writes_remotely(in.access)) &&
                      range_is_sane(in.addr, in.length) && resolve_region(*region, range, target);
    return fits ? region : nullptr;
}

bool Mpt::bind(const KeyUser& user, const pib_hca_wqe_bind& in) {
    const uint32_t number = number_of(in.rkey);
    MemoryWindow* window = window_at(number);
    if (window == nullptr || window->pd != user.pd || window->key == key_byte(in.rkey)) {
        return false;
    }
    const bool type_1 = window->type == PIB_HCA_MW_TYPE_1;
    if (type_1 && in.length == 0) {
        unbind(*window, number);
        window->key = key_byte(in.rkey);
        return true;
    }
    MemoryRegion* region = region_to_bind(user, in);
    if (region == nullptr || (in.access & ~kWindowAccess) != 0 || (!type_1 && window->bound)) {
        return false;
    }
    unbind(*window, number);
    ++region->windows;
    *window = {.pd = window->pd,
               .type = window->type,
               .key = key_byte(in.rkey),
               .bound = true,
               .access = in.access,
               .addr = in.addr,
               .length = in.length,
               .region = number_of(in.lkey),
               .qpn = user.qpn};
    if (!type_1) {
        windows_of_qp_.insert({user.qpn, number});
    }
    return true;
}

// Only packets name windows, so an access without a remote right cannot use one.
bool Mpt::resolve_window(const MemoryWindow& window, const KeyUser& user, const KeyedRange& range,
                         Target& target) const {
    if (!window.bound || window.key != key_byte(range.key) || window.pd != user.pd ||
        (window.type == PIB_HCA_MW_TYPE_2 && window.qpn != user.qpn) ||
        (range.access & kRemoteAccess) == 0 || (range.access & ~window.access) != 0) {
        return false;
    }
    const bool zero_based = (window.access & PIB_HCA_ACCESS_ZERO_BASED) != 0;
    const uint64_t offset = zero_based ? range.addr : range.addr - window.addr;
    if ((!zero_based && range.addr < window.addr) || offset > window.length ||
        range.length > window.length - offset) {
        return false;
    }
    KeyedRange within = range;
    within.addr = window.addr + offset;
    const MemoryRegion* region = region_at(window.region);
    return region != nullptr && resolve_region(*region, within, target);
}

// ---------------------------------------------------------------- fast registration

bool Mpt::fast_register(const KeyUser& user, const pib_hca_wqe_reg& in) {
    MemoryRegion* region = region_at(number_of(in.key));
    // IBA 10.6.4.1: only a region in the Free state takes a new registration.
    if (region == nullptr || !region->fast || region->valid || region->pd != user.pd ||
        !user.privileged || (in.access & ~kRegionAccess) != 0 || !rights_agree(in.access) ||
        !range_is_sane(in.iova, in.length) || in.length > Limits::kMaxMrBytes ||
        in.pages.log_page_size > PIB_HCA_MAX_LOG_PAGE_SIZE ||
        in.page_offset >= uint64_t{1} << in.pages.log_page_size) {
        return false;
    }
    auto buffer = GuestBuffer::load(host_, in.pages, in.page_offset + in.length, region->fast_pages,
                                    GuestBuffer::Proof::kNone);
    if (!buffer) {
        return false;
    }
    region->access = in.access;
    region->iova = in.iova;
    region->length = in.length;
    region->page_offset = in.page_offset;
    region->key = key_byte(in.key);
    region->valid = true;
    region->buffer = std::move(*buffer);
    if (watch_ != nullptr) {
        watch_->region_comes(*region);
    }
    return true;
}

// ---------------------------------------------------------------- invalidation

bool Mpt::invalidate_local(const KeyUser& user, uint32_t key) {
    return invalidate(user, key, false);
}

bool Mpt::invalidate_remote(const KeyUser& user, uint32_t rkey) {
    return invalidate(user, rkey, true);
}

bool Mpt::invalidate(const KeyUser& user, uint32_t key, bool remote) {
    const uint32_t number = number_of(key);
    if (MemoryRegion* region = region_at(number)) {
        return invalidate_region(*region, user, key_byte(key), remote);
    }
    MemoryWindow* window = window_at(number);
    return window != nullptr && invalidate_window(*window, number, user, key_byte(key), remote);
}

// The owner may invalidate a free key again; a peer's key must be valid.
bool Mpt::invalidate_region(MemoryRegion& region, const KeyUser& user, uint8_t key, bool remote) {
    if (!region.fast || region.pd != user.pd || region.key != key || region.windows != 0) {
        return false;
    }
    if (remote && (!region.valid || (region.access & kRemoteAccess) == 0)) {
        return false;
    }
    if (region.valid) {
        region_goes(region);
    }
    region.valid = false;
    region.buffer = {};
    return true;
}

// Type 1 is unbound by binding it to nothing (IBA 10.6.7.2.4).
bool Mpt::invalidate_window(MemoryWindow& window, uint32_t number, const KeyUser& user, uint8_t key,
                            bool remote) {
    if (window.type != PIB_HCA_MW_TYPE_2 || window.pd != user.pd || window.key != key) {
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
