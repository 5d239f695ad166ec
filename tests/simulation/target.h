// SPDX-License-Identifier: GPL-2.0-or-later
// Memory that remote requests reach by a key.
#pragma once

#include <cstdint>

#include "shadow.h"

namespace pib::simulation {

class Target {
  public:
    virtual ~Target() = default;
    // Whether there is a key with which a request that is posted now may succeed.
    virtual bool has_key() const = 0;
    // Whether this key gives access to the memory, and no posted request is about to end that.
    virtual bool opens(uint32_t key) const = 0;
    virtual uint32_t key() const = 0;  // the present or the last one
    virtual uint64_t address(uint64_t offset) const = 0;
    virtual Shadow& bytes() = 0;
};

}  // namespace pib::simulation
