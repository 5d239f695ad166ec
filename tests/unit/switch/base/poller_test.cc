// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/poller.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <new>

namespace pib::test {
namespace {

using fabric::Poller;
using fabric::UniqueFd;

struct Handler : fabric::PollHandler {
    void ready(uint32_t events) override {
        seen |= events;
        ++calls;
        if (on_ready) {
            on_ready();
        }
    }
    void out_of_memory() override { ++out_of_memory_calls; }

    std::function<void()> on_ready;
    uint32_t seen = 0;
    int calls = 0;
    int out_of_memory_calls = 0;
};

struct Sockets {
    Sockets() {
        std::array<int, 2> fds{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
        near = UniqueFd(fds[0]);
        far = UniqueFd(fds[1]);
    }
    void make_readable() const { REQUIRE(::write(far.get(), "x", 1) == 1); }
    void read() const {
        char byte = 0;
        REQUIRE(::read(near.get(), &byte, 1) == 1);
    }

    UniqueFd near;
    UniqueFd far;
};

// Handles what is ready now.
void poll_once(Poller& poller) {
    poller.wait(0, [] {});
}

}  // namespace

TEST_CASE("poller: a handler is called while its descriptor is ready") {
    Poller poller;
    const Sockets ready;
    const Sockets idle;
    Handler handler;
    Handler idle_handler;
    REQUIRE(poller.add(ready.near.get(), EPOLLIN, handler));
    REQUIRE(poller.add(idle.near.get(), EPOLLIN, idle_handler));
    poll_once(poller);
    CHECK(handler.calls == 0);
    ready.make_readable();
    poll_once(poller);
    CHECK(handler.calls == 1);
    CHECK(handler.seen == EPOLLIN);
    poll_once(poller);
    CHECK(handler.calls == 2);
    ready.read();
    poll_once(poller);
    CHECK(handler.calls == 2);
    CHECK(idle_handler.calls == 0);
}

TEST_CASE("poller: a wait without limit ends when a descriptor becomes ready") {
    Poller poller;
    Handler handler;
    const UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    REQUIRE(poller.add(timer.get(), EPOLLIN, handler));
    const itimerspec soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 50'000'000}};
    REQUIRE(::timerfd_settime(timer.get(), 0, &soon, nullptr) == 0);
    poller.wait(-1, [] {});
    CHECK(handler.calls == 1);
}

TEST_CASE("poller: the caller's function precedes the handlers and sees the result of the wait") {
    Poller poller;
    const Sockets sockets;
    Handler handler;
    REQUIRE(poller.add(sockets.near.get(), EPOLLIN, handler));
    int called = 0;
    SECTION("with a ready descriptor") {
        sockets.make_readable();
        poller.wait(0, [&] {
            ++called;
            CHECK(handler.calls == 0);
            sockets.read();
        });
        CHECK(handler.calls == 1);
    }
    SECTION("without one") {
        poller.wait(0, [&] { ++called; });
        CHECK(handler.calls == 0);
    }
    CHECK(called == 1);
}

TEST_CASE("poller: changed events and handlers replace the former ones") {
    Poller poller;
    const Sockets sockets;
    Handler former;
    Handler handler;
    REQUIRE(poller.add(sockets.near.get(), EPOLLIN, former));
    poller.modify(sockets.near.get(), EPOLLOUT, handler);
    sockets.make_readable();
    poll_once(poller);
    CHECK(former.calls == 0);
    CHECK(handler.seen == EPOLLOUT);
}

TEST_CASE("poller: a removed descriptor calls no handler") {
    Poller poller;
    const Sockets sockets;
    Handler handler;
    REQUIRE(poller.add(sockets.near.get(), EPOLLIN, handler));
    poller.remove(sockets.near.get());
    sockets.make_readable();
    poll_once(poller);
    CHECK(handler.calls == 0);
    CHECK(poller.add(sockets.near.get(), EPOLLIN, handler));
    poll_once(poller);
    CHECK(handler.calls == 1);
}

TEST_CASE("poller: a descriptor that the kernel refuses is reported") {
    Poller poller;
    const Sockets sockets;
    Handler handler;
    REQUIRE(poller.add(sockets.near.get(), EPOLLIN, handler));
    CHECK_FALSE(poller.add(sockets.near.get(), EPOLLIN, handler));
    CHECK_FALSE(poller.add(-1, EPOLLIN, handler));
}

TEST_CASE("poller: a handler that runs out of memory is told so, and the others are called") {
    Poller poller;
    std::array<Sockets, 3> sockets;
    std::array<Handler, 3> handlers;
    for (size_t i = 0; i < sockets.size(); ++i) {
        REQUIRE(poller.add(sockets[i].near.get(), EPOLLIN, handlers[i]));
        sockets[i].make_readable();
    }
    handlers[1].on_ready = [] { throw std::bad_alloc(); };
    poll_once(poller);
    for (size_t i = 0; i < handlers.size(); ++i) {
        CHECK(handlers[i].calls == 1);
        CHECK(handlers[i].out_of_memory_calls == (i == 1 ? 1 : 0));
    }
}

}  // namespace pib::test
