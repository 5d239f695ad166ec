// SPDX-License-Identifier: GPL-2.0-or-later
// Timer queue for many nodes. Most nodes of a large fabric are idle, so the queue visits only nodes
// with a new event and nodes whose deadline has passed.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace pib::fabric {

struct Clock {
    std::uint64_t now_ns = 0;  // never goes backwards
};

class Agenda;

// Something that has deadlines.
class Timed {
  public:
    Timed() = default;
    virtual ~Timed();
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

    // Does the work that is due.
    virtual void time_has_come(std::uint64_t now_ns) = 0;
    // UINT64_MAX: none. The call may drop finished work.
    [[nodiscard]] virtual std::uint64_t next_deadline() = 0;

  private:
    friend class Agenda;
    Agenda* agenda_ = nullptr;
    std::uint64_t due_ns_ = UINT64_MAX;  // deadline under which the queue has it
    std::uint64_t serial_ = 0;           // order of equal deadlines
    bool touched_ = false;
};

class Agenda {
  public:
    [[nodiscard]] const Clock& clock() const { return clock_; }
    // Reports an event at `timed`, which may change its next deadline.
    void touch(Timed& timed);
    // Moves the clock and calls all clients whose deadline has passed.
    void advance(std::uint64_t now_ns);
    // Reads the next deadlines of all touched clients. Must precede next_deadline().
    void update();
    [[nodiscard]] std::uint64_t next_deadline() const {
        return due_.empty() ? UINT64_MAX : due_.begin()->first.first;
    }

  private:
    friend class Timed;
    void forget(Timed& timed);

    using Key = std::pair<std::uint64_t, std::uint64_t>;  // due, serial
    struct Entry {
        Key first;
        Timed* timed;
        auto operator<=>(const Entry& other) const { return first <=> other.first; }
    };
    Clock clock_;
    std::set<Entry> due_;
    std::vector<Timed*> touched_;
    std::uint64_t serial_ = 0;
};

}  // namespace pib::fabric
