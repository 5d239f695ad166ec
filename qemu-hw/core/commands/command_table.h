// SPDX-License-Identifier: GPL-2.0-or-later
// The table of all commands. A command's function (*_commands.cc) gets the object's number and a
// copy of the input structure, whose length has been checked. It returns the output structure: the
// command queue alone reads and writes these structures in guest memory.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/verdict.h"
#include "mmio/device_objects.h"
#include "pib_hca_hw.h"

namespace pib::hca {

// Room for the largest input and output structure; the table is checked against it.
constexpr size_t kMaxCommandData = 320;

struct CommandInput {
    uint32_t object = 0;
    std::array<uint8_t, kMaxCommandData> bytes{};

    template <typename T>
    T as() const {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxCommandData);
        T value;
        std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
};

struct CommandReply {
    Verdict verdict;
    uint32_t result = 0;
    uint32_t out_length = 0;
    std::array<uint8_t, kMaxCommandData> bytes{};

    CommandReply() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): a verdict alone is a reply.
    CommandReply(const Verdict& v) : verdict(v) {}

    // The number of a created object, or the refusal.
    static CommandReply number(const CmdResult<uint32_t>& value) {
        CommandReply reply(value ? Verdict() : value.error());
        reply.result = value.value_or(0);
        return reply;
    }
    template <typename T>
    static CommandReply data(const T& value) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxCommandData);
        CommandReply reply;
        std::memcpy(reply.bytes.data(), &value, sizeof value);
        reply.out_length = sizeof value;
        return reply;
    }
};

using CommandFunction = CommandReply (*)(DeviceObjects& objects, const CommandInput& in);

struct CommandSpec {
    static constexpr uint16_t kNoPages = UINT16_MAX;

    uint16_t opcode;
    const char* name;
    uint16_t in_length;   // minimum; additional bytes must be zero
    uint16_t out_length;  // maximum; a driver with less room gets the first bytes
    bool names_object;    // otherwise `object` is reserved
    CommandFunction run;
    uint16_t pages_at = kNoPages;  // offset of a pib_hca_pages in the input

    // Number of pages in the input, not yet checked, which determines the command's time.
    uint32_t page_count(const CommandInput& in) const {
        pib_hca_pages pages{};
        if (pages_at != kNoPages) {
            std::memcpy(&pages, in.bytes.data() + pages_at, sizeof pages);
        }
        return pages.page_count;
    }
};

// nullptr: unknown opcode.
const CommandSpec* find_command(uint16_t opcode);

// Whether every byte of a reserved field is zero.
template <typename T, size_t N>
[[nodiscard]] bool all_zero(const T (&reserved)[N]) {
    uint64_t bits = 0;
    for (const T& part : reserved) {
        bits |= part;
    }
    return bits == 0;
}

// device_commands.cc
CommandReply cmd_nop(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_device(DeviceObjects&, const CommandInput&);
CommandReply cmd_modify_device(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_counters(DeviceObjects&, const CommandInput&);

// port_commands.cc
CommandReply cmd_query_port(DeviceObjects&, const CommandInput&);
CommandReply cmd_modify_port(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_pkeys(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_gids(DeviceObjects&, const CommandInput&);
CommandReply cmd_mad_ifc(DeviceObjects&, const CommandInput&);

// memory_commands.cc
CommandReply cmd_alloc_uar(DeviceObjects&, const CommandInput&);
CommandReply cmd_free_uar(DeviceObjects&, const CommandInput&);
CommandReply cmd_set_shadow_page(DeviceObjects&, const CommandInput&);
CommandReply cmd_alloc_pd(DeviceObjects&, const CommandInput&);
CommandReply cmd_free_pd(DeviceObjects&, const CommandInput&);
CommandReply cmd_alloc_xrcd(DeviceObjects&, const CommandInput&);
CommandReply cmd_free_xrcd(DeviceObjects&, const CommandInput&);
CommandReply cmd_create_mr(DeviceObjects&, const CommandInput&);
CommandReply cmd_destroy_mr(DeviceObjects&, const CommandInput&);
CommandReply cmd_rereg_mr(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_page_fault(DeviceObjects&, const CommandInput&);
CommandReply cmd_resume_page_fault(DeviceObjects&, const CommandInput&);
CommandReply cmd_alloc_mw(DeviceObjects&, const CommandInput&);
CommandReply cmd_dealloc_mw(DeviceObjects&, const CommandInput&);

// queue_commands.cc
CommandReply cmd_create_eq(DeviceObjects&, const CommandInput&);
CommandReply cmd_destroy_eq(DeviceObjects&, const CommandInput&);
CommandReply cmd_create_cq(DeviceObjects&, const CommandInput&);
CommandReply cmd_resize_cq(DeviceObjects&, const CommandInput&);
CommandReply cmd_destroy_cq(DeviceObjects&, const CommandInput&);
CommandReply cmd_moderate_cq(DeviceObjects&, const CommandInput&);
CommandReply cmd_create_srq(DeviceObjects&, const CommandInput&);
CommandReply cmd_modify_srq(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_srq(DeviceObjects&, const CommandInput&);
CommandReply cmd_destroy_srq(DeviceObjects&, const CommandInput&);

// qp_commands.cc
CommandReply cmd_create_qp(DeviceObjects&, const CommandInput&);
CommandReply cmd_modify_qp(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_qp(DeviceObjects&, const CommandInput&);
CommandReply cmd_destroy_qp(DeviceObjects&, const CommandInput&);
CommandReply cmd_attach_mcast(DeviceObjects&, const CommandInput&);
CommandReply cmd_detach_mcast(DeviceObjects&, const CommandInput&);

// observe_commands.cc
CommandReply cmd_query_eq(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_cq(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_key(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_qp_progress(DeviceObjects&, const CommandInput&);
CommandReply cmd_inject_event(DeviceObjects&, const CommandInput&);
CommandReply cmd_query_refusal(DeviceObjects&, const CommandInput&);

}  // namespace pib::hca
