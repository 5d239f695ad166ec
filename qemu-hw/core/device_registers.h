// SPDX-License-Identifier: GPL-2.0-or-later
// The registers of BAR0. Writes act on the engine.
#pragma once

#include <cstdint>

#include "engine.h"

namespace pib::hca {

class DeviceRegisters {
  public:
    // Values that software has written. All are zero after a reset.
    struct Values {
        uint32_t control = 0;
        uint32_t scratch = 0;
        uint64_t cmdq_base = 0;
        uint64_t cmdq_cpl_base = 0;
        uint32_t cmdq_log_depth = 0;
        bool bad_enable = false;  // STATUS.BAD_ENABLE
    };

    explicit DeviceRegisters(Engine& engine) : engine_(engine) {}

    // False when there is no such register.
    [[nodiscard]] bool read(uint64_t offset, unsigned size, uint64_t& value);
    [[nodiscard]] bool write(uint64_t offset, unsigned size, uint64_t value);
    void reset() { values_ = {}; }

  private:
    Engine& engine_;
    Values values_;
};

}  // namespace pib::hca
