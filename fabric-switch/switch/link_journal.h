// SPDX-License-Identifier: GPL-2.0-or-later
// The last kMost changes of a switch's links, with their times, so that an operator can look for
// the causes of failures (`ctl journal`).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace pib::fabric {

enum class LinkChange : uint8_t {
    kUp,           // PortState has left Down
    kDown,         // PortState has become Down
    kCablePulled,  // by the operator; so are kCableBack and kRetrained
    kCableBack,
    kRetrained,
    kFaults,  // set or cleared; the detail lists them
    kError,   // a threshold of link errors was reached; the detail names the trap
};

class LinkJournal {
  public:
    static constexpr size_t kMost = 256;

    struct Entry {
        uint64_t time_ns;  // time of the last occurrence, of the switch's clock
        uint8_t port;
        LinkChange change;
        uint64_t times;  // occurrences of the same change in a row
        std::string detail;
    };

    // Beyond kMost entries, the oldest entry of the port with the most entries is replaced, so that
    // a port that flaps does not push out the entries of others. A change that equals the newest
    // entry in port, change and detail is counted in that entry.
    void add(uint64_t now_ns, uint8_t port, LinkChange change, std::string detail = {});
    // Oldest first.
    [[nodiscard]] const std::deque<Entry>& entries() const { return entries_; }
    // Number of entries that later entries have replaced.
    [[nodiscard]] uint64_t lost() const { return lost_; }
    // Number of changes so far, with repetitions.
    [[nodiscard]] uint64_t changes() const { return changes_; }

  private:
    void drop_one();

    std::deque<Entry> entries_;
    uint64_t lost_ = 0;
    uint64_t changes_ = 0;
};

}  // namespace pib::fabric
