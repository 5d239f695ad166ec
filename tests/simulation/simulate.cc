// SPDX-License-Identifier: GPL-2.0-or-later
// Simulates fabrics with random work requests and faults, one seed after the other, and compares
// them with the reference model.
//   simulate [--seed N] [--seeds N | --seconds N] [--script FILE]
// Without --seed the first seed is random, and is printed.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "guest_ram.h"
#include "run.h"

using namespace pib::simulation;

// The sanitizers call this before they end the program.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

constexpr unsigned kHangSeconds = 300;  // for one seed, which takes a fraction of a second

struct Options {
    uint64_t seed = std::random_device()();
    std::optional<uint64_t> seeds;
    std::optional<uint64_t> seconds;
    std::string script;
};

[[noreturn]] void usage() {
    std::cerr << "usage: simulate [--seed N] [--seeds N | --seconds N] [--script FILE]\n";
    std::exit(2);
}

uint64_t number(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        usage();
    }
    return value;
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        if (i + 1 == argc) {
            usage();
        }
        if (name == "--seed") {
            options.seed = number(argv[i + 1]);
        } else if (name == "--seeds") {
            options.seeds = number(argv[i + 1]);
        } else if (name == "--seconds") {
            options.seconds = number(argv[i + 1]);
        } else if (name == "--script") {
            options.script = argv[i + 1];
        } else {
            usage();
        }
    }
    return options;
}

// ---- a crash or a hang names its seed as well

char g_running[80];

void name_seed() {
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, g_running, std::strlen(g_running));
}

void died(int signal_number) {
    name_seed();
    ::signal(signal_number, SIG_DFL);
    ::raise(signal_number);
}

void watch_deaths() {
    for (const int number : {SIGABRT, SIGALRM}) {
        ::signal(number, died);
    }
    if (__sanitizer_set_death_callback != nullptr) {
        __sanitizer_set_death_callback(name_seed);
    } else {
        ::signal(SIGSEGV, died);
    }
}

void begin(uint64_t seed) {
    std::snprintf(g_running, sizeof g_running, "simulate: died with --seed %llu --seeds 1\n",
                  static_cast<unsigned long long>(seed));
    ::alarm(kHangSeconds);
}

// Keeps the memory of a seed for the next one, because page faults would take a fifth of the time.
void keep_memory() {
    pib::hca::test::GuestRam::reuse_memory();
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int report(const Script& script, const std::string& failure) {
    ::alarm(0);
    std::cerr << "seed " << script.setup.seed << " fails " << failure << '\n'
              << "again: ./pib test simulate --seed " << script.setup.seed << " --seeds 1\n"
              << "making it smaller\n";
    const Script small = shrink(script);
    std::cerr << small.steps.size() << " of " << script.steps.size() << " steps fail "
              << run(small).failure.value_or("no more") << '\n'
              << "# for ./pib test simulate --script FILE\n"
              << to_text(small);
    return 1;
}

void print(const Options& options, uint64_t next, const Totals& totals, double seconds) {
    const auto rate = [&](uint64_t count) {
        return static_cast<uint64_t>(static_cast<double>(count) / seconds);
    };
    std::cout << "seeds " << options.seed << " to " << next - 1 << ": " << totals.requests
              << " work requests (" << rate(totals.requests) << "/s), " << totals.completions
              << " completions, " << totals.errors << " of them errors, " << totals.faults
              << " faults (" << rate(totals.faults) << "/s); all as the model has it" << std::endl;
}

int run_seeds(const Options& options) {
    std::cout << "simulate --seed " << options.seed << std::endl;
    const auto start = std::chrono::steady_clock::now();
    Totals totals;
    uint64_t seed = options.seed;
    const auto goes_on = [&] {
        return options.seconds ? seconds_since(start) < static_cast<double>(*options.seconds)
                               : seed - options.seed < options.seeds.value_or(1);
    };
    for (; goes_on(); ++seed) {
        begin(seed);
        const Script script = make_script(seed);
        const Outcome outcome = run(script);
        if (outcome.failure) {
            return report(script, *outcome.failure);
        }
        totals += outcome.totals;
    }
    print(options, seed, totals, seconds_since(start));
    return 0;
}

int run_file(const std::string& name) {
    std::ifstream in(name);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const auto script = parse_script(text);
    if (!in || !script) {
        std::cerr << name << ": " << (in ? script.error() : "it cannot be read") << '\n';
        return 2;
    }
    begin(script->setup.seed);
    const Outcome outcome = run(*script);
    std::cerr << name << (outcome.failure ? " fails " + *outcome.failure : " does not fail")
              << '\n';
    return outcome.failure ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    watch_deaths();
    keep_memory();
    return options.script.empty() ? run_seeds(options) : run_file(options.script);
}
