// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of keys in packets: a request of the peer breaks each of them, and the responder's device
// names the rule with key, address and length.
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <set>
#include <string>

#include "base/rule_number.h"
#include "key_requests.h"
#include "pair.h"
#include "rules/rule_table.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr unsigned kSection = 13;

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(value));
    return text;
}

// The peer `a` sends requests to `qb` at `b`, whose device refuses the last one.
struct Peers {
    Peers() {
        auto connection = pair.rc_pair({}, {.flags = PIB_HCA_QP_PRIVILEGED});
        qa = connection.a;
        qb = connection.b;
        from = pair.a.make_buffer(8192);
        to = pair.b.make_buffer(8192, Hca::kAllAccess | PIB_HCA_ACCESS_MW_BIND);
    }

    void send(uint8_t opcode, uint32_t rkey, uint64_t addr, uint32_t length) {
        pair.a.post(
            qa,
            {.opcode = opcode, .sges = {from.sge(0, length)}, .remote_addr = addr, .rkey = rkey});
        pair.settle();
        range = std::to_string(length) + " bytes at " + hex(addr) + " with rkey " + hex(rkey);
    }
    void write(uint32_t rkey, uint64_t addr, uint32_t length = 8) {
        send(PIB_HCA_WQE_RDMA_WRITE, rkey, addr, length);
    }
    uint32_t window(uint8_t type) {
        const auto key = pair.b.mpt.alloc_window({.pd = 1, .type = type, .key = 0x10});
        REQUIRE(key);
        return *key;
    }
    // A window of bytes 4096 to 8191 that a QP of the device has bound.
    uint32_t bound(uint8_t type, uint32_t qpn) {
        const WindowBinding in{.rkey = next_key(window(type)),
                               .lkey = to.key,
                               .access = PIB_HCA_ACCESS_REMOTE_WRITE,
                               .addr = to.addr + 4096,
                               .length = 4096};
        REQUIRE(pair.b.mpt.bind({.pd = 1, .privileged = false, .qpn = qpn}, in));
        return in.rkey;
    }

    Pair pair;
    Qp qa, qb;
    Buffer from, to;
    std::string range;  // the request's range in words
};

struct Case {
    Rule rule;
    const char* operation;
    std::string (*provoke)(Peers&);  // returns the reason
};

const Case kCases[] = {
    {Rule::kKeyUnknown, "RDMA WRITE",
     [](Peers& p) -> std::string {
         p.write(p.to.key ^ 0x100, p.to.addr);
         return "the key is unknown";
     }},
    {Rule::kKeyUnknown, "RDMA READ",
     [](Peers& p) -> std::string {
         p.send(PIB_HCA_WQE_RDMA_READ, kPrivilegedLkey, p.to.addr, 64);
         return "the key is unknown";
     }},
    {Rule::kKeyFree, "RDMA WRITE",
     [](Peers& p) -> std::string {
         p.write(p.window(PIB_HCA_MW_TYPE_2), p.to.addr);
         return "the key is of a Free region, or of a window that is not bound";
     }},
    {Rule::kKeyByte, "RDMA WRITE",
     [](Peers& p) {
         p.write(next_key(p.to.key), p.to.addr, 4096);
         return "the key byte is out of date; the key is now " + hex(p.to.key);
     }},
    {Rule::kKeyPd, "atomic",
     [](Peers& p) -> std::string {
         const Buffer other = p.pair.b.make_buffer(4096, Hca::kAllAccess, 0x20);
         p.send(PIB_HCA_WQE_FETCH_ADD, other.key, other.addr, 8);
         return "the key is of another PD than the QP or, for XRC, the SRQ: of PD 0x20";
     }},
    {Rule::kKeyQp, "RDMA WRITE",
     [](Peers& p) -> std::string {
         p.write(p.bound(PIB_HCA_MW_TYPE_2, 0x99), p.to.addr + 4096);
         return "the key is of a window that belongs to another QP: 0x99";
     }},
    {Rule::kKeyRights, "RDMA READ",
     [](Peers& p) -> std::string {
         const Buffer other =
             p.pair.b.make_buffer(4096, PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE);
         p.send(PIB_HCA_WQE_RDMA_READ, other.key, other.addr, 64);
         return "access 0x4 that the operation needs is not among the rights of the key: 0x3";
     }},
    {Rule::kKeyBefore, "RDMA WRITE",
     [](Peers& p) {
         p.write(p.to.key, p.to.addr - 8);
         return "va " + hex(p.to.addr - 8) +
                " is before the first address of the key: " + hex(p.to.addr);
     }},
    {Rule::kKeyBeyond, "RDMA WRITE",
     [](Peers& p) -> std::string {
         p.write(p.to.key, p.to.addr + 8000, 4096);
         return "length 4096 is more than the bytes of the key from there on: 192";
     }},
    {Rule::kKeyBeyond, "RDMA WRITE",
     [](Peers& p) -> std::string {  // beyond a window, inside of its region
         p.write(p.bound(PIB_HCA_MW_TYPE_1, 0), UINT64_MAX - 63, 64);
         return "length 64 is more than the bytes of the key from there on: 0";
     }},
    {Rule::kKeyMemory, "ATOMIC WRITE",
     [](Peers& p) -> std::string {
         p.pair.b.host.make_hole(p.to.addr, 4096);
         p.send(PIB_HCA_WQE_ATOMIC_WRITE, p.to.key, p.to.addr, 8);
         return "memory behind the key is not RAM, or its page is absent for good";
     }},
};

}  // namespace

TEST_CASE("a refused request of the peer has the rule, with key, address and length, as reason") {
    for (const Case& one : kCases) {
        CAPTURE(dotted_number(one.rule));
        Peers p;
        const std::string reason = one.provoke(p);
        CAPTURE(reason);
        Hca& b = p.pair.b;
        CHECK(p.pair.a.poll(p.qa)->status == PIB_HCA_WC_REM_ACCESS_ERR);
        REQUIRE(b.refusals.count() == 1);
        CHECK(b.refusals.silent() == 0);
        const Refusal& refusal = *b.refusals.newest(0);
        CHECK(refusal.verdict.rule == one.rule);
        const std::string what = one.operation + (" of " + p.range);
        const std::string because = reason + citation(one.rule);
        CHECK(text_of(refusal) == what + " to QP " + hex(p.qb.qpn) + " refused: " + because);
        CHECK(b.host.last_guest_error == "pib-hca: " + text_of(refusal));
        b.journal.raised(1, {.type = Event::kQpAccessError, .number = p.qb.qpn});
        CHECK(b.journal.json(2).find("\"reason\":\"" + what + ": " + because + "\"") !=
              std::string::npos);
    }
}

TEST_CASE("each rule of keys in packets is broken by a case") {
    std::set<Rule> broken, rules;
    for (const Case& one : kCases) {
        broken.insert(one.rule);
    }
    for (const RuleText& rule : rule_texts()) {
        if (section_of(rule.rule) == kSection) {
            rules.insert(rule.rule);
        }
    }
    CHECK(broken == rules);
}

TEST_CASE("a packet in the middle of a WRITE is named with its own range") {
    Peers p;
    p.pair.b.host.make_hole(p.to.addr + 4096, 4096);
    p.write(p.to.key, p.to.addr, 8192);
    REQUIRE(p.pair.b.refusals.count() == 1);
    CHECK(text_of(*p.pair.b.refusals.newest(0)) ==
          "RDMA WRITE of 1024 bytes at " + hex(p.to.addr + 4096) + " with rkey " + hex(p.to.key) +
              " to QP " + hex(p.qb.qpn) +
              " refused: memory behind the key is not RAM, or its page is absent for good (manual "
              "13.1 rule 9)");
}

TEST_CASE("a READ whose region is destroyed before its response was sent is named") {
    Peers p;
    p.pair.b.port.capacity = 2;
    unsigned seen = 0;
    p.pair.tap = [&](const ib::PacketView&) {
        if (++seen == 4) {
            (void)p.pair.b.mpt.destroy(p.to.key);
        }
    };
    p.send(PIB_HCA_WQE_RDMA_READ, p.to.key, p.to.addr, 8192);
    REQUIRE(p.pair.b.refusals.count() == 1);
    CHECK(text_of(*p.pair.b.refusals.newest(0)).find("the key is unknown") != std::string::npos);
}
