// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/poller.h"

#include <sys/epoll.h>

#include <new>
#include <system_error>

namespace pib::fabric {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) {
        throw std::system_error(errno, std::generic_category(), "epoll");
    }
}

bool Poller::add(int fd, uint32_t events, PollHandler& handler) {
    epoll_event event{.events = events, .data = {.ptr = &handler}};
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Poller::modify(int fd, uint32_t events, PollHandler& handler) {
    epoll_event event{.events = events, .data = {.ptr = &handler}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::remove(int fd) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

int Poller::collect(int timeout_ms) {
    epoll_event events[kBatch];
    const int count = ::epoll_wait(epoll_.get(), events, kBatch, timeout_ms);
    for (int i = 0; i < count; ++i) {
        batch_[i] = {events[i].events, static_cast<PollHandler*>(events[i].data.ptr)};
    }
    return count;
}

void Poller::dispatch(int count) {
    for (int i = 0; i < count; ++i) {
        PollHandler& handler = *batch_[i].handler;
        try {
            handler.ready(batch_[i].events);
        } catch (const std::bad_alloc&) {
            handler.out_of_memory();
        }
    }
}

}  // namespace pib::fabric
