// SPDX-License-Identifier: GPL-2.0-or-later
// The list of a device's objects has a connection's work requests that are not completed, and its
// last completions.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "mini_sm.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;
using nlohmann::json;

namespace {

constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE;
constexpr uint32_t kFirstPsn = 100;

struct End {
    Guest& guest;
    MiniMr mr;
    MiniCq cq;
    MiniQp qp;

    explicit End(Guest& g) : guest(g) {
        mr = g.driver.create_mr(g.pd, 8192, kAccess);
        cq = g.driver.create_cq(g.driver.create_eq(3).eqn, 8);
        QpShape shape;
        shape.pd = g.pd;
        shape.send_cq = shape.recv_cq = cq.cqn;
        qp = g.driver.create_qp(shape);
    }
    void connect(const End& to, uint16_t dlid) {
        RcPath path;
        path.av.dlid = dlid;
        path.dest_qpn = to.qp.qpn;
        path.sq_psn = path.rq_psn = kFirstPsn;
        path.path_mtu = 3;  // 1024 bytes
        path.timeout = 0;
        guest.driver.connect_rc(qp, path);
    }
    void write(const End& to, uint32_t bytes) {
        SendWr request;
        request.opcode = PIB_HCA_WQE_RDMA_WRITE;
        request.sges = {MiniDriver::sge(mr, 0, bytes)};
        request.remote_addr = to.mr.addr;
        request.rkey = to.mr.key;
        guest.driver.post_send(qp, request);
    }
    void send(uint32_t bytes) {
        SendWr request;
        request.sges = {MiniDriver::sge(mr, 0, bytes)};
        guest.driver.post_send(qp, request);
    }
    // The entry of a list of the device's objects.
    json entry(const char* list, const char* key, uint32_t number) const {
        const json all = json::parse(guest.device->objects()).at(list).at("entries");
        const auto found = std::ranges::find_if(
            all, [&](const json& one) { return one.at(key).get<uint32_t>() == number; });
        REQUIRE(found != all.end());
        return *found;
    }
    json wqes() const { return entry("qps", "qpn", qp.qpn).at("requester").at("wqes"); }
    // Without their times, which grow.
    json cqes() const {
        json found = entry("cqs", "cqn", cq.cqn).at("cqes");
        uint64_t before = 0;
        for (json& one : found) {
            CHECK(one.at("time_ns") >= before);
            before = one.at("time_ns");
            one.erase("time_ns");
        }
        return found;
    }
};

json completion(const End& end, uint32_t counter, const char* opcode, uint32_t bytes) {
    return {{"qpn", end.qp.qpn},
            {"counter", counter},
            {"opcode", opcode},
            {"bytes", bytes},
            {"status", "IBV_WC_SUCCESS"}};
}

}  // namespace

TEST_CASE("objects: requests without an answer, and completions of both ends") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    End a(subnet.guest(0)), b(subnet.guest(1));
    a.connect(b, sm.lid_of(1));
    b.connect(a, sm.lid_of(0));
    CHECK(a.wqes().empty());
    CHECK(a.cqes().empty());

    const pib_hca_sge sge = MiniDriver::sge(b.mr, 0, 4096);
    b.guest.driver.post_recv(b.qp, {&sge, 1});
    subnet.guest(1).is_stalled = true;
    a.write(b, 3000);
    a.send(64);
    subnet.settle();
    CHECK(a.wqes() == json::parse(R"([
        {"counter":0,"opcode":"RDMA_WRITE","bytes":3000,"psn":100,"packets":3,"started":true},
        {"counter":1,"opcode":"SEND","bytes":64,"psn":103,"packets":1,"started":true}])"));
    CHECK(a.cqes().empty());

    subnet.guest(1).is_stalled = false;
    subnet.settle();
    CHECK(a.wqes().empty());
    CHECK(a.cqes() ==
          json::array({completion(a, 0, "RDMA_WRITE", 0), completion(a, 1, "SEND", 0)}));
    CHECK(b.cqes() == json::array({completion(b, 0, "RECV", 64)}));
}

TEST_CASE("objects: of many requests the oldest are told, of many completions the last") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    End a(subnet.guest(0)), b(subnet.guest(1));
    a.connect(b, sm.lid_of(1));
    b.connect(a, sm.lid_of(0));
    subnet.guest(1).is_stalled = true;
    for (uint32_t i = 0; i < 12; ++i) {
        a.write(b, 8);
    }
    subnet.settle();
    REQUIRE(a.wqes().size() == 8);
    CHECK(a.wqes().at(7).at("counter") == 7);
    subnet.guest(1).is_stalled = false;
    subnet.settle();
    REQUIRE(a.cqes().size() == 8);
    CHECK(a.cqes().at(0) == completion(a, 4, "RDMA_WRITE", 0));
    CHECK(a.cqes().at(7) == completion(a, 11, "RDMA_WRITE", 0));
}
