// SPDX-License-Identifier: GPL-2.0-or-later
// A strict device: its reaction to misuse, and that it reports no legal use.
#include "strict/strict.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstddef>
#include <string>

#include "base/rule_number.h"
#include "refusal_room.h"
#include "strict_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr size_t kConsumer = offsetof(pib_hca_cq_header, consumer);

void misuse(RefusalRoom& room) {
    room.cq.memory.poke(kConsumer, 5u);
    room.d.arm(room.cq);
}

// Writes a list of WQEs that reaches the entry of the completed WQE 0. A doorbell makes the
// device check the queue meanwhile.
void reach_around(LegalRoom& room, MiniQp& qp, const SendWr& datagram, MiniCq& cq) {
    room.d.connect_ud(qp, 1, 0);
    room.d.post_send(qp, datagram);
    CHECK(room.d.wait(cq).status == PIB_HCA_WC_SUCCESS);
    qp.memory.poke(qp.sq_offset, uint8_t{PIB_HCA_WQE_SEND_WITH_IMM});
    room.d.ring_send(qp);
}

}  // namespace

TEST_CASE("a device that is not strict does not check its driver") {
    RefusalRoom room(refusal_config());
    misuse(room);
    CHECK(last_rule(*room.device).empty());
    CHECK(room.host.warnings.empty());
    CHECK(room.device->objects().find("accesses") == std::string::npos);
}

TEST_CASE("a strict device warns of misuse, with the last accesses") {
    RefusalRoom room(strict_config());
    CHECK(room.d.read32(PIB_HCA_REG_STATUS) == PIB_HCA_STATUS_ENABLED);
    misuse(room);
    REQUIRE(room.host.warnings.size() == 2);
    CHECK(
        room.host.warnings[0] ==
        "pib-hca: CQ 0x1 misused: consumer 5 is ahead of the CQEs written: 0 (manual 10.1 rule 1)");
    CHECK(room.host.warnings[1].ends_with("BAR0+0x8 is 0x1, BAR2+0x8 = 0x1 (8 bytes)"));
    CHECK(room.device->objects().find("BAR2+0x8 = 0x1 (8 bytes)\"") != std::string::npos);
    CHECK_FALSE(room.device->engine().health().is_fatal());
}

TEST_CASE("each rule is named once for an object, until the device is reset") {
    RefusalRoom room(strict_config());
    misuse(room);
    misuse(room);
    CHECK(room.host.warnings.size() == 2);
    room.device->reset(false);
    CHECK(room.d.read32(PIB_HCA_REG_STATUS) == 0);
    REQUIRE(room.d.enable());
    room.eq = room.d.create_eq(1);
    room.cq = room.d.create_cq(room.eq.eqn);
    misuse(room);
    CHECK(room.host.warnings.size() == 4);
}

TEST_CASE("a rule that has been named for an object is not named again after many others") {
    RefusalRoom room(strict_config());
    Strict strict(room.host, false);
    strict.report_to(room.device->engine().objects().refusals);
    constexpr uint32_t kMany = 5000;
    for (uint32_t qpn = 1; qpn <= kMany; ++qpn) {
        strict.broken(Rule::kObjectsLeft, {Thing::kQp, qpn});
    }
    room.host.clock_ns += 1'000'000'000;
    room.host.warnings.clear();
    strict.broken(Rule::kObjectsLeft, {Thing::kQp, 1});
    CHECK(room.host.warnings.empty());
    strict.broken(Rule::kObjectsLeft, {Thing::kQp, kMany + 1});
    REQUIRE_FALSE(room.host.warnings.empty());
    CHECK(room.host.warnings[0].ends_with(" lines were left out"));
}

TEST_CASE("strict=fatal stops the device after it has named the misuse, and a reset starts it") {
    RefusalRoom room(strict_config(Strictness::kFatal));
    misuse(room);
    CHECK(room.d.read32(PIB_HCA_REG_FATAL_CAUSE) == PIB_HCA_FATAL_RULE);
    CHECK(room.d.command(PIB_HCA_CMD_NOP).status == PIB_HCA_CMD_STATUS_FATAL);
    room.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    CHECK(room.d.read32(PIB_HCA_REG_STATUS) == 0);
    REQUIRE(room.d.enable());
    CHECK(room.d.command(PIB_HCA_CMD_NOP).ok());
}

TEST_CASE("strict=fatal stops the device for accesses that it ignores, also for loads") {
    SECTION("a load of no register") {
        RefusalRoom room(strict_config(Strictness::kFatal));
        (void)room.d.read32(0xff00);
        CHECK(room.d.read32(PIB_HCA_REG_FATAL_CAUSE) == PIB_HCA_FATAL_RULE);
        CHECK(room.async_eq.memory.peek<pib_hca_eqe>(4 * sizeof(pib_hca_eqe)).type ==
              PIB_HCA_EVENT_DEVICE_FATAL);
    }
    SECTION("a doorbell of a QP that was destroyed") {
        RefusalRoom room(strict_config(Strictness::kFatal));
        const MiniQp qp = room.d.create_qp(room.shape());
        room.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
        room.d.ring_send(qp);
        CHECK(room.d.read32(PIB_HCA_REG_FATAL_CAUSE) == PIB_HCA_FATAL_RULE);
        CHECK(last_rule(*room.device).starts_with("8.2.2 "));
    }
}

TEST_CASE("a device that is not enabled has nothing to stop") {
    RefusalRoom room(strict_config(Strictness::kFatal));
    room.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    CHECK(room.d.read32(PIB_HCA_REG_STATUS) == 0);
    room.d.ring(5, PIB_HCA_UAR_SEND, 0x40);  // a process that has not learnt of the reset
    CHECK(last_rule(*room.device).starts_with("8.2.1 "));
    REQUIRE(room.d.enable());
    CHECK(room.d.command(PIB_HCA_CMD_NOP).ok());
}

TEST_CASE("memory stays a CQ's when the CQ has moved to it, or a resize to it was refused") {
    const bool refused = GENERATE(false, true);
    RefusalRoom room(strict_config(Strictness::kOn));
    pib_hca_resize_cq in{};
    in.pages = room.cq.memory.list();
    in.log_depth = static_cast<uint8_t>(refused ? 0 : room.cq.log_depth);
    if (refused) {
        room.cq.memory.poke(0, uint32_t{0} - 20);  // as if 20 CQEs had come
    }
    room.object = room.cq.cqn;
    CHECK(room.send(in).ok() == !refused);
    room.object = 0;
    auto other = room.cq_in();
    other.pages = in.pages;
    other.log_depth = static_cast<uint8_t>(room.cq.log_depth);
    CHECK(room.send(other).ok());
    CHECK(std::ranges::any_of(room.host.warnings, [](const auto& line) {
        return line.find("CQ 0x2 misused") != std::string::npos &&
               line.find("of its memory belongs to CQ 0x1") != std::string::npos;
    }));
}

TEST_CASE("a refused command is not misuse: its status tells the driver") {
    RefusalRoom room(strict_config(Strictness::kFatal));
    CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 1000).ok());
    CHECK(room.host.warnings.empty());
    CHECK_FALSE(room.device->engine().health().is_fatal());
}

TEST_CASE("a doorbell may announce several WQEs, and a WQE may have several doorbells or none") {
    LegalRoom room;
    MiniQp& qp = room.working_qp();
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND}, true);
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    room.d.ring_send(qp);
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND}, true);
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 3; ++i) {
        CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_WR_FLUSH_ERR);
    }
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});  // flushed in Error
    CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("a queue pair may be reset and used again from producers at zero") {
    LegalRoom room;
    MiniQp& qp = room.working_qp();
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    for (int i = 0; i < 3; ++i) {
        room.to_state(PIB_HCA_QPS_RESET);
        qp.sq_producer = qp.rq_producer = 0;
        qp.memory.poke(offsetof(pib_hca_qp_header, sq_producer), uint64_t{0});
        RcPath path;
        path.av.dlid = 2;
        path.path_mtu = 1;
        path.dest_qpn = qp.qpn;
        room.d.connect_rc(qp, path);
        room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    }
}

TEST_CASE("a doorbell of a queue pair without WQEs before RTS is legal") {
    LegalRoom room;
    room.pass(room.rtr_in());
    room.d.ring_send(room.qp);
}

TEST_CASE("a kick that the host reports late may find no page, or the device reset") {
    LegalRoom room;
    room.pass(room.shadow_in());
    room.device->kick(0);
    room.pass(pib_hca_set_shadow_page{});
    room.device->kick(0);
    CHECK(room.counter(PIB_HCA_COUNTER_FOREIGN_DOORBELL) == 0);
    room.pass(room.shadow_in());
    room.bring_up();
    room.device->kick(0);
    room.device->kick(PIB_HCA_MAX_UARS - 1);
}

TEST_CASE("software may reuse the entries of a WQE and a CQE after the completion") {
    LegalRoom room;
    room.take_events();
    MiniQp& qp = room.working_qp();
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 200; ++i) {  // several passes of both rings
        room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND, .imm = static_cast<uint32_t>(i)});
        (void)room.d.wait(room.cq);
    }
}

TEST_CASE("a driver may arm again, arm with an older counter, and move the CQ to another buffer") {
    LegalRoom room;
    MiniQp& qp = room.working_qp();
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 5; ++i) {
        room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
        (void)room.d.wait(room.cq);
    }
    const uint32_t taken = room.cq.consumer;
    room.d.arm(room.cq);
    room.d.arm(room.cq, true);
    room.cq.consumer = 2;
    room.d.arm(room.cq);
    room.cq.consumer = taken;

    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    GuestMemory larger(room.host, 64 + (sizeof(pib_hca_cqe) << 8));
    pib_hca_resize_cq in{};
    in.pages = larger.list();
    in.log_depth = 8;
    room.object = room.cq.cqn;
    room.pass(in);
    room.cq.memory = larger;
    room.cq.log_depth = 8;
    room.cq.consumer = 0;
    CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_WR_FLUSH_ERR);
    room.d.arm(room.cq);
}

TEST_CASE("memory of a destroyed queue, or of one that has moved, may be another's") {
    LegalRoom room;
    GuestMemory memory = room.cq.memory;
    const GuestMemory other(room.host, memory.bytes());
    pib_hca_resize_cq in{};
    in.pages = other.list();
    in.log_depth = static_cast<uint8_t>(room.cq.log_depth);
    room.object = room.cq.cqn;
    room.pass(in);
    auto create = room.cq_in();
    create.log_depth = in.log_depth;
    create.pages = memory.list();
    room.object = 0;
    const uint32_t cqn = room.pass(create);
    room.d.destroy(PIB_HCA_CMD_DESTROY_CQ, cqn);
    room.object = 0;
    room.pass(create);
    room.bring_up();  // a reset gives all memory back
    create.eqn = room.eq.eqn;
    room.object = 0;
    room.pass(create);
}

TEST_CASE("a driver may reset the device with all its objects, and another driver may start it") {
    LegalRoom room;
    room.working_qp();
    room.d.post_send(room.qp, {.opcode = PIB_HCA_WQE_SEND});
    room.d.arm(room.async_eq);
    room.bring_up();
    room.device->dma_ended();
    room.device->reset(false);
    room.device->bus_master_off();
    room.bring_up();
}

TEST_CASE("a function may leave D0 with its objects when no queue pair works") {
    LegalRoom room;
    room.working_qp();
    room.to_state(PIB_HCA_QPS_ERR);
    room.device->dma_ended();
}

TEST_CASE("bus mastering may be switched off when all objects are destroyed, without a reset") {
    LegalRoom room;
    room.d.destroy(PIB_HCA_CMD_DESTROY_CQ, room.cq.cqn);
    room.d.destroy(PIB_HCA_CMD_DESTROY_EQ, room.eq.eqn);
    room.d.destroy(PIB_HCA_CMD_DESTROY_EQ, room.async_eq.eqn);
    room.d.destroy(PIB_HCA_CMD_FREE_PD, room.pd);
    room.device->bus_master_off();
}

TEST_CASE("CQEs that move up when a queue pair is reset keep their owner bytes") {
    LegalRoom room;
    MiniQp& qp = room.working_qp();
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 3; ++i) {
        room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    }
    room.d.pump();
    constexpr size_t kBody = offsetof(pib_hca_cqe, owner);
    for (size_t i = 0; i < 3 * sizeof(pib_hca_cqe); ++i) {
        if (i % sizeof(pib_hca_cqe) < kBody) {
            room.cq.memory.poke(PIB_HCA_QUEUE_HEADER_SIZE + i, uint8_t{0x55});
        }
    }
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    room.d.pump();
}

TEST_CASE("an interrupt that is served has no deadline") {
    LegalRoom room;
    for (int i = 0; i < 5; ++i) {
        room.d.arm(room.async_eq);  // events of commands wait, so arming raises an interrupt
        let_steps_pass(room, Strict::kSteps - 1);
        while (room.d.poll(room.async_eq)) {
        }
        CHECK(room.d.command(PIB_HCA_CMD_NOP).ok());
    }
    while (room.d.poll(room.async_eq)) {
    }
    let_steps_pass(room, 10 * Strict::kSteps);  // no EQE waits
}

TEST_CASE("a driver that forgets an EQ is named a minute after its first EQE, whatever follows") {
    const bool armed_once = GENERATE(false, true);
    RefusalRoom room(strict_config());
    unsigned steps = Strict::kSteps + 1;
    if (armed_once) {
        room.d.arm(room.async_eq);
        while (room.d.poll(room.async_eq)) {
        }
        steps = Strict::kSteps;
    }
    for (unsigned step = 0; step < steps; ++step) {
        CHECK(last_rule(*room.device).empty());
        CHECK(room.d.command(PIB_HCA_CMD_NOP).ok());  // its event is one more EQE
        let_steps_pass(room, 1);
    }
    const Rule rule = armed_once ? Rule::kEqUnarmed : Rule::kEqNeverArmed;
    CHECK(last_rule(*room.device).starts_with(dotted_number(rule) + " "));
}

TEST_CASE("a strict device sets no timer after a reset until it is enabled") {
    RefusalRoom room(strict_config());
    room.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    room.host.timer_deadline_ns = kNever;
    room.host.clock_ns += 2 * Strict::kStepNs;
    room.device->timer();
    CHECK(room.host.timer_deadline_ns == kNever);
}

TEST_CASE("the driver of a device that has stopped may leave its events") {
    RefusalRoom room(strict_config());
    room.d.arm(room.async_eq);  // the events of commands wait, so it interrupts
    while (room.d.poll(room.async_eq)) {
    }
    room.d.arm(room.async_eq);
    room.pass(room.inject_in(PIB_HCA_EVENT_DEVICE_FATAL, 0));
    REQUIRE(room.device->engine().health().is_fatal());
    while (room.d.poll(room.async_eq)) {  // the device ignores the doorbell
    }
    room.host.timer_deadline_ns = kNever;
    let_steps_pass(room, 2 * Strict::kSteps);
    CHECK(room.host.timer_deadline_ns == kNever);
    CHECK(room.host.warnings.empty());
    CHECK(last_rule(*room.device).empty());
}

TEST_CASE("a driver may poll an EQ that it has never armed whenever it likes") {
    LegalRoom room;
    SECTION("without an interrupt handler") {
        room.host.vectors = GENERATE(VectorState::kMasked, VectorState::kDisabled);
    }
    SECTION("with one, which others may use, if it takes EQEs in the first minute") {
        let_steps_pass(room, Strict::kSteps);
        CHECK(room.d.poll(room.async_eq));
    }
    CHECK(room.d.command(PIB_HCA_CMD_NOP).ok());
    let_steps_pass(room, 10 * Strict::kSteps);
}

TEST_CASE("a driver may arm its EQ a minute after it has installed the handler of interrupts") {
    LegalRoom room;
    for (int i = 0; i < 2; ++i) {
        room.host.vectors = VectorState::kMasked;
        let_steps_pass(room, 2 * Strict::kSteps);
        room.host.vectors = VectorState::kOpen;
        let_steps_pass(room, Strict::kSteps);
    }
    room.d.arm(room.async_eq);
    room.take_events();
}

TEST_CASE(
    "a driver may arm an EQ a thousand times with an EQE, and without one as often as it likes") {
    LegalRoom room;
    const auto arm_often = [&](uint32_t times) {
        for (uint32_t i = 0; i < times; ++i) {
            room.d.arm(room.async_eq);
        }
    };
    for (int round = 0; round < 2; ++round) {
        CHECK(room.d.command(PIB_HCA_CMD_NOP).ok());
        arm_often(Strict::kMostArmings);
        while (room.d.poll(room.async_eq)) {
        }
        arm_often(3 * Strict::kMostArmings);
    }
}

TEST_CASE("software may clear the entry of a WQE after the completion") {
    LegalRoom room;
    MiniQp qp = room.d.create_qp(room.shape(PIB_HCA_QP_UD));
    room.d.connect_ud(qp, 1, 0);
    SendWr datagram;
    datagram.av.dlid = 2;
    datagram.av.port = 1;
    datagram.dest_qpn = qp.qpn;
    for (uint32_t i = 0; i < 3; ++i) {
        room.d.post_send(qp, datagram);
        CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_SUCCESS);
        for (uint32_t byte = 0; byte < 1u << qp.shape.log_sq_stride; ++byte) {
            qp.memory.poke(qp.sq_offset + (i << qp.shape.log_sq_stride) + byte, uint8_t{0x6b});
        }
    }
}

TEST_CASE("the device may read the producer while software writes a list around the ring") {
    LegalRoom room;
    MiniQp qp = room.d.create_qp(room.shape(PIB_HCA_QP_UD));
    SendWr datagram;
    datagram.av.dlid = 2;
    datagram.av.port = 1;
    datagram.dest_qpn = qp.qpn;
    reach_around(room, qp, datagram, room.cq);
    for (uint32_t i = 0; i < 1u << qp.shape.log_sq_depth; ++i) {
        room.d.post_send(qp, datagram, true);
    }
    room.d.ring_send(qp);
    for (uint32_t i = 0; i < 1u << qp.shape.log_sq_depth; ++i) {
        CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_SUCCESS);
    }
}

TEST_CASE("a process may give up WQEs that it has written around the ring") {
    LegalRoom room;
    const uint32_t uar = room.d.alloc_uar();
    MiniCq cq = room.d.create_cq(room.eq.eqn, 6, uar);
    QpShape shape = room.shape(PIB_HCA_QP_UD);
    shape.uar = uar;
    shape.send_cq = shape.recv_cq = cq.cqn;
    MiniQp qp = room.d.create_qp(shape);
    SendWr datagram;
    datagram.av.dlid = 2;
    datagram.av.port = 1;
    datagram.dest_qpn = qp.qpn;
    reach_around(room, qp, datagram, cq);
    for (int i = 0; i < 3; ++i) {
        room.d.post_send(qp, datagram);
        CHECK(room.d.wait(cq).status == PIB_HCA_WC_SUCCESS);
    }
    room.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
}

TEST_CASE("a queue pair may be destroyed in Reset, and with work under way") {
    LegalRoom room;
    MiniQp& qp = room.working_qp();
    for (int i = 0; i < 3; ++i) {
        room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    }
    SECTION("in Reset, where the producers are not 0 yet") {
        room.to_state(PIB_HCA_QPS_RESET);
        qp.memory.poke(offsetof(pib_hca_qp_header, sq_producer), 100u);
        qp.memory.poke(offsetof(pib_hca_qp_header, rq_producer), 100u);
    }
    SECTION("with requests that have no answer") {}
    SECTION("in Error") {
        room.to_state(PIB_HCA_QPS_ERR);
    }
    room.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
}

TEST_CASE(
    "a jump of the clock, as after a stop of the process, shortens no deadline of the driver") {
    LegalRoom room;
    room.d.arm(room.async_eq);
    room.host.clock_ns += 100 * Strict::kSteps * Strict::kStepNs;
    room.device->timer();
    while (room.d.poll(room.async_eq)) {
    }
}

TEST_CASE("two queues may lie in one large page") {
    LegalRoom room;
    const uint64_t page = (room.host.alloc(2 << 20) + (1 << 20)) & ~uint64_t{(1 << 20) - 1};
    auto in = room.cq_in();
    in.pages = {};
    in.pages.page_count = 1;
    in.pages.log_page_size = 20;
    in.pages.root = page;
    room.pass(in);
    in.pages.log_page_size = 12;
    in.pages.root = page + (1 << 19);
    room.pass(in);
}
