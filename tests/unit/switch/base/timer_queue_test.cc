// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/timer_queue.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <utility>

namespace pib::test {
namespace {

using fabric::TimerQueue;

constexpr uint64_t kNone = UINT64_MAX;

// A client that notes its calls in a text which several clients share.
class Client : public fabric::TimerClient {
  public:
    Client(std::string& calls, char name, uint64_t due_ns)
        : due_ns(due_ns), calls_(calls), name_(name) {}

    void on_deadline(uint64_t now_ns) override {
        calls_ += name_ + std::to_string(now_ns) + " ";
        due_ns = after;
    }
    uint64_t next_deadline() override {
        ++reads;
        return due_ns;
    }

    uint64_t due_ns;
    uint64_t after = kNone;  // the next deadline when on_deadline() has returned
    int reads = 0;

  private:
    std::string& calls_;
    char name_;
};

}  // namespace

TEST_CASE("timer queue: a deadline is read only after a report, and once for many reports") {
    TimerQueue queue;
    std::string calls;
    Client client(calls, 'a', 100);
    queue.update();
    CHECK(queue.next_deadline() == kNone);
    queue.touch(client);
    queue.touch(client);
    queue.update();
    CHECK(queue.next_deadline() == 100);
    queue.update();
    CHECK(client.reads == 1);
    client.due_ns = 50;
    queue.update();
    CHECK(queue.next_deadline() == 100);
    queue.touch(client);
    queue.update();
    CHECK(queue.next_deadline() == 50);
}

TEST_CASE("timer queue: deadlines that have passed are called in their order") {
    TimerQueue queue;
    std::string calls;
    Client late(calls, 'l', 301);
    Client second(calls, 's', 300);
    Client first(calls, 'f', 200);
    for (Client* client : {&late, &second, &first}) {
        queue.touch(*client);
    }
    queue.advance(199);
    CHECK(calls.empty());
    queue.advance(300);
    CHECK(calls == "f300 s300 ");
    queue.advance(301);
    CHECK(calls == "f300 s300 l301 ");
}

TEST_CASE("timer queue: equal deadlines are called in the order of the first reports") {
    TimerQueue queue;
    std::string calls;
    Client a(calls, 'a', 500);
    Client b(calls, 'b', 100);
    Client c(calls, 'c', 100);
    for (Client* client : {&c, &a, &b}) {
        queue.touch(*client);
    }
    queue.update();
    a.due_ns = 100;
    queue.touch(a);
    queue.advance(100);
    CHECK(calls == "c100 a100 b100 ");
}

TEST_CASE("timer queue: the clock does not go backwards") {
    TimerQueue queue;
    std::string calls;
    Client client(calls, 'a', 80);
    queue.advance(100);
    CHECK(queue.clock().now_ns == 100);
    queue.touch(client);
    queue.advance(50);
    CHECK(queue.clock().now_ns == 100);
    CHECK(calls == "a100 ");
}

TEST_CASE("timer queue: a client has the deadline that it names after its call") {
    TimerQueue queue;
    std::string calls;
    Client client(calls, 'a', 100);
    queue.touch(client);
    SECTION("a later one") {
        client.after = 200;
        queue.advance(100);
        queue.update();
        CHECK(queue.next_deadline() == 200);
        queue.advance(199);
        CHECK(calls == "a100 ");
    }
    SECTION("one that has passed: the next advance() calls it again") {
        client.after = 100;
        queue.advance(100);
        CHECK(calls == "a100 ");
        queue.advance(100);
        CHECK(calls == "a100 a100 ");
    }
    SECTION("none") {
        queue.advance(100);
        queue.update();
        CHECK(queue.next_deadline() == kNone);
        queue.advance(1000);
        CHECK(calls == "a100 ");
    }
}

TEST_CASE("timer queue: a new deadline replaces the former one") {
    TimerQueue queue;
    std::string calls;
    Client client(calls, 'a', 100);
    queue.touch(client);
    queue.update();
    SECTION("a later one") {
        client.due_ns = 300;
        queue.touch(client);
        queue.advance(299);
        CHECK(calls.empty());
        CHECK(queue.next_deadline() == 300);
    }
    SECTION("none") {
        client.due_ns = kNone;
        queue.touch(client);
        queue.advance(1000);
        CHECK(calls.empty());
        CHECK(queue.next_deadline() == kNone);
    }
}

TEST_CASE("timer queue: a destroyed client leaves the queue") {
    TimerQueue queue;
    std::string calls;
    Client other(calls, 'o', 200);
    queue.touch(other);
    std::optional<Client> client(std::in_place, calls, 'a', 100);
    queue.touch(*client);
    SECTION("with a deadline") {
        queue.update();
        client.reset();
        CHECK(queue.next_deadline() == 200);
    }
    SECTION("with a report that no update() has read") {
        client.reset();
        queue.update();
        CHECK(queue.next_deadline() == 200);
    }
    queue.advance(200);
    CHECK(calls == "o200 ");
}

}  // namespace pib::test
