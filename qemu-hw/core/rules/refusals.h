// SPDX-License-Identifier: GPL-2.0-or-later
// The last refusals of a device with their reasons, and the last misuses of its objects that a
// strict device reports, for authors of drivers. A guest can cause any number of refusals, so a
// fixed number is kept, and the number logged per second is limited. A reset clears none.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "base/driver_coverage.h"
#include "base/guest_errors.h"
#include "base/host.h"
#include "base/journal.h"
#include "base/recent_accesses.h"
#include "base/verdict.h"

namespace pib::hca {

class JsonWriter;

// Kinds of objects that a driver may misuse.
enum class Thing : uint8_t {
    kNone,
    kDevice,
    kCommandQueue,
    kCommandRing,
    kCompletionRing,
    kCommand,
    kShadowPage,
    kEq,
    kCq,
    kSrq,
    kQp,
};

struct Subject {
    Thing thing = Thing::kNone;
    uint32_t number = 0;  // also 0 for the only object of its kind
    auto operator<=>(const Subject&) const = default;
};

// A refused command, work request or packet, a store or load that the device ignores, or the misuse
// of an object.
struct Refusal {
    enum class Kind : uint8_t { kCommand, kAccess, kMisuse, kRequest, kPacket };

    // A literal: the command's name, "store to BAR0", "send WQE", or a packet's "RDMA WRITE".
    const char* what = "";
    Kind kind = Kind::kCommand;
    uint16_t opcode = 0;                       // command: its opcode
    uint16_t id = 0;                           // command: its id
    uint32_t object = 0;                       // command: its object; else the QP
    uint32_t counter = 0;                      // work request: its WQE counter
    bool is_send = false;                      // work request: a send; else a receive
    WcStatus completion = WcStatus::kSuccess;  // status of the work request; packet: of the peer's
    uint16_t pages_at = 0;                     // command: offset of the page list in its input
    uint8_t bar = 0;                           // access: the BAR that `offset` is in
    uint64_t offset = 0;
    RefusedPacket packet{};  // packet: its key and range
    Verdict verdict;
    Subject misused{};  // misuse: the object; `what` is unused
    Subject other{};    // the object that the misused one conflicts with
    uint64_t time_ns = 0;
    RecentAccesses accesses{};  // strict device: the loads and stores before the refusal
};

// Offset in bytes of the wrong field in the command's entry or input structure, or in the WQE; also
// 0 if the field is in none of them.
uint16_t field_offset(const Refusal& refusal);
// The reason in words, for example "log_depth 31 at byte 24, at most 22".
std::string reason_of(const Refusal& refusal);
// The refusal in words, for example
// "CREATE_CQ id 7 refused: log_depth 31 at byte 24, at most 22 (manual 6.13 rule 2)" or
// "CQ 0x3 misused: consumer 9 is ahead of the CQEs written: 8 (manual 10.1 rule 1)".
std::string text_of(const Refusal& refusal);

class Refusals final : public RequestReasons {
  public:
    static constexpr size_t kKept = 64;

    Refusals(Host& host, GuestErrors& log) : host_(host), log_(log) {}
    // From now on logs each broken rule that the device does not report to the driver, as a warning
    // with the last loads and stores from `accesses`. A strict device calls this.
    void warn_with(const RecentAccesses& accesses) { accesses_ = &accesses; }

    void count_with(DriverCoverage& coverage) { coverage_ = &coverage; }

    void add(const Refusal& refusal) noexcept;
    void refused(const FailedRequest& request) noexcept override;
    void refused(const RefusedPacket& packet) noexcept override;
    std::string words(const FailedRequest& request) const override;
    std::string words(const RefusedPacket& packet) const override;
    void ignored_load(unsigned bar, uint64_t offset);
    void ignored_store(unsigned bar, uint64_t offset, const Verdict& verdict);

    // Number of refusals since the device was created.
    uint64_t count() const { return count_; }
    // Index 0 is the last refusal. nullptr: there is no such refusal, or it is no longer kept.
    const Refusal* newest(uint64_t index) const {
        return index < count_ && index < kKept ? &ring_[(count_ - 1 - index) % kKept] : nullptr;
    }
    // Number of refusals that the device has not reported to the driver (is_silent()).
    uint64_t silent() const { return silent_; }

    // Writes the member "refusals" of a JSON object: their number, and the kept ones, oldest first.
    void write(JsonWriter& out) const;

  private:
    void print(const Refusal& refusal);

    Host& host_;
    GuestErrors& log_;
    const RecentAccesses* accesses_ = nullptr;
    DriverCoverage* coverage_ = nullptr;
    std::array<Refusal, kKept> ring_{};
    uint64_t count_ = 0;
    uint64_t silent_ = 0;
};

}  // namespace pib::hca
