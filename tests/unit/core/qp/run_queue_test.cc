// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/run_queue.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib;
using namespace pib::hca;

TEST_CASE("run queue: the QP that has waited longest in its lane is next") {
    RunQueue queue;
    CHECK(queue.empty());
    for (const uint32_t qpn : {30, 10, 20}) {
        queue.push(qpn, 1, 0);
    }
    queue.push(40, 1, 5);
    queue.push(50, 2, 0);
    CHECK(queue.pop(1, 0) == 30);
    CHECK(queue.pop(1, 0) == 10);
    CHECK(queue.pop(1, 5) == 40);
    CHECK(queue.pop(1, 0) == 20);
    CHECK_FALSE(queue.empty());
    CHECK(queue.pop(2, 0) == 50);
    CHECK(queue.empty());
}

TEST_CASE("run queue: ports with waiting QPs take turns") {
    RunQueue queue;
    for (const unsigned port : {1, 3, 4}) {
        queue.push(port * 10, port, 0);
        queue.push(port * 10 + 1, port, kLoopbackLane);
    }
    for (const unsigned port : {1, 3, 4, 1, 3}) {
        CHECK(queue.next_port() == port);
    }
    CHECK(queue.pop(4, 0) == 40);
    CHECK(queue.next_port() == 4);
    CHECK(queue.pop(4, kLoopbackLane) == 41);
    CHECK(queue.next_port() == 1);
    CHECK(queue.next_port() == 3);
    CHECK(queue.next_port() == 1);
}

TEST_CASE("run queue: the only lane in which QPs wait is next") {
    RunQueue queue;
    for (const unsigned lane : {0u, 14u, kVl15Lane, kLoopbackLane}) {
        for (int turn = 0; turn < 2; ++turn) {
            queue.push(7, 2, lane);
            CHECK(queue.next_lane(2) == lane);
            CHECK(queue.pop(2, lane) == 7);
        }
    }
}

TEST_CASE("run queue: VL15 precedes all other lanes") {
    RunQueue queue;
    queue.push(1, 1, 0);
    queue.push(2, 1, kLoopbackLane);
    queue.push(3, 1, kVl15Lane);
    CHECK(queue.next_lane(1) == kVl15Lane);
    CHECK(queue.next_lane(1) == kVl15Lane);
}

TEST_CASE("run queue: loopback and the data VLs take turns") {
    RunQueue queue;
    queue.push(1, 1, 6);
    queue.push(2, 1, kLoopbackLane);
    SECTION("with one data VL") {
        for (int turn = 0; turn < 2; ++turn) {
            CHECK(queue.next_lane(1) == kLoopbackLane);
            CHECK(queue.next_lane(1) == 6u);
        }
    }
    SECTION("with two, between which the port arbitrates") {
        queue.push(3, 1, 2);
        for (int turn = 0; turn < 2; ++turn) {
            CHECK(queue.next_lane(1) == kLoopbackLane);
            CHECK_FALSE(queue.next_lane(1));
        }
    }
}

TEST_CASE("run queue: the port arbitrates between several data VLs") {
    RunQueue queue;
    queue.push(1, 3, 0);
    queue.push(2, 3, 14);
    CHECK_FALSE(queue.next_lane(3));
    CHECK(queue.data_vls(3) == (1u << 0 | 1u << 14));
    queue.push(3, 3, kVl15Lane);
    queue.push(4, 3, kLoopbackLane);
    CHECK(queue.data_vls(3) == (1u << 0 | 1u << 14));
    CHECK(queue.data_vls(2) == 0);
    CHECK(queue.pop(3, 14) == 2);
    CHECK(queue.data_vls(3) == 1u << 0);
}

TEST_CASE("run queue: a QP in a data VL meets others only on its own port's link") {
    RunQueue queue;
    queue.push(1, 1, 4);
    SECTION("the same lane is no other lane") {
        CHECK_FALSE(queue.others_wait(1, 4));
    }
    SECTION("another data VL") {
        CHECK(queue.others_wait(1, 3));
    }
    SECTION("VL15") {
        queue.push(2, 1, kVl15Lane);
        CHECK(queue.others_wait(1, 4));
    }
    SECTION("loopback does not use the link") {
        queue.push(2, 1, kLoopbackLane);
        CHECK_FALSE(queue.others_wait(1, 4));
    }
    SECTION("another port") {
        CHECK_FALSE(queue.others_wait(2, 3));
    }
}

TEST_CASE("run queue: QPs in VL15 and loopback need not wait for others") {
    RunQueue queue;
    queue.push(1, 1, 0);
    CHECK_FALSE(queue.others_wait(1, kVl15Lane));
    CHECK_FALSE(queue.others_wait(1, kLoopbackLane));
}

TEST_CASE("run queue: a removed QP gets no turn, and the others keep their order") {
    RunQueue queue;
    for (const uint32_t qpn : {1, 2, 3}) {
        queue.push(qpn, 1, 0);
    }
    queue.push(4, kMaxPorts, kLoopbackLane);
    queue.remove(2);
    queue.remove(99);
    CHECK(queue.pop(1, 0) == 1);
    CHECK(queue.pop(1, 0) == 3);
    CHECK(queue.next_port() == kMaxPorts);
    queue.remove(4);
    CHECK(queue.empty());
}

TEST_CASE("run queue: a cleared queue is empty in all lanes") {
    RunQueue queue;
    queue.push(1, 1, 0);
    queue.push(2, 2, kLoopbackLane);
    queue.clear();
    CHECK(queue.empty());
    CHECK(queue.data_vls(1) == 0);
    queue.push(3, 1, 0);
    queue.push(4, 2, 7);
    CHECK(queue.next_lane(2) == 7u);
    CHECK(queue.pop(1, 0) == 3);
    CHECK(queue.pop(2, 7) == 4);
    CHECK(queue.empty());
}
