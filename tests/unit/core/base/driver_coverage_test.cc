// SPDX-License-Identifier: GPL-2.0-or-later
// The device's counts of what its driver has used.
#include "base/driver_coverage.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace pib::hca;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("coverage: accesses are counted by register and doorbell, with all stored bits") {
    DriverCoverage coverage;
    coverage.loaded(false, 0x8);
    coverage.stored(false, 0x4, 1);
    coverage.stored(false, 0x4, 2);
    coverage.stored(true, 0x8, uint64_t{1} << 32 | 1U << 24);
    const std::string text = coverage.json();
    CHECK_THAT(text,
               ContainsSubstring(
                   R"("registers":[{"offset":4,"loads":0,"stores":2,"bits":"0x3"},)"
                   R"({"offset":8,"loads":1,"stores":0,"bits":"0x0"}],)"
                   R"("doorbells":[{"offset":8,"loads":0,"stores":1,"bits":"0x101000000"}])"));
}

TEST_CASE("coverage: a command has its statuses, and the values of each byte of its input") {
    DriverCoverage coverage;
    coverage.command(0x40, 0);
    coverage.command(0x40, 3);
    coverage.input(0x40, std::array<uint8_t, 4>{1, 0, 5, 0});
    coverage.input(0x40, std::array<uint8_t, 4>{1, 2, 4, 0});
    CHECK_THAT(coverage.json(),
               ContainsSubstring(R"([{"opcode":64,"statuses":[1,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0],)"
                                 R"("values":["01","0002","0405","00"],)"
                                 R"("halves":[[1,513],[4,5]],"words":[[262657,327681]]}])"));
}

TEST_CASE("coverage: entries of queues are counted by kind") {
    DriverCoverage coverage;
    coverage.send_wqe(1, 8);
    coverage.send_wqe(0xff, 0xff);  // an unknown operation counts as the last one
    coverage.recv_wqe();
    coverage.cqe(0x81, 5, 3);
    coverage.event(9, 1, 0x41);
    coverage.event(4, 0, 2);  // no port event, so port_events leaves out its data
    coverage.stopped(5);
    const std::string text = coverage.json();
    CHECK_THAT(text, ContainsSubstring(R"([0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0])"));
    CHECK_THAT(text, ContainsSubstring(R"("recv_wqes":1,)"));
    CHECK_THAT(text, ContainsSubstring(R"("cqe_flags":3,"events":[0,0,0,0,1,0,0,0,0,1,0,0,)"));
    CHECK_THAT(text, ContainsSubstring(R"("port_events":65,"causes":[0,0,0,0,0,1,)"));
}

TEST_CASE("coverage: broken rules have the manual's numbers") {
    DriverCoverage coverage;
    coverage.broken(Rule::kCqDeep);
    coverage.broken(Rule::kCqDeep);
    CHECK_THAT(coverage.json(), ContainsSubstring(R"("rules":{"6.13.2":2}})"));
}

TEST_CASE("coverage: a device that nothing has used has zeros") {
    CHECK_THAT(DriverCoverage().json(),
               ContainsSubstring(R"({"registers":[],"doorbells":[],"commands":[],)"));
}
