// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/on_demand.h"

#include <cstring>
#include <span>

namespace pib::hca {
namespace {

constexpr unsigned kLogPage = kMinLogPageSize;
constexpr unsigned kLogEntries = 9;
constexpr uint64_t kPageMask = (uint64_t{1} << kLogPage) - 1;
static_assert(1u << kLogEntries == kTableEntries);
static_assert(kLogPage + kLogEntries * kMaxOnDemandLevels < 64);

std::optional<uint64_t> entry(Host& host, uint64_t table, uint64_t index) {
    uint64_t value = 0;
    std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&value), sizeof value);
    host.dma_for(DmaPurpose::kPageList);
    if (!host.dma_read(table + index * sizeof value, bytes)) {
        return std::nullopt;
    }
    return value;
}

}  // namespace

uint64_t OnDemandTable::reach() const {
    return uint64_t{1} << (kLogPage + kLogEntries * levels);
}

std::optional<uint64_t> OnDemandTable::walk(Host& host, uint64_t offset, bool for_write) const {
    uint64_t table = root;
    for (unsigned level = levels; level > 0; --level) {
        const uint64_t index =
            offset >> (kLogPage + kLogEntries * (level - 1)) & (kTableEntries - 1);
        const auto value = entry(host, table, index);
        const uint64_t needed = kOnDemandRead | (level == 1 && for_write ? kOnDemandWrite : 0);
        if (!value || (*value & needed) != needed) {
            return std::nullopt;
        }
        table = *value & ~kPageMask;
    }
    return table | (offset & kPageMask);
}

}  // namespace pib::hca
