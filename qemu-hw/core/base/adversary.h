// SPDX-License-Identifier: GPL-2.0-or-later
// An adversarial device does what the manual permits and a device as a rule does not (the property
// adversary, docs/observability.md). This class owns the generator: the parts of the device ask it,
// and find nullptr in its place in a device that is none. Each kind draws from a sequence of its
// own, so that a kind that is left out changes nothing for the others.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace pib::hca {

enum class Adversity : uint8_t {
    kCommands,    // commands take time, before they are executed and after it
    kInterrupts,  // late, coalesced, again, spurious
    kEvents,      // EQEs late, merged, in any order
    kWrites,      // entries byte by byte, payload in any order
    kFetches,     // WQEs early and late, entries in parts and twice
    kNumbers,     // reused at once
    kPorts,       // links go down and up after a reset
    kRetries,     // answers, requests and MADs are lost, receivers not ready
    kClock,       // steps forward
    kEnd,         // the device stops, is reset or is gone
};
inline constexpr size_t kAdversities = static_cast<size_t>(Adversity::kEnd) + 1;

// The choice of a user.
struct AdversaryPlan {
    uint64_t seed = 0;
    uint32_t kinds = 0;  // bits of Adversity; 0: the device is no adversary

    // "SEED" or "SEED:KIND+KIND…"; without kinds, all but kEnd. Or what is wrong with the text.
    static std::expected<AdversaryPlan, std::string> parse(std::string_view text);
    static uint32_t bit(Adversity kind) { return 1u << static_cast<unsigned>(kind); }
    static constexpr uint32_t kGentle = (1u << static_cast<unsigned>(Adversity::kEnd)) - 1;
};

// The fate of an answer that a requester awaits.
enum class Setback : uint8_t { kNone, kLost, kNotReady, kSequence };
// How a device ends.
enum class SuddenEnd : uint8_t { kFatal, kReset, kGone };

class Adversary {
  public:
    explicit Adversary(const AdversaryPlan& plan);

    bool plays(Adversity kind) const { return (plan_.kinds & AdversaryPlan::bit(kind)) != 0; }

    // Limits; the manual sets those of commands and events.
    static constexpr uint64_t kCommandNs = 10'000'000'000;  // a command takes
    static constexpr uint64_t kEventNs = 100'000'000;       // an event or an interrupt waits
    static constexpr uint64_t kFetchNs = 20'000'000;        // a doorbell waits
    static constexpr uint64_t kFlapsNs = 10'000'000'000;    // after a reset links go down
    static constexpr uint64_t kStepNs = 500'000'000;        // the clock steps

    // How long something waits; 0: not at all.
    uint64_t command_wait();
    uint64_t event_wait() { return wait(Adversity::kEvents, 4, kEventNs); }
    uint64_t interrupt_wait() { return wait(Adversity::kInterrupts, 2, kEventNs); }
    uint64_t fetch_wait() { return wait(Adversity::kFetches, 4, kFetchNs); }

    bool repeats_interrupt() { return chance(Adversity::kInterrupts, 8); }
    // A vector whose interrupt has no cause.
    std::optional<unsigned> spurious_interrupt(unsigned vectors);
    bool fetches_twice() { return chance(Adversity::kFetches, 4); }
    // Whether to look at a queue whose doorbell has not been rung.
    bool looks_early() { return chance(Adversity::kFetches, 8); }
    bool loses_request() { return chance(Adversity::kRetries, 512); }
    bool loses_mad();
    Setback setback();

    // Moments, nanoseconds from now on.
    uint64_t next_step() { return 1 + below(Adversity::kClock, 4'000'000'000); }
    uint64_t step() { return short_or_long(Adversity::kClock, kStepNs); }
    uint64_t next_end() { return 1 + below(Adversity::kEnd, 60'000'000'000); }
    unsigned flaps() { return static_cast<unsigned>(below(Adversity::kPorts, 4)); }
    uint64_t next_flap() { return 1 + below(Adversity::kPorts, kFlapsNs); }

    // A number less than `bound`.
    uint64_t below(Adversity kind, uint64_t bound);
    // The order of the elements becomes any.
    template <typename T>
    void shuffle(Adversity kind, std::span<T> elements) {
        for (size_t left = elements.size(); left > 1; --left) {
            std::swap(elements[left - 1], elements[below(kind, left)]);
        }
    }

  private:
    uint64_t draw(Adversity kind);
    bool chance(Adversity kind, uint64_t one_in) { return plays(kind) && below(kind, one_in) == 0; }
    uint64_t wait(Adversity kind, uint64_t one_in, uint64_t most);
    // Often short, seldom near `most`.
    uint64_t short_or_long(Adversity kind, uint64_t most);

    const AdversaryPlan plan_;
    std::array<uint64_t, kAdversities> states_{};
    bool mad_lost_ = false;  // the last MAD
};

}  // namespace pib::hca
