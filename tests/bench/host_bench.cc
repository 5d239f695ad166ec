// SPDX-License-Identifier: GPL-2.0-or-later
// Measures this machine for comparison with other figures: copies of memory, and a round trip of 8
// bytes between two processes through a SEQPACKET socket and through pipes.
// Prints one JSON object a line. usage: host-bench [SECONDS_PER_FIGURE]
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMessage = 8;

double ns_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// ---- copies

// Prints the rate of copies of `bytes` each, at changing places of buffers of `span` bytes.
void copy(const char* name, size_t bytes, size_t span, double seconds) {
    std::vector<uint8_t> from(span, 1), to(span, 2);
    size_t at = 0;
    uint64_t rounds = 0;
    const auto start = Clock::now();
    double ns = 0;
    do {
        for (unsigned i = 0; i < 16; ++i, ++rounds) {
            std::memcpy(to.data() + at, from.data() + at, bytes);
            asm volatile("" : : "r"(to.data()) : "memory");
            at = at + 2 * bytes <= span ? at + bytes : 0;
        }
        ns = ns_since(start);
    } while (ns < seconds * 1e9);
    std::printf("{\"figure\": \"%s\", \"mib_s\": %.1f}\n", name,
                double(rounds) * double(bytes) / ns * 1e9 / 1048576);
}

// ---- ping-pong

struct Ends {
    int in, out;
};

bool pass(const Ends& ends, bool read_first) {
    uint8_t message[kMessage]{};
    const auto get = [&] { return ::read(ends.in, message, kMessage) == ssize_t(kMessage); };
    const auto put = [&] { return ::write(ends.out, message, kMessage) == ssize_t(kMessage); };
    return read_first ? get() && put() : put() && get();
}

// `here` and `there`: the ends of the two processes.
void ping_pong(const char* name, Ends here, Ends there, double seconds) {
    const pid_t child = ::fork();
    if (child < 0) {
        std::perror("fork");
        std::exit(1);
    }
    if (child == 0) {
        ::close(here.out);
        if (here.in != here.out) {
            ::close(here.in);
        }
        while (pass(there, true)) {
        }
        ::_exit(0);
    }
    std::vector<double> round_trips;
    const auto start = Clock::now();
    while (ns_since(start) < seconds * 1e9) {
        const auto sent = Clock::now();
        if (!pass(here, false)) {
            std::fprintf(stderr, "host-bench: %s: the other process is gone\n", name);
            std::exit(1);
        }
        round_trips.push_back(ns_since(sent));
    }
    ::close(here.out);
    ::close(here.in);
    ::close(there.out);
    ::close(there.in);
    ::waitpid(child, nullptr, 0);
    std::ranges::sort(round_trips);
    const auto at = [&](double part) {
        return round_trips[size_t(part * double(round_trips.size() - 1))] / 2000;
    };
    std::printf("{\"figure\": \"%s\", \"p50_us\": %.2f, \"p99_us\": %.2f}\n", name, at(0.5),
                at(0.99));
}

void seqpacket(double seconds) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) {
        std::perror("socketpair");
        std::exit(1);
    }
    ping_pong("seqpacket", {ends[0], ends[0]}, {ends[1], ends[1]}, seconds);
}

void pipes(double seconds) {
    int there[2], back[2];
    if (::pipe(there) != 0 || ::pipe(back) != 0) {
        std::perror("pipe");
        std::exit(1);
    }
    ping_pong("pipe", {back[0], there[1]}, {there[0], back[1]}, seconds);
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
    constexpr size_t kMib = 1 << 20;
    copy("memcpy_64k", 65536, 65536, seconds);
    copy("memcpy_1m", kMib, kMib, seconds);
    copy("memcpy_dram", kMib, 256 * kMib, seconds);
    std::fflush(stdout);
    seqpacket(seconds);
    std::fflush(stdout);
    pipes(seconds);
    return 0;
}
