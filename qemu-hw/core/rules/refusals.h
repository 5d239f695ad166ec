// SPDX-License-Identifier: GPL-2.0-or-later
// The last refusals of a device with their reasons, for authors of drivers. A guest provokes them
// at will: a fixed number is kept, and few are logged in a second. Resets keep them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/guest_errors.h"
#include "base/host.h"
#include "base/verdict.h"

namespace pib::hca {

class JsonWriter;

// A refused command, or a store or load that the device ignores.
struct Refusal {
    const char* what = "";   // a literal: the command's name, or "store to BAR0"
    bool is_command = true;  // false: `offset` in place of the following
    uint16_t id = 0;
    uint32_t object = 0;
    uint16_t pages_at = 0;  // offset of the page list in the input
    uint64_t offset = 0;    // in the BAR
    Verdict verdict;
    uint64_t time_ns = 0;
};

// "CREATE_CQ id 7 refused: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2)"
std::string text_of(const Refusal& refusal);

class Refusals {
  public:
    static constexpr size_t kKept = 64;

    Refusals(Host& host, GuestErrors& log) : host_(host), log_(log) {}

    void add(const Refusal& refusal) noexcept;
    void ignored_load(unsigned bar, uint64_t offset);
    void ignored_store(unsigned bar, uint64_t offset, const Verdict& verdict);

    // The member "refusals" of an object: their number, and the last ones, oldest first.
    void write(JsonWriter& out) const;

  private:
    Host& host_;
    GuestErrors& log_;
    std::array<Refusal, kKept> ring_{};
    uint64_t count_ = 0;
};

}  // namespace pib::hca
