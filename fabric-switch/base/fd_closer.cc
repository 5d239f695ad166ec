// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/fd_closer.h"

#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace pib::fabric {

struct FdCloser::Queue {
    explicit Queue(void (*function)(int)) : close(function) {}

    void (*const close)(int);
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int> waiting;
    size_t open = 0;  // descriptors not closed yet, in `waiting` or taken from it by the thread
    bool runs = false;
    bool ended = false;
};

void FdCloser::close_now(int fd) {
    const linger none{.l_onoff = 0, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    ::close(fd);
}

FdCloser::FdCloser(void (*close)(int)) : queue_(std::make_shared<Queue>(close)) {}

FdCloser::~FdCloser() {
    const std::lock_guard lock(queue_->mutex);
    queue_->ended = true;
    queue_->changed.notify_all();
}

// Takes all waiting descriptors at once. When the owner is destroyed, leaves the rest open.
void FdCloser::run(const std::shared_ptr<Queue>& queue) {
    std::vector<int> taken;
    std::unique_lock lock(queue->mutex);
    queue->runs = true;
    queue->changed.notify_all();
    while (true) {
        queue->changed.wait(lock, [&] { return queue->ended || !queue->waiting.empty(); });
        if (queue->ended) {
            return;
        }
        taken.swap(queue->waiting);
        for (const int fd : taken) {
            lock.unlock();
            queue->close(fd);
            lock.lock();
            --queue->open;
        }
        taken.clear();
    }
}

std::expected<void, std::string> FdCloser::start() {
    try {
        std::thread([queue = queue_] { run(queue); }).detach();
    } catch (const std::system_error& error) {
        return std::unexpected(std::string("no thread to close descriptors: ") + error.what() +
                               ": raise the limit of threads (ulimit -u)");
    }
    std::unique_lock lock(queue_->mutex);
    queue_->changed.wait(lock, [this] { return queue_->runs; });
    return {};
}

void FdCloser::close(UniqueFd fd) {
    if (!fd) {
        return;
    }
    {
        const std::lock_guard lock(queue_->mutex);
        if (queue_->runs) {
            try {
                queue_->waiting.push_back(fd.get());
                (void)fd.release();
                ++queue_->open;
                queue_->changed.notify_all();
            } catch (const std::bad_alloc&) {
            }
        }
    }
    if (fd) {
        queue_->close(fd.release());
    }
}

bool FdCloser::is_full() const {
    const std::lock_guard lock(queue_->mutex);
    return queue_->open >= kMany;
}

}  // namespace pib::fabric
