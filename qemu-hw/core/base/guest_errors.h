// SPDX-License-Identifier: GPL-2.0-or-later
// Log lines for authors of drivers (LogLevel::kGuestError). A guest can cause any number of them,
// so the number printed per second is limited.
#pragma once

#include <cstdint>
#include <string>

#include "base/host.h"

namespace pib::hca {

class GuestErrors {
  public:
    static constexpr unsigned kLinesPerSecond = 16;

    explicit GuestErrors(Host& host) : host_(host) {}

    // Calls text() if the line is printed, and only then.
    template <typename F>
    void print(F&& text) {
        if (admit()) {
            host_.log(LogLevel::kGuestError, "pib-hca: " + text());
        }
    }

    // The same, as warnings, which QEMU prints without an option.
    template <typename F, typename... More>
    void warn(F&& text, More&&... more) {
        if (admit()) {
            host_.log(LogLevel::kWarning, "pib-hca: " + text());
            (host_.log(LogLevel::kWarning, "pib-hca: " + more()), ...);
        }
    }

  private:
    // Whether one more line may be printed in this second. First reports how many lines were left
    // out.
    bool admit();

    Host& host_;
    uint64_t second_begins_ns_ = 0;
    unsigned lines_ = 0;  // printed since then
    uint64_t left_out_ = 0;
};

}  // namespace pib::hca
