// SPDX-License-Identifier: GPL-2.0-or-later
#include "idle_spin.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>

namespace {

// The shortest time to stay awake, after many times without work: short compared with a wake-up,
// but long enough to notice new work.
constexpr uint64_t kLeastNs = 2'000;
// The count of runnable threads is read again after kLookNs if the processors sufficed for them,
// else after kBusyNs, because the count seldom changes between two packets of a stream.
constexpr uint64_t kLookNs = 4'000;
constexpr uint64_t kBusyNs = 200'000;

uint64_t now_ns() {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
}

// Counts the processors that this thread may run on.
unsigned own_processors() {
    cpu_set_t set;
    return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set))
                                                          : 1;
}

bool others_want_to_run(const PibIdleSpin& spin) {
    std::array<char, 128> text{};
    const ssize_t n = ::pread(spin.loadavg_fd, text.data(), text.size() - 1, 0);
    const unsigned runnable = n > 0 ? pib_runnable_threads(text.data()) : 0;
    return runnable == 0 || runnable > spin.processors;  // the calling thread is one of them
}

}  // namespace

unsigned pib_runnable_threads(const char* loadavg) {
    std::string_view text(loadavg);
    for (unsigned skipped = 0; skipped < 3; ++skipped) {
        const auto space = text.find(' ');
        if (space == std::string_view::npos) {
            return 0;
        }
        text.remove_prefix(space + 1);
    }
    unsigned runnable = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), runnable);
    const bool slash = end != text.data() + text.size() && *end == '/';
    return error == std::errc() && slash ? runnable : 0;
}

void pib_idle_spin_init(PibIdleSpin* spin, uint32_t most_us) {
    *spin = {.loadavg_fd = -1,
             .processors = own_processors(),
             .most_ns = uint64_t{most_us} * 1000,
             .budget_ns = 0,
             .began_ns = 0,
             .looked_ns = 0,
             .busy_until_ns = 0};
    spin->budget_ns = std::min(spin->most_ns, 2 * kLeastNs);
    // With one processor, spinning would keep the processor from the thread that brings the work.
    if (most_us != 0 && spin->processors > 1) {
        spin->loadavg_fd = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    }
}

void pib_idle_spin_end(PibIdleSpin* spin) {
    if (spin->loadavg_fd >= 0) {
        ::close(spin->loadavg_fd);
        spin->loadavg_fd = -1;
    }
}

bool pib_idle_spin_go_on(PibIdleSpin* spin) {
    if (spin->loadavg_fd < 0) {
        return false;
    }
    const uint64_t now = now_ns();
    if (now < spin->busy_until_ns) {
        return false;
    }
    const bool begins = spin->began_ns == 0;
    if (begins) {
        spin->began_ns = now;
    } else if (now - spin->began_ns >= spin->budget_ns) {
        spin->budget_ns = std::min(spin->most_ns, std::max(spin->budget_ns / 2, kLeastNs));
        spin->began_ns = 0;
        return false;
    }
    if (begins || now - spin->looked_ns >= kLookNs) {
        spin->looked_ns = now;
        if (others_want_to_run(*spin)) {
            spin->began_ns = 0;
            spin->busy_until_ns = now + kBusyNs;
            return false;
        }
    }
    return true;
}

void pib_idle_spin_found(PibIdleSpin* spin) {
    if (spin->began_ns != 0) {
        spin->began_ns = 0;
        spin->budget_ns = std::min(spin->most_ns, 2 * spin->budget_ns);
    }
}
