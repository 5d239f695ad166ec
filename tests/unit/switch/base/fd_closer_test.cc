// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/fd_closer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <semaphore>
#include <thread>

#include "lingering.h"
#include "program.h"

namespace pib::test {
namespace {

using fabric::FdCloser;
using fabric::UniqueFd;

std::counting_semaphore<> g_may_close(0);

void close_when_permitted(int fd) {
    g_may_close.acquire();
    ::close(fd);
}

UniqueFd any() {
    return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int fd) {
    return ::fcntl(fd, F_GETFD) >= 0;
}

}  // namespace

TEST_CASE("closer: a descriptor that closes slowly delays only its thread") {
    FdCloser closer(&close_when_permitted);
    REQUIRE(closer.start());
    for (size_t i = 0; i < FdCloser::kMany; ++i) {
        CHECK_FALSE(closer.is_full());
        closer.close(any());
    }
    CHECK(closer.is_full());
    g_may_close.release();
    CHECK(eventually([&] { return !closer.is_full(); }));
    g_may_close.release(FdCloser::kMany);
}

TEST_CASE("closer: without its thread descriptors are closed at once") {
    FdCloser closer;
    closer.close(UniqueFd());
    UniqueFd fd = any();
    const int number = fd.get();
    closer.close(std::move(fd));
    CHECK_FALSE(is_open(number));
    CHECK_FALSE(closer.is_full());
}

TEST_CASE("closer: a socket is closed without lingering") {
    Lingering passed;
    std::atomic<bool> closed = false;
    std::thread closing([&] {
        FdCloser::close_now(passed.near.release());
        closed = true;
    });
    CHECK(eventually([&] { return closed.load(); }));
    passed.far.reset();
    closing.join();
}

}  // namespace pib::test
