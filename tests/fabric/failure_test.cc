// SPDX-License-Identifier: GPL-2.0-or-later
// What queue pairs see when ports, peers and the switch go away under them.
#include <catch2/catch_test_macros.hpp>

#include "mini_sm.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;

namespace {

constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE;

struct RcEnd {
    MiniMr mr;
    MiniQp qp;
};

RcEnd make_end(Guest& guest) {
    RcEnd end;
    end.mr = guest.driver.create_mr(guest.pd, 64 * 1024, kAccess);
    QpShape shape;
    shape.pd = guest.pd;
    shape.send_cq = shape.recv_cq = guest.cq.cqn;
    end.qp = guest.driver.create_qp(shape);
    return end;
}

// Two guests with a connection on which writes go from the first to the second.
struct Connected {
    Subnet subnet{2};
    MiniSm sm{subnet, subnet.guest(0)};
    RcEnd a, b;

    explicit Connected(uint8_t timeout) {
        sm.sweep();
        a = make_end(subnet.guest(0));
        b = make_end(subnet.guest(1));
        connect(0, a, b, timeout);
        connect(1, b, a, timeout);
    }
    void connect(unsigned index, const RcEnd& from, const RcEnd& to, uint8_t timeout) {
        RcPath path;
        path.av.dlid = sm.lid_of(1 - index);
        path.dest_qpn = to.qp.qpn;
        path.timeout = timeout;
        subnet.guest(index).driver.connect_rc(from.qp, path);
    }
    void write(uint32_t bytes) {
        SendWr request;
        request.opcode = PIB_HCA_WQE_RDMA_WRITE;
        request.sges = {MiniDriver::sge(a.mr, 0, bytes)};
        request.remote_addr = b.mr.addr;
        request.rkey = b.mr.key;
        subnet.guest(0).driver.post_send(a.qp, request);
    }
    std::optional<pib_hca_cqe> completion() {
        std::optional<pib_hca_cqe> cqe;
        subnet.run_until([&] {
            cqe = subnet.guest(0).driver.poll(subnet.guest(0).cq);
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
