// SPDX-License-Identifier: GPL-2.0-or-later
// An epoll instance with level-triggered events. Each descriptor has a handler object.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace pib::fabric {

class PollHandler {
  public:
    virtual ~PollHandler() = default;
    // `events`: EPOLL* bits. A handler must outlive the Poller::wait() call in which it was
    // removed.
    virtual void ready(uint32_t events) = 0;
    // Called after ready() has thrown std::bad_alloc. A handler that serves a peer closes that
    // peer's connection.
    virtual void out_of_memory() = 0;
};

class Poller {
  public:
    Poller();
    // False: the kernel refused (too many descriptors, no memory).
    [[nodiscard]] bool add(int fd, uint32_t events, PollHandler& handler);
    void modify(int fd, uint32_t events, PollHandler& handler);
    void remove(int fd);
    // Waits at most `timeout_ms` (negative: without limit), calls `before_dispatch`, then each
    // ready handler once.
    template <typename Before>
    void wait(int timeout_ms, Before before_dispatch) {
        const int count = collect(timeout_ms);
        before_dispatch();
        dispatch(count);
    }

  private:
    int collect(int timeout_ms);
    void dispatch(int count);

    UniqueFd epoll_;
    static constexpr int kBatch = 128;
    struct Event {
        uint32_t events;
        PollHandler* handler;
    } batch_[kBatch];
};

}  // namespace pib::fabric
