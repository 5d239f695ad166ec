// SPDX-License-Identifier: GPL-2.0-or-later
// The property "objects" contains a connection's uncompleted work requests and its last
// completions.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "rc_end.h"

using namespace pib;
using namespace pib::hca::test;
using namespace pib::test;
using nlohmann::json;

namespace {

// The entry of a list of the device's objects.
json entry(const Guest& guest, const char* list, const char* key, uint32_t number) {
    const json all = json::parse(guest.device->objects()).at(list).at("entries");
    const auto found = std::ranges::find_if(
        all, [&](const json& one) { return one.at(key).get<uint32_t>() == number; });
    REQUIRE(found != all.end());
    return *found;
}

json wqes(const RcEnd& end) {
    return entry(end.guest, "qps", "qpn", end.qp.qpn).at("requester").at("wqes");
}

// The CQEs without their times, which differ in each run.
json cqes(const RcEnd& end) {
    json found = entry(end.guest, "cqs", "cqn", end.cq.cqn).at("cqes");
    uint64_t before = 0;
    for (json& one : found) {
        CHECK(one.at("time_ns") >= before);
        before = one.at("time_ns");
        one.erase("time_ns");
    }
    return found;
}

json completion(const RcEnd& end, uint32_t counter, const char* opcode, uint32_t bytes) {
    return {{"qpn", end.qp.qpn},
            {"counter", counter},
            {"opcode", opcode},
            {"bytes", bytes},
            {"status", "IBV_WC_SUCCESS"}};
}

// A connection without timeouts: requests to a stalled guest wait until it runs again.
struct Connected : ConnectedSubnet {
    RcEnd& a = ends.a;
    RcEnd& b = ends.b;

    Connected() : ConnectedSubnet(8192, {.rq_psn = 100, .sq_psn = 100, .timeout = 0}) {}

    void write(uint32_t bytes) {
        a.guest.driver.post_send(a.qp, remote_request(PIB_HCA_WQE_RDMA_WRITE, a.mr, b.mr, bytes));
    }
    void send(uint32_t bytes) {
        a.guest.driver.post_send(a.qp, {.sges = {MiniDriver::sge(a.mr, 0, bytes)}});
    }
    void settle_with_peer(bool stalled) {
        b.guest.is_stalled = stalled;
        subnet.settle();
    }
};

}  // namespace

TEST_CASE("objects: the dump has unanswered requests, and completions of both ends") {
    Connected pair;
    CHECK(wqes(pair.a).empty());
    CHECK(cqes(pair.a).empty());

    const pib_hca_sge sge = MiniDriver::sge(pair.b.mr, 0, 4096);
    pair.b.guest.driver.post_recv(pair.b.qp, {&sge, 1});
    pair.write(3000);
    pair.send(64);
    pair.settle_with_peer(true);
    CHECK(wqes(pair.a) == json::parse(R"([
        {"counter":0,"opcode":"RDMA_WRITE","bytes":3000,"psn":100,"packets":3,"started":true},
        {"counter":1,"opcode":"SEND","bytes":64,"psn":103,"packets":1,"started":true}])"));
    CHECK(cqes(pair.a).empty());

    pair.settle_with_peer(false);
    CHECK(wqes(pair.a).empty());
    CHECK(cqes(pair.a) ==
          json::array({completion(pair.a, 0, "RDMA_WRITE", 0), completion(pair.a, 1, "SEND", 0)}));
    CHECK(cqes(pair.b) == json::array({completion(pair.b, 0, "RECV", 64)}));
}

TEST_CASE("objects: the dump has the oldest of many requests, and the last of many completions") {
    Connected pair;
    for (uint32_t i = 0; i < 12; ++i) {
        pair.write(8);
    }
    pair.settle_with_peer(true);
    REQUIRE(wqes(pair.a).size() == 8);
    CHECK(wqes(pair.a).at(7).at("counter") == 7);
    pair.settle_with_peer(false);
    REQUIRE(cqes(pair.a).size() == 8);
    CHECK(cqes(pair.a).at(0) == completion(pair.a, 4, "RDMA_WRITE", 0));
    CHECK(cqes(pair.a).at(7) == completion(pair.a, 11, "RDMA_WRITE", 0));
}
