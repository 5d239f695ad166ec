// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps copies of commands from their doorbell to their completion, because the driver must not
// change a command or its input meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/host.h"
#include "pib_hca_hw.h"
#include "strict/strict.h"

namespace pib::hca {

class CommandWatch {
  public:
    CommandWatch(Host& host, Strict& strict) : host_(host), strict_(strict) {}

    // The command queue was enabled: checks that its completion ring is zero and that no other
    // object owns the memory of its rings.
    void started(uint64_t base, uint64_t cpl_base, uint32_t log_depth);
    // A valid doorbell has moved the producer: copies the new entries.
    void rung(uint32_t from, uint32_t to);
    // The device has copied the entry `cmd` of the oldest command, and will copy its input next:
    // compares both with those at the doorbell.
    void fetched(const pib_hca_cmd& cmd);
    // The device is about to complete the oldest command: compares its entry once more.
    void completing();

  private:
    struct Pending {
        uint64_t place = 0;             // bus address of the entry
        pib_hca_cmd entry{};            // the entry at the time of the doorbell
        std::optional<uint64_t> input;  // hash of the input, if the device could read it
    };

    void add(uint32_t counter);
    void compare(const Pending& pending, const pib_hca_cmd& now);
    std::optional<uint64_t> hash_input(const pib_hca_cmd& cmd);

    Host& host_;
    Strict& strict_;
    uint64_t base_ = 0;
    uint32_t log_depth_ = 0;
    std::deque<Pending> pending_;  // oldest first
};

}  // namespace pib::hca
