// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/adversary.h"

#include <bit>
#include <charconv>

namespace pib::hca {

namespace {

constexpr std::array<std::string_view, kAdversities> kNames = {
    "commands", "interrupts", "events",  "writes", "fetches",
    "numbers",  "ports",      "retries", "clock",  "end"};

constexpr uint64_t kWeyl = 0x9e3779b97f4a7c15;

// SplitMix64: kWeyl is added to the state for each number; the number is this hash of the state.
constexpr uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

std::string all_names() {
    std::string names;
    for (const std::string_view name : kNames) {
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return names;
}

// The bit of a kind's name; 0: there is no such kind.
uint32_t kind_bit(std::string_view name) {
    for (size_t i = 0; i < kNames.size(); ++i) {
        if (kNames[i] == name) {
            return 1u << i;
        }
    }
    return 0;
}

}  // namespace

std::expected<AdversaryPlan, std::string> AdversaryPlan::parse(std::string_view text) {
    AdversaryPlan plan;
    const size_t colon = text.find(':');
    const std::string_view seed = text.substr(0, colon);
    const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), plan.seed);
    if (error != std::errc() || end != seed.data() + seed.size()) {
        return std::unexpected("the adversary must be a number (its seed), or SEED:KIND+KIND");
    }
    plan.kinds = colon == std::string_view::npos ? kGentle : 0;
    for (size_t at = colon; at != std::string_view::npos;) {
        const size_t next = text.find('+', at + 1);
        const std::string_view name = text.substr(at + 1, next - at - 1);
        const uint32_t bit = kind_bit(name);
        if (bit == 0) {
            return std::unexpected("the adversary's kinds must be some of " + all_names());
        }
        plan.kinds |= bit;
        at = next;
    }
    return plan;
}

Adversary::Adversary(const AdversaryPlan& plan) : plan_(plan) {
    for (size_t i = 0; i < states_.size(); ++i) {
        states_[i] = mix(plan.seed + kWeyl * (i + 1));
    }
}

uint64_t Adversary::draw(Adversity kind) {
    return mix(states_[static_cast<size_t>(kind)] += kWeyl);
}

uint64_t Adversary::below(Adversity kind, uint64_t bound) {
    return draw(kind) % bound;
}

// Draws the number of bits first; each number of bits is equally likely.
uint64_t Adversary::short_or_long(Adversity kind, uint64_t most) {
    const uint64_t bits = 1 + below(kind, static_cast<uint64_t>(std::bit_width(most)));
    return 1 + draw(kind) % most % (uint64_t{1} << bits);
}

uint64_t Adversary::wait(Adversity kind, uint64_t one_in, uint64_t most) {
    return chance(kind, one_in) ? short_or_long(kind, most) : 0;
}

// A driver needs hundreds of commands to start, so a wait of kCommandNs is rare.
uint64_t Adversary::command_wait() {
    constexpr uint64_t kUsualNs = 20'000'000;
    if (chance(Adversity::kCommands, 4096)) {
        return kCommandNs;
    }
    return wait(Adversity::kCommands, 3, kUsualNs);
}

std::optional<unsigned> Adversary::spurious_interrupt(unsigned vectors) {
    if (!chance(Adversity::kInterrupts, 256)) {
        return std::nullopt;
    }
    return static_cast<unsigned>(below(Adversity::kInterrupts, vectors));
}

// Loses no two MADs in succession, because senders of MADs repeat them a few times only.
bool Adversary::loses_mad() {
    mad_lost_ = !mad_lost_ && chance(Adversity::kRetries, 32);
    return mad_lost_;
}

Setback Adversary::setback() {
    if (!chance(Adversity::kRetries, 128)) {
        return Setback::kNone;
    }
    return static_cast<Setback>(1 + below(Adversity::kRetries, 3));
}

}  // namespace pib::hca
