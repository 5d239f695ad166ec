// SPDX-License-Identifier: GPL-2.0-or-later
// Clocks for measuring programs: processor time of this thread, and a limit in wall time.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace pib::bench {

// Processor time of this thread in ns. Not getrusage(): on some kernels it counts whole ticks.
inline uint64_t cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

// Processor time in ns of a unit of work. Calls `work`, which returns the units that it has done,
// for `seconds` seconds of wall time.
template <typename Work>
double ns_per_unit(double seconds, Work&& work) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    uint64_t units = 0;
    const uint64_t before = cpu_ns();
    do {
        units += work();
    } while (std::chrono::steady_clock::now() < until);
    return double(cpu_ns() - before) / double(units);
}

}  // namespace pib::bench
