// SPDX-License-Identifier: GPL-2.0-or-later
// Functions that a fuzz target defines. The same target is linked with libFuzzer (-Dfuzz=true,
// clang) or with replay_main.cc, which runs in every build: seeds, recorded inputs and seeded
// mutations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace pib::fuzz {

using Bytes = std::vector<uint8_t>;

// Well-formed inputs to start from.
std::vector<Bytes> seeds();

// Runs one input. Must return for any bytes.
void run(std::span<const uint8_t> input);

// Stops the process, as a sanitizer would, if the code under test breaks this promise.
inline void require(bool holds, const char* promise) {
    if (!holds) {
        std::fprintf(stderr, "broken promise: %s\n", promise);
        std::abort();
    }
}

// Reads an input from front to back; returns zeros after its end.
class Input {
  public:
    explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    uint8_t byte() {
        if (bytes_.empty()) {
            return 0;
        }
        const uint8_t value = bytes_.front();
        bytes_ = bytes_.subspan(1);
        return value;
    }
    // The next bytes, at most `count`.
    std::span<const uint8_t> take(size_t count) {
        const auto head = bytes_.first(count < bytes_.size() ? count : bytes_.size());
        bytes_ = bytes_.subspan(head.size());
        return head;
    }
    std::span<const uint8_t> rest() { return take(bytes_.size()); }

  private:
    std::span<const uint8_t> bytes_;
};

}  // namespace pib::fuzz
