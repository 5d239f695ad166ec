// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbells: decodes the stores to one UAR page and calls the objects that they name.
#pragma once

#include <cstdint>

#include "mmio/device_objects.h"

namespace pib::hca {

class UarPages {
  public:
    explicit UarPages(DeviceObjects& objects) : objects_(objects) {}

    // `offset` is in BAR2. False: a hole, a wrong size, or a load from a UAR that is not allocated.
    // A doorbell for an object of another UAR, or for no object, is counted and otherwise ignored.
    bool read(uint64_t offset, unsigned size, uint64_t& value);
    bool write(uint64_t offset, unsigned size, uint64_t value);
    // A store to PIB_HCA_UAR_KICK that the host reports without its value.
    void kick(uint32_t uar);

  private:
    DeviceObjects& objects_;
};

}  // namespace pib::hca
