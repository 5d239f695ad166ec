// SPDX-License-Identifier: GPL-2.0-or-later
// Lines for authors of drivers (LogLevel::kGuestError). A guest provokes them at will, so few are
// printed in a second.
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
    // Whether this second has room for a line. Tells first how many had none.
    bool admit();

    Host& host_;
    uint64_t second_begins_ns_ = 0;
    unsigned lines_ = 0;  // since then
    uint64_t left_out_ = 0;
};

}  // namespace pib::hca
