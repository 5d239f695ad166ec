// SPDX-License-Identifier: GPL-2.0-or-later
// Rules that only a strict device checks: a faulty driver breaks each of them once.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>

#include "refusal_room.h"
#include "ring_slots.h"
#include "strict_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr size_t kSqProducer = offsetof(pib_hca_qp_header, sq_producer);
constexpr size_t kRqProducer = offsetof(pib_hca_qp_header, rq_producer);
constexpr size_t kConsumer = offsetof(pib_hca_cq_header, consumer);

// ---- what a driver does

// A QP in SQD: the device has read three send WQEs, and started none.
MiniQp& stopped_qp(RefusalRoom& r) {
    MiniQp& qp = working_qp(r);
    to_state(r, PIB_HCA_QPS_SQD);
    for (int i = 0; i < 3; ++i) {
        r.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
    }
    return qp;
}

// Completes three WQEs; the driver takes their CQEs.
void complete_three(RefusalRoom& r) {
    stopped_qp(r);
    to_state(r, PIB_HCA_QPS_ERR);
    for (int i = 0; i < 3; ++i) {
        (void)r.d.wait(r.cq);
    }
}

// Submits more commands than the device executes in a turn, so that `last` waits. Returns the bus
// address of its entry.
uint64_t last_of_many(RefusalRoom& r, pib_hca_cmd last) {
    constexpr uint32_t kDepth = 32;
    reset(r);
    REQUIRE(r.d.enable(5));
    for (uint32_t i = 0; i < CommandQueue::kCommandsPerTurn; ++i) {
        r.d.enqueue(r.d.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
    }
    last.in_addr = last.in_length == 0 ? 0 : r.d.in_buffer();
    last.out_addr = last.out_length == 0 ? 0 : r.d.out_buffer();
    r.d.enqueue(last);
    r.d.ring_commands();
    static_assert(CommandQueue::kCommandsPerTurn < kDepth);
    return r.d.cmdq_base() + CommandQueue::kCommandsPerTurn * sizeof(pib_hca_cmd);
}

// Creates an SRQ with this producer counter; QUERY_SRQ makes the device read the counter.
uint32_t srq_with_producer(RefusalRoom& r, uint32_t producer) {
    const uint32_t srqn = r.pass(r.srq_in());
    r.srq_ring.poke(offsetof(pib_hca_srq_header, producer), producer);
    pib_hca_query_srq out;
    MiniDriver::must(r.d.command_out(PIB_HCA_CMD_QUERY_SRQ, srqn, out), "QUERY_SRQ");
    return srqn;
}

// A datagram arrives for the QP, which has posted one receive; `meanwhile` runs while the device
// writes its payload.
void receive(RefusalRoom& r, const std::function<void(MiniQp&)>& meanwhile) {
    MiniQp qp = r.d.create_qp(r.shape(PIB_HCA_QP_UD));
    r.d.connect_ud(qp, 1, 0);
    const MiniMr mr = r.d.create_mr(r.pd, 4096, PIB_HCA_ACCESS_LOCAL_WRITE);
    r.d.post_recv(qp, std::array{MiniDriver::sge(mr, 0, 4096)});
    r.host.before_dma = [&](uint64_t addr, size_t, bool is_write) {
        if (is_write && addr - mr.memory.page(0) < 4096) {
            meanwhile(qp);
        }
    };
    arrive(r, qp, pib::ib::opcode::kUdSendOnly, 64);
    r.host.before_dma = nullptr;
}

// A QP that has received the first packet of a message of several.
MiniQp& receiving_qp(RefusalRoom& r) {
    MiniQp& qp = working_qp(r);
    const MiniMr mr = r.d.create_mr(r.pd, 4096, PIB_HCA_ACCESS_LOCAL_WRITE);
    r.d.post_recv(qp, std::array{MiniDriver::sge(mr, 0, 4096)});
    arrive(r, qp, pib::ib::opcode::kSendFirst, 256);
    return qp;
}

// Completes three WQEs whose CQEs the driver does not take.
void leave_three(RefusalRoom& r) {
    stopped_qp(r);
    to_state(r, PIB_HCA_QPS_ERR);
    r.d.pump();
}

// Rings the doorbell of a WQE, and writes the WQE after the device has completed the entry with its
// old contents.
MiniQp write_after_doorbell(RefusalRoom& r) {
    MiniQp qp = r.d.create_qp(r.shape(PIB_HCA_QP_UD));
    r.d.connect_ud(qp, 1, 0);
    qp.memory.poke(kSqProducer, 1u);
    r.d.ring_send(qp);
    r.d.pump();
    qp.memory.poke(qp.sq_offset, uint8_t{PIB_HCA_WQE_SEND_WITH_IMM});
    return qp;
}

// Takes all events, as a driver does that polls the EQ.
void take_events(RefusalRoom& r) {
    while (r.d.poll(r.async_eq)) {
    }
}

// Posts send WQEs without a doorbell and waits for more than a minute.
void post_unrung(RefusalRoom& r, int wqes) {
    take_events(r);
    MiniQp& qp = r.qp.qpn == 0 ? working_qp(r) : r.qp;
    for (int i = 0; i < wqes; ++i) {
        r.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND}, true);
    }
    let_steps_pass(r, Strict::kSteps + 1);
}

// Raises an interrupt of the async EQ and does not serve it for a minute.
void leave_interrupt(RefusalRoom& r) {
    r.d.arm(r.async_eq);
    let_steps_pass(r, Strict::kSteps);
}

// Takes all events without arming again; the next one raises no interrupt.
void forget_to_arm(RefusalRoom& r) {
    r.d.arm(r.async_eq);
    take_events(r);
    CHECK(r.d.command(PIB_HCA_CMD_NOP).ok());
    let_steps_pass(r, Strict::kSteps);
}

// Arms the async EQ again and again while an EQE waits.
void arm_with_an_old_counter(RefusalRoom& r, uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) {
        r.d.arm(r.async_eq);
    }
}

constexpr MisuseCase kCases[] = {
    // ---- registers, reset, bring-up
    {Rule::kDoorbellAgain, "command queue misused: value 4 equals the value of the last doorbell",
     [](RefusalRoom& r) { r.d.ring_commands(); }},
    {Rule::kEnableReady, "device misused: enabled before STATUS was read as 0 after the reset",
     [](RefusalRoom& r) {
         r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
         (void)r.d.enable();
     }},
    {Rule::kCplZero,
     "command queue misused: enabled with a completion ring that is not zero; an entry with an "
     "owner bit: 3",
     [](RefusalRoom& r) {
         const uint64_t ring = r.host.alloc(4096);
         const uint64_t completions = r.host.alloc(4096);
         r.host.poke(completions + 4 * sizeof(pib_hca_cmd_cpl) - 1, uint8_t{1});
         reset(r);
         r.d.write64(PIB_HCA_REG_CMDQ_BASE, ring);
         r.d.write64(PIB_HCA_REG_CMDQ_CPL_BASE, completions);
         r.d.write32(PIB_HCA_REG_CMDQ_LOG_DEPTH, 4);
         r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
     }},
    {Rule::kWorkStopped,
     "device misused: bus mastering ended with QPs that work or commands under way, in all 1",
     [](RefusalRoom& r) {
         working_qp(r);
         r.device->dma_ended();
     }},
    {Rule::kObjectsLeft,
     "device misused: bus mastering was switched off with objects left over, in all 1",
     [](RefusalRoom& r) {
         reset(r);
         REQUIRE(r.d.enable());
         (void)r.d.alloc_pd();
         r.device->bus_master_off();
     }},
    {Rule::kArmMsix, "EQ 0x2 misused: armed while MSI-X is disabled",
     [](RefusalRoom& r) {
         r.host.vectors = VectorState::kDisabled;
         r.d.arm(r.eq);
     }},

    // ---- commands
    {Rule::kIdUnique, "misused: id belongs to a command that has not completed",
     [](RefusalRoom& r) {
         const uint16_t id = r.d.enqueue(r.d.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
         r.d.enqueue(r.d.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
         const uint64_t second = r.d.cmdq_base() + 5 * sizeof(pib_hca_cmd);
         r.host.poke(second + offsetof(pib_hca_cmd, id), id);
         r.d.ring_commands();
     }},
    {Rule::kEntryChanged,
     "misused: the entry has changed between doorbell and completion, at byte 8",
     [](RefusalRoom& r) {
         const uint64_t entry = last_of_many(r, r.d.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
         r.host.poke(entry + offsetof(pib_hca_cmd, in_addr), uint64_t{0x55});
         r.d.pump();
     }},
    {Rule::kInputChanged, ": the input has changed since the doorbell",
     [](RefusalRoom& r) {
         last_of_many(
             r, r.d.make_entry(PIB_HCA_CMD_MODIFY_DEVICE, 0, sizeof(pib_hca_modify_device), 0));
         r.host.poke(r.d.in_buffer() + offsetof(pib_hca_modify_device, node_description), 'x');
         r.d.pump();
     }},
    {Rule::kOutputShared, " is in the memory of CQ 0x1",
     [](RefusalRoom& r) {
         r.entry(PIB_HCA_CMD_QUERY_PORT, 0, sizeof(pib_hca_query_port), [&](pib_hca_cmd& cmd) {
             cmd.object = 1;
             cmd.out_addr = r.cq.memory.page(0) + 1024;
         });
     }},
    {Rule::kOutputChanged, ": the room for the output has changed since the doorbell",
     [](RefusalRoom& r) {
         last_of_many(r, r.d.make_entry(PIB_HCA_CMD_QUERY_PORT, 1, 0, sizeof(pib_hca_query_port)));
         r.host.poke(r.d.out_buffer() + 8, uint8_t{1});
         r.d.pump();
     }},
    {Rule::kOutputChanged, ": the room for the output has changed since the doorbell",
     [](RefusalRoom& r) {  // the output of another command is written there
         const auto entry =
             r.d.make_entry(PIB_HCA_CMD_QUERY_PORT, 1, 0, sizeof(pib_hca_query_port));
         r.d.enqueue(entry);
         r.d.enqueue(entry);
         r.d.ring_commands();
     }},
    {Rule::kShadowZero, "shadow doorbell page 0 misused: is not zero",
     [](RefusalRoom& r) {
         const pib_hca_set_shadow_page in = r.shadow_in();
         r.host.poke(in.addr + 64, uint64_t{1});
         r.pass(in);
     }},

    // ---- queues in memory
    {Rule::kHeaderZero, "CQ 0x2 misused: created with a header that is not zero",
     [](RefusalRoom& r) {
         GuestMemory memory(r.host, 4096);
         memory.poke(kConsumer, 5u);
         auto in = r.cq_in();
         in.pages = memory.list();
         r.pass(in);
     }},
    {Rule::kHeaderReserved, "QP 0x40 misused: reserved bytes of the header must stay 0",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         qp.memory.poke(offsetof(pib_hca_qp_header, reserved), 1u);
         r.d.ring_send(qp);
     }},
    {Rule::kHeaderReserved, "QP 0x40 misused: reserved bytes of the header must stay 0",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         qp.memory.poke(offsetof(pib_hca_qp_header, reserved), 1u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
     }},
    {Rule::kHeaderReserved, "QP 0x40 misused: reserved bytes of the header must stay 0",
     [](RefusalRoom& r) {
         r.qp = r.d.create_qp(r.shape());
         r.qp.memory.poke(offsetof(pib_hca_qp_header, reserved), 1u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, r.qp.qpn);
     }},
    {Rule::kHeaderReserved, "SRQ 0x1 misused: reserved bytes of the header must stay 0",
     [](RefusalRoom& r) {
         const uint32_t srqn = r.pass(r.srq_in());
         r.srq_ring.poke(offsetof(pib_hca_srq_header, reserved), 1u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_SRQ, srqn);
     }},
    {Rule::kHeaderReserved, "CQ 0x1 misused: reserved bytes of the header must stay 0",
     [](RefusalRoom& r) {
         r.cq.memory.poke(offsetof(pib_hca_cq_header, reserved), 1u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_CQ, r.cq.cqn);
     }},
    {Rule::kRingZero,
     "EQ 0x3 misused: created with a ring that is not zero; an entry with an owner "
     "bit: 2",
     [](RefusalRoom& r) {
         GuestMemory memory(r.host, 4096);
         memory.poke(3 * sizeof(pib_hca_eqe) - 1, uint8_t{1});
         auto in = r.eq_in();
         in.pages = memory.list();
         r.pass(in);
     }},
    {Rule::kMemoryShared, " of its memory belongs to CQ 0x1",
     [](RefusalRoom& r) {
         auto in = r.cq_in();
         in.pages = r.cq.memory.list();
         in.log_depth = static_cast<uint8_t>(r.cq.log_depth);
         r.pass(in);
     }},
    {Rule::kMemoryLost, "QP 0x40 misused: its memory is no longer RAM that the device can access",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         r.host.make_hole(qp.memory.page(0), 4096);
         r.d.ring_send(qp);
     }},
    {Rule::kMemoryLost, "EQ 0x2 misused: its memory is no longer RAM that the device can access",
     [](RefusalRoom& r) {
         r.d.destroy(PIB_HCA_CMD_DESTROY_CQ, r.cq.cqn);
         r.host.make_hole(r.eq.memory.page(0), 4096);
         r.d.destroy(PIB_HCA_CMD_DESTROY_EQ, r.eq.eqn);
     }},
    {Rule::kOwnerWritten,
     "EQ 0x1 misused: owner 0x6b is not what the device wrote: the ring was freed or written to, "
     "at "
     "entry 3",
     [](RefusalRoom& r) {
         r.async_eq.memory.poke(4 * sizeof(pib_hca_eqe) - 1, uint8_t{0x6b});
         CHECK(r.d.command(PIB_HCA_CMD_NOP).ok());
     }},
    {Rule::kOwnerWritten,
     "CQ 0x1 misused: owner 0 is not what the device wrote: the ring was freed or written to, at "
     "entry 2",
     [](RefusalRoom& r) {
         complete_three(r);
         r.cq.memory.poke(PIB_HCA_QUEUE_HEADER_SIZE + 3 * sizeof(pib_hca_cqe) - 1, uint8_t{0});
         r.d.post_send(r.qp, {.opcode = PIB_HCA_WQE_SEND});
         r.d.pump();
     }},
    {Rule::kOwnerWritten,
     "EQ 0x1 misused: owner 0xa5 is not what the device wrote: the ring was freed or written to, "
     "at "
     "entry 3",
     [](RefusalRoom& r) {
         r.async_eq.memory.poke(4 * sizeof(pib_hca_eqe) - 1, uint8_t{0xa5});
         r.d.destroy(PIB_HCA_CMD_DESTROY_EQ, r.async_eq.eqn);
     }},
    {Rule::kOwnerWritten,
     "CQ 0x1 misused: owner 0x77 is not what the device wrote: the ring was freed or written to, "
     "at "
     "entry 2",
     [](RefusalRoom& r) {
         complete_three(r);
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, r.qp.qpn);
         r.cq.memory.poke(PIB_HCA_QUEUE_HEADER_SIZE + 3 * sizeof(pib_hca_cqe) - 1, uint8_t{0x77});
         r.d.destroy(PIB_HCA_CMD_DESTROY_CQ, r.cq.cqn);
     }},

    // ---- posting
    {Rule::kSendPasses, "QP 0x40 misused: sq_producer 100 passes the ring; at most 16",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         qp.memory.poke(kSqProducer, 100u);
         r.d.ring_send(qp);
     }},
    {Rule::kRecvPasses, "QP 0x40 misused: rq_producer 100 passes the ring; at most 16",
     [](RefusalRoom& r) {
         working_qp(r).memory.poke(kRqProducer, 100u);
         to_state(r, PIB_HCA_QPS_ERR);
     }},
    {Rule::kSrqPasses, "SRQ 0x1 misused: producer 100 passes the ring; at most 16",
     [](RefusalRoom& r) { srq_with_producer(r, 100); }},
    {Rule::kSendBack, "QP 0x40 misused: sq_producer 1 is behind an earlier one: 3",
     [](RefusalRoom& r) {
         MiniQp& qp = stopped_qp(r);
         qp.memory.poke(kSqProducer, 1u);
         r.d.ring_send(qp);
     }},
    {Rule::kRecvBack, "QP 0x40 misused: rq_producer 1 is behind an earlier one: 3",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         qp.memory.poke(kRqProducer, 3u);
         to_state(r, PIB_HCA_QPS_ERR);
         qp.memory.poke(kRqProducer, 1u);
         r.d.ring(0, PIB_HCA_UAR_RECV, qp.qpn);
     }},
    {Rule::kSrqBack, "SRQ 0x1 misused: producer 1 is behind an earlier one: 3",
     [](RefusalRoom& r) {
         const uint32_t srqn = srq_with_producer(r, 3);
         r.srq_ring.poke(offsetof(pib_hca_srq_header, producer), 1u);
         pib_hca_query_srq out;
         (void)r.d.command_out(PIB_HCA_CMD_QUERY_SRQ, srqn, out);
     }},
    {Rule::kSrqBack, "SRQ 0x1 misused: producer 1 is behind an earlier one: 2",
     [](RefusalRoom& r) {
         const uint32_t srqn = srq_with_producer(r, 2);
         r.srq_ring.poke(offsetof(pib_hca_srq_header, producer), 1u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_SRQ, srqn);
     }},
    {Rule::kSendChanged,
     "QP 0x40 misused: send WQE 0 was written between sq_producer and its completion, at byte 4",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         r.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});
         qp.memory.poke(qp.sq_offset + offsetof(pib_hca_wqe_control, imm_data), 7u);
         to_state(r, PIB_HCA_QPS_ERR);
     }},
    {Rule::kSendChanged,
     "QP 0x40 misused: send WQE 1 was written between sq_producer and its completion, at byte 4",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         for (int i = 0; i < 2; ++i) {
             r.d.post_send(r.qp, {.opcode = PIB_HCA_WQE_SEND});
         }
         qp.memory.poke(qp.sq_offset + (1u << qp.shape.log_sq_stride) +
                            offsetof(pib_hca_wqe_control, imm_data),
                        7u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
     }},
    {Rule::kSendChanged,
     "QP 0x40 misused: send WQE 0 was written between sq_producer and its completion, at byte 0",
     [](RefusalRoom& r) {
         const MiniQp qp = write_after_doorbell(r);
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
     }},
    {Rule::kSendChanged,
     "QP 0x40 misused: send WQE 0 was written between sq_producer and its completion, at byte 0",
     [](RefusalRoom& r) {
         MiniQp qp = write_after_doorbell(r);
         for (uint32_t producer = 2; producer <= 3; ++producer) {
             qp.memory.poke(kSqProducer, producer);
             r.d.ring_send(qp);
         }
     }},
    {Rule::kRecvChanged,
     "QP 0x40 misused: receive WQE 0 was written between rq_producer and its completion, at byte 0",
     [](RefusalRoom& r) { receive(r, [](MiniQp& qp) { qp.memory.poke(qp.rq_offset, 2u); }); }},
    {Rule::kRecvChanged,
     "QP 0x40 misused: receive WQE 0 was written between rq_producer and its completion, at byte 0",
     [](RefusalRoom& r) {
         MiniQp& qp = receiving_qp(r);
         qp.memory.poke(qp.rq_offset, 2u);
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
     }},
    {Rule::kInitProducers,
     "QP 0x40 misused: sq_producer 2 must be 0 before Init; so must rq_producer: 0",
     [](RefusalRoom& r) {
         const auto in = r.init_in();
         r.qp.memory.poke(kSqProducer, 2u);
         r.pass(in);
     }},
    {Rule::kSendEarly,
     "QP 0x40 misused: sq_producer 1: the device ignores a doorbell for WQEs before RTS",
     [](RefusalRoom& r) {
         r.pass(r.rtr_in());
         r.d.post_send(r.qp, {.opcode = PIB_HCA_WQE_SEND});
     }},
    {Rule::kSendEarly,
     "QP 0x40 misused: sq_producer 1: the device ignores a doorbell for WQEs before RTS",
     [](RefusalRoom& r) {
         const pib_hca_set_shadow_page in = r.shadow_in();
         r.pass(in);
         r.pass(r.rtr_in());
         r.d.post_send(r.qp, {.opcode = PIB_HCA_WQE_SEND}, true);
         r.host.poke(in.addr + offsetof(pib_hca_shadow_page, rung) + r.qp.qpn / 64 * 8,
                     uint64_t{1} << r.qp.qpn % 64);
         r.host.poke(in.addr + offsetof(pib_hca_shadow_page, summary),
                     uint64_t{1} << r.qp.qpn / 64);
         r.d.ring(0, PIB_HCA_UAR_KICK, 0);
     }},
    {Rule::kSendUnrung,
     "QP 0x40 misused: sq_producer 2: no doorbell has been rung for its WQEs, for seconds: 60",
     [](RefusalRoom& r) { post_unrung(r, 2); }},
    {Rule::kSendUnrung,
     "QP 0x40 misused: sq_producer 2: no doorbell has been rung for its WQEs, for seconds: 60",
     [](RefusalRoom& r) {
         MiniQp& qp = working_qp(r);
         r.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND});  // waits for its ACK
         post_unrung(r, 1);
     }},
    {Rule::kSendUnrung,
     "QP 0x40 misused: sq_producer 1: no doorbell has been rung for its WQEs, for seconds: 60",
     [](RefusalRoom& r) {
         r.d.ring_send(working_qp(r));
         post_unrung(r, 1);
     }},
    {Rule::kSendUnrung,
     "QP 0x40 misused: sq_producer 1: no doorbell has been rung for its WQEs, for seconds: 60",
     [](RefusalRoom& r) {
         working_qp(r);
         to_state(r, PIB_HCA_QPS_ERR);
         post_unrung(r, 1);
     }},

    {Rule::kListChanged,
     "QP 0x40 misused: send WQE 1 is a REG_MR whose page list was written between sq_producer and "
     "its completion",
     [](RefusalRoom& r) {
         r.host.poke(post_registration(r, PIB_HCA_WQE_SEND).table, uint64_t{0});
         to_state(r, PIB_HCA_QPS_ERR);
     }},
    {Rule::kListChanged,
     "QP 0x40 misused: send WQE 1 is a REG_MR whose page list was written between sq_producer and "
     "its completion",
     [](RefusalRoom& r) {
         r.host.poke(post_registration(r, PIB_HCA_WQE_SEND).table + 8, uint64_t{1});
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, r.qp.qpn);
     }},
    {Rule::kListChanged,
     "QP 0x40 misused: send WQE 1 is a REG_MR whose page list was written between sq_producer and "
     "its completion",
     [](RefusalRoom& r) {  // the REG_MR has not been executed
         r.host.poke(post_registration(r, PIB_HCA_WQE_RDMA_READ).table, uint64_t{0});
         r.d.destroy(PIB_HCA_CMD_DESTROY_QP, r.qp.qpn);
     }},

    // ---- events and completions
    {Rule::kEqeLeft,
     "EQ 0x1 misused: vector 0: the doorbell was not rung after the interrupt, in seconds: 60",
     [](RefusalRoom& r) { leave_interrupt(r); }},
    {Rule::kVectorMasked,
     "EQ 0x1 misused: vector 0 has been masked with an interrupt, for seconds: 60",
     [](RefusalRoom& r) {
         r.host.vectors = VectorState::kMasked;
         leave_interrupt(r);
     }},
    {Rule::kEqUnarmed,
     "EQ 0x1 misused: vector 0: an EQE waits and the EQ has not been armed again, for seconds: 60",
     [](RefusalRoom& r) { forget_to_arm(r); }},
    {Rule::kEqArmedAgain,
     "EQ 0x1 misused: value 0 of the doorbell's counter has armed the EQ with an EQE beyond it, "
     "more often than: 1000",
     [](RefusalRoom& r) { arm_with_an_old_counter(r, Strict::kMostArmings + 1); }},
    {Rule::kEqNeverArmed,
     "EQ 0x1 misused: vector 0 is enabled, an EQE waits, and the EQ has never been armed, for "
     "seconds: 60",
     [](RefusalRoom& r) { let_steps_pass(r, Strict::kSteps + 1); }},
    {Rule::kEqNeverArmed,
     "EQ 0x1 misused: vector 0 is enabled, an EQE waits, and the EQ has never been armed, for "
     "seconds: 60",
     [](RefusalRoom& r) {  // rung, but neither armed nor with a new counter
         r.d.eq_doorbell(r.async_eq, false);
         let_steps_pass(r, Strict::kSteps + 1);
     }},
    {Rule::kEqNeverArmed,
     "EQ 0x1 misused: vector 0 is enabled, an EQE waits, and the EQ has never been armed, for "
     "seconds: 60",
     [](RefusalRoom& r) {  // the handler is installed late
         r.host.vectors = VectorState::kMasked;
         let_steps_pass(r, 3 * Strict::kSteps);
         r.host.vectors = VectorState::kOpen;
         let_steps_pass(r, Strict::kSteps + 1);
     }},
    {Rule::kEqNeverArmed,
     "EQ 0x2 misused: vector 1 is enabled, an EQE waits, and the EQ has never been armed, for "
     "seconds: 60",
     [](RefusalRoom& r) {
         take_events(r);
         r.d.arm(r.cq);
         complete_three(r);
         let_steps_pass(r, Strict::kSteps + 1);
     }},
    {Rule::kConsumerAhead, "CQ 0x1 misused: consumer 5 is ahead of the CQEs written: 0",
     [](RefusalRoom& r) {
         r.cq.memory.poke(kConsumer, 5u);
         r.d.arm(r.cq);
     }},
    {Rule::kConsumerBack, "CQ 0x1 misused: consumer 1 is behind an earlier one: 3",
     [](RefusalRoom& r) {
         complete_three(r);
         r.d.arm(r.cq);
         r.cq.memory.poke(kConsumer, 1u);
         r.d.arm(r.cq);
     }},
    {Rule::kArmAhead,
     "CQ 0x1 misused: value 7 of the arming doorbell's counter is ahead of the CQEs written: 0",
     [](RefusalRoom& r) {
         r.cq.consumer = 7;
         r.d.arm(r.cq);
     }},
    {Rule::kCqArmedAgain,
     "CQ 0x1 misused: value 0 of the doorbell's counter has armed the CQ with a CQE beyond it, "
     "more often than: 1000",
     [](RefusalRoom& r) {
         leave_three(r);
         for (uint32_t i = 0; i <= Strict::kMostArmings; ++i) {
             r.d.arm(r.cq);
         }
     }},
    {Rule::kCqeLeft,
     "CQ 0x1 misused: consumer 0: no CQE beyond it has been taken, and the CQ is not armed, for "
     "seconds: 60",
     [](RefusalRoom& r) {  // the driver forgets to arm
         stopped_qp(r);
         r.d.post_recv(r.qp, {});
         to_state(r, PIB_HCA_QPS_ERR);
         r.d.pump();
         let_steps_pass(r, Strict::kSteps + 1);
     }},
    {Rule::kCqeLeft,
     "CQ 0x1 misused: consumer 3: no CQE beyond it has been taken, and the CQ is not armed, for "
     "seconds: 60",
     [](RefusalRoom& r) {  // the driver takes no CQE after the event
         complete_three(r);
         r.d.arm(r.cq);
         r.d.post_send(r.qp, {.opcode = PIB_HCA_WQE_SEND});
         r.d.pump();
         let_steps_pass(r, Strict::kSteps + 1);
     }},
};

}  // namespace

std::span<const MisuseCase> pib::hca::test::misuses() {
    return kCases;
}
