// SPDX-License-Identifier: GPL-2.0-or-later
// Time for many nodes. Most of a large fabric does nothing most of the time: an agenda looks only
// at nodes that something has happened to, and at those whose time has come.
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

    // Does what has become due.
    virtual void time_has_come(std::uint64_t now_ns) = 0;
    // UINT64_MAX: none. May forget what has none any more.
    [[nodiscard]] virtual std::uint64_t next_deadline() = 0;

  private:
    friend class Agenda;
    Agenda* agenda_ = nullptr;
    std::uint64_t due_ns_ = UINT64_MAX;  // as the agenda has it
    std::uint64_t serial_ = 0;           // order among what is due at the same time
    bool touched_ = false;
};

class Agenda {
  public:
    [[nodiscard]] const Clock& clock() const { return clock_; }
    // Something happens to `timed`: its next deadline may be another.
    void touch(Timed& timed);
    // Moves the clock and lets everybody do what is due.
    void advance(std::uint64_t now_ns);
    // Asks who was touched for the next deadline. Before next_deadline() is believed.
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
