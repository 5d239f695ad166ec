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
    uint64_t now_ns = 0;  // never goes backwards
};

class TimerQueue;

// An object with deadlines.
class TimerClient {
  public:
    TimerClient() = default;
    virtual ~TimerClient();
    TimerClient(const TimerClient&) = delete;
    TimerClient& operator=(const TimerClient&) = delete;

    // Called when the deadline has passed: does the work that is due.
    virtual void on_deadline(uint64_t now_ns) = 0;
    // The next deadline; UINT64_MAX: none. The call may drop finished work.
    [[nodiscard]] virtual uint64_t next_deadline() = 0;

  private:
    friend class TimerQueue;
    TimerQueue* timers_ = nullptr;
    uint64_t due_ns_ = UINT64_MAX;  // deadline with which this client is in the queue
    uint64_t serial_ = 0;           // order of equal deadlines
    bool touched_ = false;
};

class TimerQueue {
  public:
    [[nodiscard]] const Clock& clock() const { return clock_; }
    // Reports an event at `client`, which may change its next deadline.
    void touch(TimerClient& client);
    // Moves the clock to `now_ns` and calls on_deadline() of all clients whose deadline has passed.
    void advance(uint64_t now_ns);
    // Reads the next deadlines of all touched clients. Must precede next_deadline().
    void update();
    [[nodiscard]] uint64_t next_deadline() const {
        return due_.empty() ? UINT64_MAX : due_.begin()->first.first;
    }

  private:
    friend class TimerClient;
    void forget(TimerClient& client);

    using Key = std::pair<uint64_t, uint64_t>;  // due, serial
    struct Entry {
        Key first;
        TimerClient* client;
        auto operator<=>(const Entry& other) const { return first <=> other.first; }
    };
    Clock clock_;
    std::set<Entry> due_;
    std::vector<TimerClient*> touched_;
    uint64_t serial_ = 0;
};

}  // namespace pib::fabric
