// SPDX-License-Identifier: GPL-2.0-or-later
// A device and a valid input for each command. A test case changes one field of an input, and the
// device has to refuse the command for the reason that the case expects.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/rule.h"
#include "bench.h"

namespace pib::hca::test {

// The opcode of the command that takes a structure.
template <typename In>
constexpr pib_hca_cmd_opcode kOpcodeOf = PIB_HCA_CMD_NOP;
template <>
inline constexpr auto kOpcodeOf<pib_hca_modify_device> = PIB_HCA_CMD_MODIFY_DEVICE;
template <>
inline constexpr auto kOpcodeOf<pib_hca_modify_port> = PIB_HCA_CMD_MODIFY_PORT;
template <>
inline constexpr auto kOpcodeOf<pib_hca_mad_ifc> = PIB_HCA_CMD_MAD_IFC;
template <>
inline constexpr auto kOpcodeOf<pib_hca_set_shadow_page> = PIB_HCA_CMD_SET_SHADOW_PAGE;
template <>
inline constexpr auto kOpcodeOf<pib_hca_create_mr> = PIB_HCA_CMD_CREATE_MR;
template <>
inline constexpr auto kOpcodeOf<pib_hca_rereg_mr> = PIB_HCA_CMD_REREG_MR;
template <>
inline constexpr auto kOpcodeOf<pib_hca_resume_page_fault> = PIB_HCA_CMD_RESUME_PAGE_FAULT;
template <>
inline constexpr auto kOpcodeOf<pib_hca_alloc_mw> = PIB_HCA_CMD_ALLOC_MW;
template <>
inline constexpr auto kOpcodeOf<pib_hca_create_eq> = PIB_HCA_CMD_CREATE_EQ;
template <>
inline constexpr auto kOpcodeOf<pib_hca_create_cq> = PIB_HCA_CMD_CREATE_CQ;
template <>
inline constexpr auto kOpcodeOf<pib_hca_resize_cq> = PIB_HCA_CMD_RESIZE_CQ;
template <>
inline constexpr auto kOpcodeOf<pib_hca_moderate_cq> = PIB_HCA_CMD_MODERATE_CQ;
template <>
inline constexpr auto kOpcodeOf<pib_hca_create_srq> = PIB_HCA_CMD_CREATE_SRQ;
template <>
inline constexpr auto kOpcodeOf<pib_hca_modify_srq> = PIB_HCA_CMD_MODIFY_SRQ;
template <>
inline constexpr auto kOpcodeOf<pib_hca_create_qp> = PIB_HCA_CMD_CREATE_QP;
template <>
inline constexpr auto kOpcodeOf<pib_hca_modify_qp> = PIB_HCA_CMD_MODIFY_QP;
template <>
inline constexpr auto kOpcodeOf<pib_hca_mcast> = PIB_HCA_CMD_ATTACH_MCAST;
template <>
inline constexpr auto kOpcodeOf<pib_hca_inject_event> = PIB_HCA_CMD_INJECT_EVENT;

Config refusal_config();
Config plain_config();  // without optional features
Config strict_config(Strictness strictness = Strictness::kOn);

// Sends commands. `object` is the object of the next command.
struct RefusalBench : ReadyBench {
    explicit RefusalBench(const Config& config) : ReadyBench(config), d(driver) {}

    template <typename In>
    CommandOutcome send(const In& in) {
        return d.command_in(kOpcodeOf<In>, object, in);
    }
    // A command that prepares the case.
    template <typename In>
    uint32_t pass(const In& in) {
        return MiniDriver::must(send(in), "a command that prepares the case");
    }
    // Submits a command whose entry `change` has altered.
    template <typename F>
    CommandOutcome entry(uint16_t opcode, size_t in, size_t out, F&& change) {
        pib_hca_cmd cmd = d.make_entry(opcode, 0, in, out);
        change(cmd);
        return d.submit(cmd);
    }
    template <typename In>
    In of(uint32_t number) {
        object = number;
        return {};
    }

    MiniDriver& d;
    uint32_t object = 0;
};

// Each function creates the objects that its command needs, sets `object`, returns valid inputs.
struct QueueInputs : RefusalBench {
    using RefusalBench::RefusalBench;

    pib_hca_create_eq eq_in();
    pib_hca_create_cq cq_in();
    pib_hca_resize_cq resize_in();
    pib_hca_moderate_cq moderate_in() { return of<pib_hca_moderate_cq>(cq.cqn); }
    pib_hca_create_srq srq_in();
    pib_hca_create_srq xrc_srq_in();
    pib_hca_modify_srq modify_srq_in();

    GuestMemory srq_ring;  // the ring in modify_srq_in()
};

struct RefusalRoom : QueueInputs {
    using QueueInputs::QueueInputs;

    pib_hca_modify_device device_in() { return {}; }
    pib_hca_modify_port port_in() { return of<pib_hca_modify_port>(1); }
    pib_hca_mad_ifc mad_in() { return of<pib_hca_mad_ifc>(1); }
    pib_hca_set_shadow_page shadow_in();
    pib_hca_create_mr mr_in();
    pib_hca_create_mr fast_in();
    pib_hca_create_mr on_demand_in();
    pib_hca_rereg_mr rereg_in();
    pib_hca_resume_page_fault resume_in();
    pib_hca_alloc_mw window_in();
    pib_hca_create_qp qp_in();
    pib_hca_create_qp target_in();
    pib_hca_modify_qp init_in();
    pib_hca_modify_qp rtr_in();
    pib_hca_modify_qp alternate_in();  // to RTR, with an alternate path
    pib_hca_modify_qp rts_in();
    pib_hca_mcast mcast_in();
    pib_hca_inject_event inject_in(uint8_t type, uint32_t number);
    pib_hca_inject_event port_event_in();

    MiniQp qp;  // the QP of init_in() and of the functions after it
};

struct RefusalCase {
    Rule rule;
    const char* text;  // "CREATE_CQ refused: log_depth 23 at byte 24, at most 22"
    CommandOutcome (*provoke)(RefusalRoom&);
    Config (*config)() = refusal_config;
};

// A store or load that the device ignores.
struct AccessCase {
    Rule rule;
    const char* text;
    void (*provoke)(RefusalRoom&);
};

// Misuse that only a strict device names.
struct MisuseCase {
    Rule rule;
    const char* text;  // a part of the line: "consumer 5 is ahead of the CQEs written: 0"
    void (*provoke)(RefusalRoom&);
};

// The cases of the manual's sections (refusals_*_test.cc).
std::span<const AccessCase> access_refusals();
std::span<const RefusalCase> command_refusals();
std::span<const RefusalCase> memory_refusals();
std::span<const RefusalCase> queue_refusals();
std::span<const RefusalCase> qp_refusals();
std::span<const MisuseCase> misuses();  // strict_rules_test.cc

// Provokes each refusal on a new device; checks the status, the logged line, and that the property
// `objects` shows the same reason. Returns the rules that the devices have named.
std::set<std::string> check_refusals(std::span<const RefusalCase> cases);
std::set<std::string> check_accesses(std::span<const AccessCase> cases);
// Provokes each misuse on a device with strict=on, which warns, and with strict=fatal, which stops.
std::set<std::string> check_misuses(std::span<const MisuseCase> cases);
// Number and text of the last entry of "refusals" in the property `objects`; "" without an entry.
std::string last_rule(Device& device);
// A packet of the peer, whose LID is 2, arrives for the QP.
void arrive(RefusalRoom& room, const MiniQp& qp, uint8_t opcode, size_t payload);
// A new privileged QP, `room.qp`, posts a REG_MR with a list of two pages. Before it, the QP posts
// a request of this opcode, which nobody answers; a REG_MR after a READ waits for its end.
struct PostedRegistration {
    uint64_t table = 0;  // bus address of the list
    uint32_t key = 0;
};
PostedRegistration post_registration(RefusalRoom& room, std::optional<uint8_t> before);
// Lets the time of Strict::kStepNs pass `steps` times; the device's timer expires after each.
void let_steps_pass(RefusalRoom& room, unsigned steps);

// Initializes a RefusalCase whose command gets the input `valid` with one field changed.
#define REFUSED_IN(rule, valid, change, text) \
    {Rule::rule, text, [](RefusalRoom& r) {   \
         auto in = r.valid();                 \
         in.change;                           \
         return r.send(in);                   \
     }}

}  // namespace pib::hca::test
