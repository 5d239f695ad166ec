// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/reg_list_watch.h"

#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config.h"
#include "memory/guest_buffer.h"

namespace pib::hca {

namespace {

constexpr uint64_t kNoPages = 0;  // the hash of a list that the device refuses

// Whether the key that a REG_MR has assigned is still the region's.
bool is_registered(const Mpt& mpt, uint32_t key) {
    const MemoryRegion* region = mpt.keys().region(KeyTable::number_of(key));
    return region != nullptr && !region->is_free() && region->key == (key & 0xff);
}

}  // namespace

void RegListWatch::copied(const QueuePair& qp, const SendRequest& request) {
    const auto* op = std::get_if<RegisterOp>(&request.wqe.op);
    const bool valid = op != nullptr && qp.privileged;
    if (const auto list = valid ? hash(op->reg.pages) : std::nullopt) {
        lists_[{qp.qpn, request.counter}] = {.hash = *list, .expected_psn = std::nullopt};
    }
}

void RegListWatch::executing(const QueuePair& qp, const SendRequest& request) {
    if (const auto list = find(qp, request); list != lists_.end()) {
        compare(qp, request, list->second);
        list->second.expected_psn = qp.resp.expected_psn;
    }
}

void RegListWatch::completing(const QueuePair& qp, const SendRequest& request, const Mpt& mpt) {
    const auto list = find(qp, request);
    if (list == lists_.end()) {
        return;
    }
    // The peer answers an XRC initiator by requests to another QP, which expected_psn does not
    // show.
    const auto& psn = list->second.expected_psn;
    const bool known = psn && (qp.resp.expected_psn != *psn || qp.type == QpType::kXrcIni ||
                               !is_registered(mpt, std::get<RegisterOp>(request.wqe.op).reg.key));
    if (!known) {
        compare(qp, request, list->second);
    }
    lists_.erase(list);
}

void RegListWatch::forget(uint32_t qpn) {
    lists_.erase(lists_.lower_bound({qpn, 0}), lists_.upper_bound({qpn, UINT32_MAX}));
}

RegListWatch::Lists::iterator RegListWatch::find(const QueuePair& qp, const SendRequest& request) {
    const bool is_reg = std::holds_alternative<RegisterOp>(request.wqe.op);
    return is_reg ? lists_.find({qp.qpn, request.counter}) : lists_.end();
}

std::optional<uint64_t> RegListWatch::hash(const PageList& list) {
    if (list.levels == 0) {
        return std::nullopt;
    }
    const auto buffer =
        GuestBuffer::load(host_, list, 1, Limits::kFastRegPages, GuestBuffer::Proof::kNone);
    if (!buffer) {  // a table cannot be read, or the list names no pages
        return buffer.error() == CmdStatus::kBadMemory ? std::nullopt : std::optional(kNoPages);
    }
    std::vector<uint64_t> pages(list.page_count);
    for (uint32_t i = 0; i < list.page_count; ++i) {
        (void)buffer->bus_address(uint64_t{i} << list.log_page_size, pages[i]);
    }
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(pages.data()), pages.size() * sizeof(uint64_t)});
}

void RegListWatch::compare(const QueuePair& qp, const SendRequest& request,
                           const Watched& watched) {
    const auto now = hash(std::get<RegisterOp>(request.wqe.op).reg.pages);
    if (now && *now != watched.hash) {
        strict_.broken(Rule::kListChanged, {Thing::kQp, qp.qpn}, request.counter);
    }
}

}  // namespace pib::hca
