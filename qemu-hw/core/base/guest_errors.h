// SPDX-License-Identifier: GPL-2.0-or-later
// Log lines about errors of the guest, for authors of drivers. A guest can cause any number of
// them, so the number of printed lines per second is limited.
#pragma once

#include <cstdint>
#include <string>

#include "base/host.h"

namespace pib::hca {

class GuestErrors {
  public:
    static constexpr unsigned kLinesPerSecond = 16;

    explicit GuestErrors(Host& host) : host_(host) {}

    // Prints the line that text() returns. Does not call text() if the limit is reached.
    template <typename F>
    void print(F&& text) {
        if (admit(LogLevel::kGuestError)) {
            host_.log(LogLevel::kGuestError, "pib-hca: " + text());
        }
    }

    // The same as print(), but prints warnings, which QEMU prints without an option. The lines of
    // `more` do not count towards the limit.
    template <typename F, typename... More>
    void warn(F&& text, More&&... more) {
        if (admit(LogLevel::kWarning)) {
            host_.log(LogLevel::kWarning, "pib-hca: " + text());
            (host_.log(LogLevel::kWarning, "pib-hca: " + more()), ...);
        }
    }

  private:
    // Whether one more line of this level may be printed in this second. If so, first reports how
    // many lines were left out.
    [[nodiscard]] bool admit(LogLevel level);

    Host& host_;
    uint64_t second_begins_ns_ = 0;
    unsigned lines_ = 0;     // lines printed since second_begins_ns_
    uint64_t left_out_ = 0;  // lines not printed since the last printed line
};

}  // namespace pib::hca
