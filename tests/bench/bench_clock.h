// SPDX-License-Identifier: GPL-2.0-or-later
// Time for programs that measure: what this thread has worked, and until when it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace pib::bench {

// Nanoseconds of processor time. getrusage() would do, but counts whole ticks on some kernels.
inline std::uint64_t cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

// Nanoseconds of processor time that a unit of work takes; `work` does some and returns how many
// units. Goes on for so many seconds of wall time.
template <typename Work>
double ns_per_unit(double seconds, Work&& work) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::uint64_t units = 0;
    const std::uint64_t before = cpu_ns();
    do {
        units += work();
    } while (std::chrono::steady_clock::now() < until);
    return double(cpu_ns() - before) / double(units);
}

}  // namespace pib::bench
