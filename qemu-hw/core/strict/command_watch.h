// SPDX-License-Identifier: GPL-2.0-or-later
// Keeps copies of commands from their doorbell to their completion, because the driver must not
// change a command, its input or the room for its output meanwhile.
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

    // The command queue was enabled: checks that no entry of the completion ring has its owner bit
    // set, and that no other object owns the memory of the two rings.
    void started(uint64_t base, uint64_t cpl_base, uint32_t log_depth);
    // A valid doorbell has moved the producer: copies the new entries.
    void rung(uint32_t from, uint32_t to);
    // The device has copied the entry `cmd` of the oldest command, and will copy its input next:
    // compares entry and input with their state at the doorbell.
    void fetched(const pib_hca_cmd& cmd);
    // outputs(): the device is about to write the output of the oldest command; compares the room
    // for the output with its state at the doorbell. wrote(): the device has written the output.
    void outputs();
    void wrote();
    // The device is about to complete the oldest command: compares its entry once more, and the
    // output that the device has written.
    void completing();

  private:
    struct Pending {
        uint64_t place = 0;             // bus address of the entry
        pib_hca_cmd entry{};            // the entry at the time of the doorbell
        std::optional<uint64_t> input;  // hash of the input, if the device could read it
        // Hash of the room for the output: at the doorbell, and later with the output.
        std::optional<uint64_t> output;
        bool has_output = false;  // the device has written the output
    };

    void add(uint32_t counter);
    void compare(const Pending& pending, const pib_hca_cmd& now);
    void compare_output(const Pending& pending);
    // Hash of guest memory; no value: it cannot be read, or `length` is 0 or too large.
    [[nodiscard]] std::optional<uint64_t> hash(uint64_t bus_addr, uint32_t length);
    [[nodiscard]] std::optional<uint64_t> hash_input(const pib_hca_cmd& cmd) {
        return hash(cmd.in_addr, cmd.in_length);
    }
    [[nodiscard]] std::optional<uint64_t> hash_output(const pib_hca_cmd& cmd) {
        return hash(cmd.out_addr, cmd.out_length);
    }

    Host& host_;
    Strict& strict_;
    uint64_t base_ = 0;
    uint32_t log_depth_ = 0;
    std::deque<Pending> pending_;  // oldest first
};

}  // namespace pib::hca
