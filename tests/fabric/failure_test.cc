// SPDX-License-Identifier: GPL-2.0-or-later
// Effects on QPs when ports, peers and the switch disappear.
#include <catch2/catch_test_macros.hpp>

#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

// Two guests with a connection on which writes go from the first to the second.
struct Connected : ConnectedSubnet {
    explicit Connected(uint8_t timeout) : ConnectedSubnet(64 * 1024, {.timeout = timeout}) {}

    void write(uint32_t bytes) {
        ends.a.guest.driver.post_send(
            ends.a.qp, remote_request(PIB_HCA_WQE_RDMA_WRITE, ends.a.mr, ends.b.mr, bytes));
    }
    std::optional<pib_hca_cqe> completion() {
        std::optional<pib_hca_cqe> cqe;
        subnet.run_until([&] {
            cqe = ends.a.guest.driver.poll(ends.a.cq);
            return cqe.has_value();
        });
        return cqe;
    }
};

}  // namespace

TEST_CASE("retries bridge a short outage, and a long one ends in RETRY_EXC") {
    Connected pair(16);  // 268 ms, seven retries
    pair.write(32 * 1024);
    auto cqe = pair.completion();
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_SUCCESS);

    // The peer's cable is pulled in the middle of a message, and put back 200 ms later.
    pair.subnet.guest(1).disconnect();
    pair.write(32 * 1024);
    pair.subnet.advance(200'000'000);
    pair.subnet.connect(1);
    pair.subnet.settle();
    pair.sm.sweep();
    cqe = pair.completion();
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_SUCCESS);

    pair.subnet.guest(1).disconnect();
    pair.write(1024);
    cqe = pair.completion();
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_RETRY_EXC_ERR);
}

TEST_CASE("a QP whose own port has no link completes with RETRY_EXC") {
    Connected pair(10);
    pair.subnet.guest(0).disconnect();
    pair.write(32 * 1024);
    const auto cqe = pair.completion();
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_RETRY_EXC_ERR);
}

TEST_CASE("a reset destroys the QPs, and the peer's packets are dropped") {
    Connected pair(10);
    Guest& guest = pair.subnet.guest(1);
    guest.device->reset(false);
    pair.subnet.settle();
    guest.start();
    pair.sm.sweep();
    pair.write(1024);
    const auto cqe = pair.completion();
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_RETRY_EXC_ERR);
    CHECK(guest.counter(PIB_HCA_COUNTER_RX_DROPPED) > 0);
}
