// SPDX-License-Identifier: GPL-2.0-or-later
// Notices byte by byte at the places that a subnet manager reads, and the times of the trap queue.
#include "ib/mgmt/traps.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace pib::ib;

namespace {

constexpr uint64_t kMs = 1'000'000;

TrapSender a_sender() {
    return {.producer = NodeType::kSwitch,
            .lid = Lid(3),
            .sm_lid = Lid(1),
            .active = true,
            .subnet_timeout = 18};  // 4.096 us * 2^18 = 1.07 s
}

Mad repress_of(const Mad& trap) {
    Mad mad = trap;
    mad.set(mad_header::kMethod, static_cast<unsigned>(Method::kTrapRepress));
    return mad;
}

}  // namespace

TEST_CASE("trap 128 has the switch's LID") {
    const Notice n = link_state_notice(Lid(0x1234));
    CHECK(n[0] == 0x81);  // generic, urgent
    CHECK(n[5] == 128);
    CHECK(n[10] == 0x12);
    CHECK(n[11] == 0x34);
}

TEST_CASE("traps 129 and 144 have their details") {
    const Notice integrity = threshold_notice(trap::kLocalLinkIntegrity, Lid(5), 7);
    CHECK(integrity[5] == 129);
    CHECK(integrity[13] == 5);
    CHECK(integrity[14] == 7);
    const Notice changes = local_changes_notice(
        Lid(5), {.capability_mask = 0x02510868, .changes = LocalChanges::kNodeDescription});
    CHECK(changes[0] == 0x84);
    CHECK(changes[5] == 144);
    CHECK(changes[13] == 5);
    CHECK(changes[15] == 1);
    CHECK(get(changes, notice_details::kCapabilityMask) == 0x02510868);
    CHECK(changes[21] == 1);
}

TEST_CASE("trap 256 has the return path of a directed route") {
    Mad mad;
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kSubnDirectedRoute));
    mad.set(mad_header::kMethod, 2);
    mad.set(mad_header::kAttributeId, attr::kPortInfo);
    mad.set(smp::kHopCount, 40);
    mad.set(smp::kDrSlid, 0xFFFF);
    return_path(mad)[1] = 9;
    const Notice n = bad_m_key_notice(mad, kPermissiveLid);
    CHECK(get(n, notice::kTrapNumber) == 256);
    CHECK(n[16] == 2);
    CHECK(n[33] == (0x80 | 0x40 | 30));
    CHECK(n[34 + 1] == 9);
}

TEST_CASE("traps 257, 258 and 259 have their details") {
    const KeyViolation violation{.key = 0x8001,
                                 .sl = Sl(3),
                                 .slid = Lid(4),
                                 .dlid = Lid(5),
                                 .src_qp = Qpn(0x10),
                                 .dest_qp = Qpn(0x11)};
    const Notice pkey = bad_p_key_notice(violation);
    CHECK(get(pkey, notice::kTrapNumber) == 257);
    CHECK(pkey[13] == 4);
    CHECK(pkey[15] == 5);
    CHECK(get(pkey, notice_details::kKey) == 0x8001);
    CHECK(pkey[20] == 0x30);
    CHECK(pkey[23] == 0x10);
    CHECK(pkey[27] == 0x11);
    CHECK(get(bad_q_key_notice(violation), notice::kTrapNumber) == 258);
    const Notice at_switch = bad_p_key_at_switch_notice(violation, Lid(9), 6);
    CHECK(get(at_switch, notice::kTrapNumber) == 259);
    CHECK(at_switch[11] == 0x3F);
    CHECK(at_switch[17] == 0x01);
    CHECK(at_switch[59] == 9);
    CHECK(at_switch[60] == 6);
}

TEST_CASE("a trap is a LID-routed SMP that repeats until it is repressed") {
    TrapQueue queue;
    CHECK_FALSE(queue.deadline_ns(Lid(1)).has_value());
    queue.add(link_state_notice(Lid(3)), 0);
    const auto trap = queue.next(a_sender(), 0);
    REQUIRE(trap.has_value());
    CHECK(trap->mgmt_class() == MgmtClass::kSubnLidRouted);
    CHECK(trap->method() == Method::kTrap);
    CHECK(trap->attribute_id() == attr::kNotice);
    CHECK(get(trap->smp_data(), notice::kProducerType) == 2);
    CHECK(get(trap->smp_data(), notice::kIssuerLid) == 3);
    CHECK_FALSE(queue.next(a_sender(), 500 * kMs).has_value());
    REQUIRE(queue.deadline_ns(Lid(1)).has_value());
    const auto again = queue.next(a_sender(), *queue.deadline_ns(Lid(1)));
    REQUIRE(again.has_value());
    CHECK(again->transaction_id() == trap->transaction_id());
    queue.repress(repress_of(*again));
    CHECK_FALSE(queue.deadline_ns(Lid(1)).has_value());
}

namespace {

// Times at which the queue sends until `end_ns`.
std::vector<uint64_t> times_sent(TrapQueue& queue, const TrapSender& sender, uint64_t begin_ns,
                                 uint64_t end_ns) {
    std::vector<uint64_t> times;
    for (uint64_t now = begin_ns; now <= end_ns; now += 10 * kMs) {
        if (queue.next(sender, now).has_value()) {
            times.push_back(now);
        }
    }
    return times;
}

constexpr uint64_t kSecond = 1000 * kMs;

}  // namespace

TEST_CASE("each pause between repetitions is twice the one before, up to a limit") {
    TrapQueue queue;
    queue.add(link_state_notice(Lid(3)), 0);
    const auto times = times_sent(queue, a_sender(), 0, 600 * kSecond);
    REQUIRE(times.size() >= 10);
    for (size_t i = 2; i < times.size(); ++i) {
        const uint64_t before = times[i - 1] - times[i - 2];
        const uint64_t pause = times[i] - times[i - 1];
        const uint64_t expected = std::min(2 * before, TrapQueue::kMaxPauseNs);
        CHECK(pause + 20 * kMs >= expected);
        CHECK(pause <= expected + 20 * kMs);
    }
    CHECK(times[1] >= 1070 * kMs);  // SubnetTimeOut
    CHECK(times.back() - times[times.size() - 2] >= TrapQueue::kMaxPauseNs);
}

TEST_CASE("the same event again restarts the pauses, but keeps to SubnetTimeOut") {
    TrapQueue queue;
    queue.add(link_state_notice(Lid(3)), 0);
    const auto before = times_sent(queue, a_sender(), 0, 40 * kSecond);
    const uint64_t last = before.back();
    queue.add(link_state_notice(Lid(3)), last + 10 * kMs);
    const auto after = times_sent(queue, a_sender(), last + 10 * kMs, last + 4 * kSecond);
    REQUIRE(after.size() == 2);
    CHECK(after[0] - last >= 1070 * kMs);
    CHECK(after[0] - last <= 1090 * kMs);
    CHECK(queue.pending.size() == 1);
}

TEST_CASE("another subnet manager gets the waiting traps at once") {
    TrapQueue queue;
    queue.add(link_state_notice(Lid(3)), 0);
    static_cast<void>(times_sent(queue, a_sender(), 0, 40 * kSecond));
    TrapSender sender = a_sender();
    sender.sm_lid = Lid(2);
    CHECK(queue.deadline_ns(Lid(1)) > 40 * kSecond + 10 * kMs);
    CHECK(queue.deadline_ns(Lid(2)) <= 40 * kSecond);
    const uint64_t old = queue.pending[0].transaction_id;
    const auto trap = queue.next(sender, 40 * kSecond + 10 * kMs);
    REQUIRE(trap);
    CHECK(trap->transaction_id() != old);
}

TEST_CASE("traps wait for an active port and for a subnet manager") {
    TrapQueue queue;
    queue.add(link_state_notice(Lid(3)), 0);
    TrapSender sender = a_sender();
    sender.active = false;
    CHECK_FALSE(queue.next(sender, kMs).has_value());
    sender = a_sender();
    sender.sm_lid = Lid(0);
    CHECK_FALSE(queue.next(sender, kMs).has_value());
    CHECK(queue.next(a_sender(), kMs).has_value());
}

TEST_CASE("equal traps are sent as one, others alternate, and memory is bounded") {
    TrapQueue queue;
    for (int i = 0; i < 1000; ++i) {
        queue.add(link_state_notice(Lid(3)), 0);
    }
    CHECK(queue.pending.size() == 1);
    for (uint8_t port = 0; port < 200; ++port) {
        queue.add(threshold_notice(trap::kLocalLinkIntegrity, Lid(3), port), 0);
    }
    CHECK(queue.pending.size() == 1 + TrapQueue::kMaxOfNumber);
    const auto first = queue.next(a_sender(), 0);
    CHECK_FALSE(queue.next(a_sender(), 0).has_value());
    const auto second = queue.next(a_sender(), 10 * kMs);
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    CHECK(first->transaction_id() != second->transaction_id());
}

TEST_CASE("a TrapRepress ends the trap that it names, and no older one") {
    TrapQueue queue;
    queue.add(link_state_notice(Lid(3)), 0);
    queue.add(threshold_notice(trap::kLocalLinkIntegrity, Lid(3), 1), 0);
    const auto older = queue.next(a_sender(), 0);
    const auto newer = queue.next(a_sender(), 10 * kMs);
    REQUIRE((older && newer));
    REQUIRE(older->transaction_id() < newer->transaction_id());
    queue.repress(repress_of(*newer));
    REQUIRE(queue.pending.size() == 1);
    CHECK(queue.pending[0].transaction_id == older->transaction_id());
}

TEST_CASE("a TrapRepress does not end a trap whose event came again after it was sent") {
    TrapQueue queue;
    queue.add(link_state_notice(Lid(3)), 0);
    const auto first = queue.next(a_sender(), 0);
    REQUIRE(first);
    queue.add(link_state_notice(Lid(3)), kMs);
    queue.add(link_state_notice(Lid(3)), 2 * kMs);
    queue.repress(repress_of(*first));
    REQUIRE(queue.pending.size() == 1);
    const auto second = queue.next(a_sender(), *queue.deadline_ns(Lid(1)));
    REQUIRE(second);
    CHECK(second->transaction_id() == first->transaction_id() + 1);
    queue.repress(repress_of(*second));
    CHECK(queue.pending.empty());
}

TEST_CASE("a flood of one trap number leaves room for the others") {
    TrapQueue queue;
    for (uint32_t qp = 0; qp < 1000; ++qp) {
        const KeyViolation violation{.key = 0x1234,
                                     .sl = Sl{},
                                     .slid = Lid(5),
                                     .dlid = Lid(6),
                                     .src_qp = Qpn(7),
                                     .dest_qp = Qpn(qp),
                                     .sgid = {},
                                     .dgid = {}};
        queue.add(bad_p_key_at_switch_notice(violation, Lid(3), 1), 0);
        queue.add(bad_q_key_notice(violation), 0);
    }
    CHECK(queue.pending.size() == 2 * TrapQueue::kMaxOfNumber);
    queue.add(link_state_notice(Lid(3)), 0);
    queue.add(threshold_notice(trap::kLocalLinkIntegrity, Lid(3), 1), 0);
    CHECK(queue.pending.size() == 2 * TrapQueue::kMaxOfNumber + 2);
    // The queue sends all traps, one after the other.
    std::vector<uint64_t> numbers;
    for (uint64_t ms = 0; ms < 100 && numbers.size() < queue.pending.size(); ms += 2) {
        if (const auto sent = queue.next(a_sender(), ms * kMs)) {
            numbers.push_back(get(sent->smp_data(), notice::kTrapNumber));
        }
    }
    CHECK(std::ranges::count(numbers, 128U) == 1);
    CHECK(std::ranges::count(numbers, 129U) == 1);
}
