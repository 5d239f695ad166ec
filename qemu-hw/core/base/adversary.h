// SPDX-License-Identifier: GPL-2.0-or-later
// An adversarial device (property adversary, docs/observability.md) does what the manual permits
// and devices rarely do. Its parts draw from the random generator Adversary; the parts of other
// devices have nullptr in its place. Each kind of behaviour has its own random sequence, so that
// the choice of kinds does not change the sequence of any kind.
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
    kCommands,    // commands wait before and after their execution
    kInterrupts,  // interrupts are late, coalesced, repeated or spurious
    kEvents,      // EQEs come late, merged, in any order
    kWrites,      // entries are written byte by byte, payload in any order
    kFetches,     // WQEs are read early or late; entries are read in parts, some parts twice
    kNumbers,     // numbers of destroyed objects are reused as early as the manual permits
    kPorts,       // links go down and up after a reset
    kRetries,     // responses, requests and MADs are lost; receivers are not ready
    kClock,       // the clock steps forward
    kEnd,         // the device stops, is reset or is gone
};
inline constexpr size_t kAdversities = static_cast<size_t>(Adversity::kEnd) + 1;

// The seed and the kinds that a user has chosen.
struct AdversaryPlan {
    uint64_t seed = 0;
    uint32_t kinds = 0;  // bits of Adversity; 0: the device is not adversarial

    // Parses "SEED" or "SEED:KIND+KIND…"; without kinds, chooses all but kEnd. Error: what is wrong
    // with the text.
    [[nodiscard]] static std::expected<AdversaryPlan, std::string> parse(std::string_view text);
    static uint32_t bit(Adversity kind) { return 1u << static_cast<unsigned>(kind); }
    static constexpr uint32_t kGentle = (1u << static_cast<unsigned>(Adversity::kEnd)) - 1;
};

// The fate of a response that a requester awaits: the response arrives, is lost, or becomes an RNR
// NAK or a NAK for a PSN sequence error.
enum class Setback : uint8_t { kNone, kLost, kNotReady, kSequence };
// How an adversarial device ends.
enum class SuddenEnd : uint8_t { kFatal, kReset, kGone };

class Adversary {
  public:
    explicit Adversary(const AdversaryPlan& plan);

    [[nodiscard]] bool plays(Adversity kind) const {
        return (plan_.kinds & AdversaryPlan::bit(kind)) != 0;
    }

    // Maximum times in nanoseconds. The manual sets kCommandNs and kEventNs.
    static constexpr uint64_t kCommandNs = 10'000'000'000;  // duration of a command
    static constexpr uint64_t kEventNs = 100'000'000;       // delay of an event or interrupt
    static constexpr uint64_t kFetchNs = 20'000'000;        // delay of a doorbell
    static constexpr uint64_t kFlapsNs = 10'000'000'000;    // from a reset until a link goes down
    static constexpr uint64_t kStepNs = 500'000'000;        // one step of the clock

    // Delays in nanoseconds; 0: no delay.
    uint64_t command_wait();
    uint64_t event_wait() { return wait(Adversity::kEvents, 4, kEventNs); }
    uint64_t interrupt_wait() { return wait(Adversity::kInterrupts, 2, kEventNs); }
    uint64_t fetch_wait() { return wait(Adversity::kFetches, 4, kFetchNs); }

    [[nodiscard]] bool repeats_interrupt() { return chance(Adversity::kInterrupts, 8); }
    // The vector of an interrupt without an EQE, less than `vectors`; no value: raise none now.
    [[nodiscard]] std::optional<unsigned> spurious_interrupt(unsigned vectors);
    [[nodiscard]] bool fetches_twice() { return chance(Adversity::kFetches, 4); }
    // Whether to read a send queue now, although its doorbell has not been rung again.
    [[nodiscard]] bool looks_early() { return chance(Adversity::kFetches, 8); }
    [[nodiscard]] bool loses_request() { return chance(Adversity::kRetries, 512); }
    [[nodiscard]] bool loses_mad();
    Setback setback();

    // next_…(): nanoseconds until the next clock step, end of the device, or failure of a link.
    // step(): nanoseconds by which the clock steps. flaps(): how often a link goes down after a
    // reset, at most three times.
    uint64_t next_step() { return 1 + below(Adversity::kClock, 4'000'000'000); }
    uint64_t step() { return short_or_long(Adversity::kClock, kStepNs); }
    uint64_t next_end() { return 1 + below(Adversity::kEnd, 60'000'000'000); }
    unsigned flaps() { return static_cast<unsigned>(below(Adversity::kPorts, 4)); }
    uint64_t next_flap() { return 1 + below(Adversity::kPorts, kFlapsNs); }

    // A random number less than `bound`, which is not 0.
    uint64_t below(Adversity kind, uint64_t bound);
    // Puts the elements in random order.
    template <typename T>
    void shuffle(Adversity kind, std::span<T> elements) {
        for (size_t left = elements.size(); left > 1; --left) {
            std::swap(elements[left - 1], elements[below(kind, left)]);
        }
    }

  private:
    uint64_t draw(Adversity kind);
    [[nodiscard]] bool chance(Adversity kind, uint64_t one_in) {
        return plays(kind) && below(kind, one_in) == 0;
    }
    uint64_t wait(Adversity kind, uint64_t one_in, uint64_t most);
    // A random duration of 1 to `most` nanoseconds; short ones are more likely.
    uint64_t short_or_long(Adversity kind, uint64_t most);

    const AdversaryPlan plan_;
    std::array<uint64_t, kAdversities> states_{};
    bool mad_lost_ = false;  // the last MAD was lost
};

}  // namespace pib::hca
