// SPDX-License-Identifier: GPL-2.0-or-later
// Closes descriptors that come from peers, in a thread of its own. Such a close() may block: a peer
// may pass the last reference to a socket that lingers, or to a file of a FUSE file system, and the
// end of a Unix socket closes the descriptors that wait in it. The event loop must not wait for
// that.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>

#include "base/unique_fd.h"

namespace pib::fabric {

class FdCloser {
  public:
    // is_full() returns true while at least this many descriptors are not closed yet.
    static constexpr size_t kMany = 256;

    // Closes a descriptor. If it is a socket, SO_LINGER is off, so that close() does not wait.
    static void close_now(int fd);

    // `close` closes one descriptor; tests give another function.
    explicit FdCloser(void (*close)(int) = &close_now);
    // Does not wait for the thread. The end of the process closes the descriptors that the thread
    // has not closed, and does not wait for sockets that linger.
    ~FdCloser();
    FdCloser(const FdCloser&) = delete;
    FdCloser& operator=(const FdCloser&) = delete;

    // Starts the thread, and returns when it runs. The thread has the rights and the blocked
    // signals of the caller, and confine() permits no new thread. The error is one line.
    [[nodiscard]] std::expected<void, std::string> start();
    // Has the thread close the descriptor. Closes it at once if the thread does not run, or if the
    // list of descriptors cannot grow.
    void close(UniqueFd fd);
    // Whether too many descriptors wait, so that the owner must accept no new peer.
    [[nodiscard]] bool is_full() const;

  private:
    struct Queue;
    static void run(const std::shared_ptr<Queue>& queue);

    std::shared_ptr<Queue> queue_;  // shared with the thread
};

}  // namespace pib::fabric
