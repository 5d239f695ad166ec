// SPDX-License-Identifier: GPL-2.0-or-later
// Regions and windows by number, and their keys: a key is the scrambled number and a key byte that
// software chooses.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/table.h"
#include "memory/memory_region.h"

namespace pib::hca {

using MemoryKey = std::variant<MemoryRegion, MemoryWindow>;

class KeyTable {
  public:
    KeyTable(uint32_t capacity, NumberChoice choice) : keys_(1, capacity) {
        keys_.set_choice(choice);
    }

    // number_of() returns the number of the object that a key names, and ignores the key byte.
    // key_of() returns the key of an object, with key byte 0.
    static uint32_t number_of(uint32_t key);
    static uint32_t key_of(uint32_t number);

    // Returns the new object's number. The table must not be full.
    uint32_t insert(MemoryKey entry, uint32_t pd);
    void erase(uint32_t number, uint32_t pd);
    void move(uint32_t from_pd, uint32_t to_pd);
    void clear();

    [[nodiscard]] bool is_full() const { return keys_.count() == keys_.capacity(); }
    uint32_t count() const { return keys_.count(); }
    uint32_t capacity() const { return keys_.capacity(); }
    uint32_t keys_of_pd(uint32_t pd) const;

    // nullptr: no object has this number, or the object is not of the kind asked for.
    MemoryKey* find(uint32_t number) { return keys_.find(number); }
    const MemoryKey* find(uint32_t number) const { return keys_.find(number); }
    MemoryRegion* region(uint32_t number) { return std::get_if<MemoryRegion>(find(number)); }
    const MemoryRegion* region(uint32_t number) const {
        return std::get_if<MemoryRegion>(find(number));
    }
    MemoryWindow* window(uint32_t number) { return std::get_if<MemoryWindow>(find(number)); }
    const MemoryWindow* window(uint32_t number) const {
        return std::get_if<MemoryWindow>(find(number));
    }
    // The region with this key, also in the Free state (IBA 10.6.4.1). nullptr: there is none.
    MemoryRegion* region_with(uint32_t key) {
        MemoryRegion* found = region(number_of(key));
        return found != nullptr && found->key == (key & 0xff) ? found : nullptr;
    }
    // Calls f(number, entry) for all entries.
    template <typename F>
    void for_each(F&& f) const {
        keys_.for_each(std::forward<F>(f));
    }

  private:
    void leave(uint32_t pd);

    Table<MemoryKey> keys_;
    std::unordered_map<uint32_t, uint32_t> keys_of_pd_;
};

}  // namespace pib::hca
