// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of work requests: a WQE breaks each rule, and its completion and reason name the rule.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdio>
#include <set>
#include <string>

#include "base/rule_number.h"
#include "key_requests.h"
#include "memory/key_check.h"
#include "pair.h"
#include "rules/rule_table.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

using Wqe = std::vector<uint8_t>&;
using Spoil = void (*)(Wqe);

constexpr uint32_t kQkey = 0x1234;
constexpr uint32_t kNoKey = 0x1200;
constexpr unsigned kSegment = sizeof(pib_hca_wqe_control);
// The section of the manual that has the rules of work requests.
constexpr unsigned kSection = 12;

void put32(Wqe wqe, size_t offset, uint32_t value) {
    std::memcpy(wqe.data() + offset, &value, sizeof value);
}

// A connection, and datagram QPs beside it. The WQE that breaks the rule is in `qp` at `hca`.
struct Requests {
    Requests() {
        auto connection = pair.rc_pair({}, {.flags = PIB_HCA_QP_PRIVILEGED});
        qa = connection.a;
        qb = connection.b;
        from = pair.a.make_buffer(8192);
        to = pair.b.make_buffer(8192);
    }

    // Posts a send WQE in which `spoil` has changed some bytes.
    void post(Qp& by, const SendWr& wr, Spoil spoil = [](Wqe) {}) {
        qp = &by;
        std::vector<uint8_t> bytes = encode(by, wr);
        spoil(bytes);
        pair.a.write_raw_send(by, bytes);
        pair.a.ring(by);
        pair.settle();
    }
    void send(SendWr wr, Spoil spoil = [](Wqe) {}) { post(qa, wr, spoil); }
    SendWr of(uint8_t opcode, uint32_t length = 8) const {
        return {.opcode = opcode, .sges = {from.sge(0, length)}};
    }
    void flush(Spoil spoil) {
        const pib_hca_wqe_flush segment{.remote_addr = to.addr,
                                        .rkey = to.key,
                                        .length = 8,
                                        .placement = PIB_HCA_FLUSH_GLOBAL,
                                        .level = PIB_HCA_FLUSH_RANGE,
                                        .reserved = {}};
        send({.opcode = PIB_HCA_WQE_FLUSH, .segment = bytes_of(segment)}, spoil);
    }
    void datagram(void (*change)(SendWr&), Spoil spoil = [](Wqe) {}) {
        ud = pair.a.create({.type = PIB_HCA_QP_UD});
        start_datagram(pair.a, ud, kQkey);
        SendWr wr = of(PIB_HCA_WQE_SEND);
        wr.av = pair.a.av_to(pair.b);
        wr.av.port = 1;
        wr.dest_qpn = PIB_HCA_FIRST_QPN;
        change(wr);
        post(ud, wr, spoil);
    }
    // Posts a receive WQE with one word changed, and sends a message of 8 bytes to it.
    void receive(uint32_t room, size_t offset, uint32_t value) {
        pair.b.post_recv(qb, {to.sge(0, room)});
        if (value != 0) {
            pair.b.host.poke(qb.addr + qb.rq_offset + offset, value);
        }
        send(of(PIB_HCA_WQE_SEND));
        at_peer();
    }
    void at_peer() {
        hca = &pair.b;
        qp = &qb;
    }

    Pair pair;
    Qp qa, qb, ud;
    Buffer from, to;
    Hca* hca = &pair.a;
    Qp* qp = &qa;
};

struct Case {
    Rule rule;
    const char* text;  // text after "refused: "
    void (*provoke)(Requests&);
};

void forge_response(Requests& r) {
    r.pair.filter = [](const ib::PacketView&) { return false; };
    r.send(r.of(PIB_HCA_WQE_RDMA_READ));
    ib::PacketHeaders headers;
    headers.lrh.dlid = ib::Lid(1);
    headers.lrh.slid = ib::Lid(2);
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(r.qa.qpn);
    headers.bth.opcode = ib::opcode::kAtomicAcknowledge;
    r.pair.inject(r.pair.a, headers);
}

constexpr Case kCases[] = {
    // The control segment.
    {Rule::kWqeOpcode, "opcode 0xee at byte 0 is not an operation",
     [](Requests& r) { r.send({.opcode = 0xee}); }},
    {Rule::kWqeService, "opcode 0x2 at byte 0 is not an operation of the QP's type, which is 4",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.opcode = PIB_HCA_WQE_RDMA_WRITE; }); }},
    {Rule::kWqeReserved, "reserved 1 at byte 3 must be 0",
     [](Requests& r) { r.send({}, [](Wqe w) { w[3] = 1; }); }},
    {Rule::kWqeFlags, "flags 0x81 at byte 1 has bits outside of 0xf",
     [](Requests& r) { r.send({}, [](Wqe w) { w[1] |= 0x80; }); }},
    {Rule::kWqeSrqn, "srqn 0x1 at byte 12, at most 0",
     [](Requests& r) { r.send({}, [](Wqe w) { w[12] = 1; }); }},
    {Rule::kWqeNotInline, "inline_length 5 at byte 8 must be 0 without INLINE",
     [](Requests& r) { r.send({}, [](Wqe w) { w[8] = 5; }); }},
    {Rule::kWqeInlineOpcode, "opcode 0x4 at byte 0 is an operation without INLINE",
     [](Requests& r) {
         r.send({.opcode = PIB_HCA_WQE_RDMA_READ}, [](Wqe w) { w[1] |= PIB_HCA_WQE_INLINE; });
     }},
    {Rule::kWqeInlineSges, "num_sge 1 at byte 2 must be 0 with INLINE",
     [](Requests& r) {
         r.send(r.of(PIB_HCA_WQE_SEND), [](Wqe w) { w[1] |= PIB_HCA_WQE_INLINE; });
     }},
    {Rule::kWqeInlineLong, "inline_length 193 at byte 8, at most 192",
     [](Requests& r) { r.send({}, [](Wqe w) { w[1] |= PIB_HCA_WQE_INLINE, w[8] = 193; }); }},
    {Rule::kWqeSges, "num_sge 33 at byte 2, at most 15",
     [](Requests& r) { r.send({}, [](Wqe w) { w[2] = 33; }); }},
    {Rule::kWqeNoSges, "num_sge 1 at byte 2 must be 0, because the operation has no data",
     [](Requests& r) { r.send(local_inv(kNoKey), [](Wqe w) { w[2] = 1; }); }},
    // Lengths, and attributes or capabilities that the QP lacks.
    {Rule::kWqeLong, "length 2147483649 of the message, at most 2147483648",
     [](Requests& r) { r.send(r.of(PIB_HCA_WQE_SEND, 0x80000001)); }},
    {Rule::kWqeAboveMtu, "length 4097 of the datagram, at most 4096",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.sges[0].length = 4097; }); }},
    {Rule::kWqeEightBytes, "length 7 of the data must be 8",
     [](Requests& r) { r.send(r.of(PIB_HCA_WQE_FETCH_ADD, 7)); }},
    {Rule::kWqeRdAtomic,
     "opcode 0x4 at byte 0 is an operation that needs a MAX_QP_RD_ATOMIC above 0",
     [](Requests& r) {
         r.qa = r.pair.rc_pair({.max_rd_atomic = 0}).a;
         r.send(r.of(PIB_HCA_WQE_RDMA_READ));
     }},
    // Operations' segments.
    {Rule::kWqeRdmaReserved, "reserved 2 at byte 28 must be 0",
     [](Requests& r) { r.send(r.of(PIB_HCA_WQE_RDMA_WRITE), [](Wqe w) { w[28] = 2; }); }},
    {Rule::kWqeAtomicReserved, "reserved 2 at byte 28 must be 0",
     [](Requests& r) { r.send(r.of(PIB_HCA_WQE_FETCH_ADD), [](Wqe w) { w[28] = 2; }); }},
    {Rule::kWqeSwapMask, "swap_mask 0x3 at byte 48 must be 0, because the atomic has no masks",
     [](Requests& r) { r.send(r.of(PIB_HCA_WQE_FETCH_ADD), [](Wqe w) { w[48] = 3; }); }},
    {Rule::kWqeCompareMask,
     "compare_mask 0x3 at byte 56 must be 0, because the atomic has no masks",
     [](Requests& r) { r.send(r.of(PIB_HCA_WQE_CMP_SWAP), [](Wqe w) { w[56] = 3; }); }},
    {Rule::kWqeFlushReserved, "reserved at byte 34 must be 0",
     [](Requests& r) { r.flush([](Wqe w) { w[47] = 1; }); }},
    {Rule::kWqePlacement, "placement 0x4 at byte 32 must have a bit, and no bits outside of 0x3",
     [](Requests& r) { r.flush([](Wqe w) { w[32] = 4; }); }},
    {Rule::kWqeLevel, "level 2 at byte 33, at most 1",
     [](Requests& r) { r.flush([](Wqe w) { w[33] = 2; }); }},
    {Rule::kWqeFlushLength, "length 8 at byte 28 must be 0 with the level REGION",
     [](Requests& r) { r.flush([](Wqe w) { w[33] = PIB_HCA_FLUSH_REGION; }); }},
    // Datagrams.
    {Rule::kWqeUdReserved, "reserved at byte 58 must be 0",
     [](Requests& r) { r.datagram([](SendWr&) {}, [](Wqe w) { w[63] = 1; }); }},
    {Rule::kVectorReserved, "av.reserved at byte 30 must be 0",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.av.reserved[1] = 1; }); }},
    {Rule::kVectorFlags, "av.flags 0x2 at byte 22 has bits outside of 0x1",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.av.flags = 2; }); }},
    {Rule::kVectorSl, "av.sl 16 at byte 18, at most 15",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.av.sl = 16; }); }},
    {Rule::kWqeAvPort, "av.port 2 at byte 19 must be the QP's port, 1",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.av.port = 2; }); }},
    {Rule::kWqeDestQpn, "dest_qpn 0x1000000 at byte 48, at most 0xffffff",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.dest_qpn = 1u << 24; }); }},
    {Rule::kWqeGroup,
     "dest_qpn 0xffffff at byte 48 needs a GRH, and a multicast LID instead of 0x2",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.dest_qpn = 0xffffff; }); }},
    {Rule::kWqePkeyIndex, "pkey_index 1 at byte 56, at most 0",
     [](Requests& r) { r.datagram([](SendWr& wr) { wr.pkey_index = 1; }); }},
    // Operations on keys.
    {Rule::kWqeKeyReserved, "reserved at byte 20 must be 0",
     [](Requests& r) { r.send(local_inv(kNoKey), [](Wqe w) { w[31] = 1; }); }},
    {Rule::kWqeBindReserved, "reserved 1 at byte 28 must be 0",
     [](Requests& r) { r.send(bind_mw({}), [](Wqe w) { w[28] = 1; }); }},
    {Rule::kWqeRegReserved, "reserved 1 at byte 60 must be 0",
     [](Requests& r) { r.send(reg_mr({}), [](Wqe w) { w[60] = 1; }); }},
    {Rule::kPagesReserved, "pages.reserved 1 at byte 54 must be 0",
     [](Requests& r) { r.send(reg_mr({}), [](Wqe w) { w[54] = 1; }); }},
    {Rule::kWqeInvalidate, "key 0x1200 at byte 16 must be a key that the QP may invalidate",
     [](Requests& r) { r.send(local_inv(kNoKey)); }},
    {Rule::kWqeBind,
     "rkey 0x1200 at byte 16 must be a new key of a window that may be bound so to the region with "
     "lkey 0x3400",
     [](Requests& r) {
         r.send(bind_mw({}), [](Wqe w) { put32(w, kSegment, kNoKey), put32(w, 20, 0x3400); });
     }},
    {Rule::kWqeRegister,
     "key 0x1200 at byte 16 must be a new key of a Free region that takes these pages and rights",
     [](Requests& r) { r.send(reg_mr({}), [](Wqe w) { put32(w, kSegment, kNoKey); }); }},
    // SGEs.
    {Rule::kSgeKey,
     "sge.lkey 0x1 at byte 44 must give the QP this access to all bytes of the SGE, from 0x1000",
     [](Requests& r) {
         SendWr wr = r.of(PIB_HCA_WQE_SEND);
         wr.sges.push_back({.addr = 0x1000, .length = 8, .lkey = 1});
         r.send(wr);
     }},
    {Rule::kSgeMemory, "the memory behind an SGE is not RAM",
     [](Requests& r) {
         SendWr wr;
         wr.sges = {{.addr = 8, .length = 8, .lkey = kPrivilegedLkey}};
         r.send(wr);
     }},
    // Receives, and the peer.
    {Rule::kRecvReserved, "reserved at byte 8 must be 0",
     [](Requests& r) { r.receive(8, offsetof(pib_hca_recv_wqe, reserved), 1); }},
    {Rule::kRecvId, "id 7 at byte 4 must be 0, because the queue is the QP's own",
     [](Requests& r) { r.receive(8, offsetof(pib_hca_recv_wqe, id), 7); }},
    {Rule::kRecvSges, "num_sge 33 at byte 0, at most 15",
     [](Requests& r) { r.receive(8, offsetof(pib_hca_recv_wqe, num_sge), 33); }},
    {Rule::kRecvShort, "length 4 of the receive buffer, for a message of 8",
     [](Requests& r) { r.receive(4, 0, 0); }},
    {Rule::kSgeKey,
     "sge.lkey 0x1 at byte 28 must give the QP this access to all bytes of the SGE, from 0x1000",
     [](Requests& r) {
         r.pair.b.post_recv(r.qb, {{.addr = 0x1000, .length = 8, .lkey = 1}});
         r.send(r.of(PIB_HCA_WQE_SEND));
         r.at_peer();
     }},
    {Rule::kRecvInvalidate,
     "imm_data 0x1200 of a SEND with invalidate must be an R_Key that the peer may invalidate",
     [](Requests& r) {
         r.pair.b.post_recv(r.qb, {});
         r.send(send_with_inv(kNoKey));
         r.at_peer();
     }},
    {Rule::kPeerResponse, "the peer's response does not match the request", forge_response},
};

}  // namespace

TEST_CASE("a work request that breaks a rule has the rule, and its field, as the reason") {
    for (const Case& one : kCases) {
        CAPTURE(one.text);
        Requests r;
        one.provoke(r);
        const Refusal* refusal = r.hca->refusals.newest(0);
        REQUIRE(refusal != nullptr);
        CHECK(r.hca->refusals.count() == 1);
        CHECK(refusal->verdict.rule == one.rule);
        char qpn[16];
        std::snprintf(qpn, sizeof qpn, "%#x", r.qp->qpn);
        const std::string who =
            (r.hca == &r.pair.a ? "send WQE 0 of QP " : "receive WQE 0 of QP ") + std::string(qpn);
        const std::string reason = one.text + citation(one.rule);
        CHECK(text_of(*refusal) == who + " refused: " + reason);
        CHECK(r.hca->host.last_guest_error == "pib-hca: " + text_of(*refusal));
        CHECK(r.hca->journal.json(0).find("\"reason\":\"" + reason + "\"") != std::string::npos);
        const auto cqe = r.hca->poll(*r.qp);
        REQUIRE(cqe);
        CHECK(cqe->status == static_cast<uint8_t>(refusal->completion));
        CHECK(cqe->vendor_error == static_cast<uint8_t>(vendor_error_of(one.rule)));
        CHECK(cqe->vendor_error != 0);
    }
}

TEST_CASE("each rule of work requests is broken by a case") {
    std::set<Rule> broken, rules;
    for (const Case& one : kCases) {
        if (section_of(one.rule) == kSection) {
            broken.insert(one.rule);
        }
    }
    for (const RuleText& rule : rule_texts()) {
        if (section_of(rule.rule) == kSection) {
            rules.insert(rule.rule);
        }
    }
    CHECK(broken == rules);
}

TEST_CASE("a flushed WQE breaks no rule") {
    Requests r;
    r.pair.a.write_send(r.qa, {.opcode = 0xee});
    r.pair.a.write_send(r.qa, {});
    r.pair.a.ring(r.qa);
    r.pair.settle();
    const auto cqes = r.pair.a.poll_all(r.qa);
    REQUIRE(cqes.size() == 2);
    CHECK(cqes[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(cqes[1].vendor_error == 0);
    CHECK(r.pair.a.refusals.count() == 1);
}
