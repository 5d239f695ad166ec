// SPDX-License-Identifier: GPL-2.0-or-later
// The objects that keys refer to: regions and windows (IBA vol. 1, 10.6).
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "memory/guest_buffer.h"
#include "memory/on_demand.h"

namespace pib::hca {

// The memory of a region with region_flag::kPhysical: all guest memory, by bus address.
struct PhysicalMemory {};

// The memory of a region with region_flag::kFast. REG_MR sets the pages; without them the region is
// in the Free state (IBA 10.6.4.1).
struct FastMemory {
    uint32_t max_pages;
    std::optional<GuestBuffer> pages;
};

struct MemoryRegion {
    uint32_t pd;
    uint32_t access;
    uint64_t iova;
    uint64_t length;
    uint32_t page_offset;
    uint8_t key;
    uint32_t windows = 0;  // number of windows that are bound to the region
    uint32_t number = 0;   // number of the region in the key table
    // A page list, or the kind of memory that a region_flag of CREATE_MR has chosen.
    std::variant<GuestBuffer, FastMemory, PhysicalMemory, OnDemandTable> memory;

    [[nodiscard]] bool is_physical() const {
        return std::holds_alternative<PhysicalMemory>(memory);
    }
    const OnDemandTable* on_demand() const { return std::get_if<OnDemandTable>(&memory); }
    FastMemory* fast() { return std::get_if<FastMemory>(&memory); }
    const FastMemory* fast() const { return std::get_if<FastMemory>(&memory); }
    // nullptr: the region has no page list.
    const GuestBuffer* pages() const {
        if (const auto* buffer = std::get_if<GuestBuffer>(&memory)) [[likely]] {
            return buffer;
        }
        return fast() != nullptr && fast()->pages ? &*fast()->pages : nullptr;
    }
    [[nodiscard]] bool is_free() const { return fast() != nullptr && !fast()->pages; }
};

struct MemoryWindow {
    uint32_t pd;
    uint8_t type;  // kWindowType1 or kWindowType2
    uint8_t key;
    // Whether the window is bound to a region. If not, it is Free (type 2) or unbound (type 1), and
    // the fields below are not valid.
    bool bound;
    uint32_t access;
    uint64_t addr;  // address in the region's address space
    uint64_t length;
    uint32_t region;  // the region's number in the key table
    uint32_t qpn;     // type 2: the QP that has bound it
};

}  // namespace pib::hca
