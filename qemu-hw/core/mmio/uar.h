// SPDX-License-Identifier: GPL-2.0-or-later
// UAR pages: passes stores to doorbells on to the objects that they name, and answers loads of the
// clock.
#pragma once

#include <cstdint>

#include "mmio/device_objects.h"

namespace pib::hca {

class UarPages {
  public:
    explicit UarPages(DeviceObjects& objects) : objects_(objects) {}

    // `offset`: from the start of the doorbell BAR. False: no register at the offset, a wrong size,
    // or a load from a UAR that is not allocated. A doorbell that breaks a rule, such as one for an
    // object of another UAR, is counted and otherwise ignored.
    [[nodiscard]] bool read(uint64_t offset, unsigned size, uint64_t& value);
    [[nodiscard]] bool write(uint64_t offset, unsigned size, uint64_t value);
    // Handles a store to PIB_HCA_UAR_KICK that the host reports without the stored value.
    void kick(uint32_t uar);

  private:
    DeviceObjects& objects_;
};

}  // namespace pib::hca
