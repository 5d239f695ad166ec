// SPDX-License-Identifier: GPL-2.0-or-later
#include "posting.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "content.h"

namespace pib::simulation {
namespace {

using hca::test::SendWr;

constexpr uint32_t kMaxInline = 64;
constexpr uint32_t kInFlight = Flow::kDepth;  // most send work requests of a QP

Bytes bytes_of(uint64_t value) {
    Bytes data(sizeof value);
    std::memcpy(data.data(), &value, sizeof value);
    return data;
}

// Mostly short lengths; sometimes an MTU, or one byte more or less.
uint32_t random_length(uint32_t number) {
    if (number % 11 == 0) {
        return (256u << number / 11 % 5) + number / 55 % 3 - 1;
    }
    constexpr std::array<uint32_t, 8> kLimits = {0, 8, 64, 64, 256, 1024, 4096, Flow::kSlotBytes};
    return number / kLimits.size() % (kLimits[number % kLimits.size()] + 1);
}

// A work request on its way from a choice to the queue.
struct Draft {
    Flow& flow;
    const Choice& choice;
    Request request;
    SendWr wr = {};
    bool is_fenced = false;

    uint64_t local_offset() const {
        return uint64_t{request.counter % Flow::kLocalSlots} * Flow::kSlotBytes;
    }
};

// The local memory as one or two SGEs.
void use_local(Draft& draft) {
    Flow& flow = draft.flow;
    const uint32_t length = draft.request.bytes;
    const uint32_t first = draft.choice.c % 4 == 0 ? length / 3 : length;
    draft.wr.sges = {flow.local.sge(draft.local_offset(), first)};
    if (first != length) {
        draft.wr.sges.push_back(flow.local.sge(draft.local_offset() + first, length - first));
    }
    if (length != 0) {
        draft.request.lkey = flow.local.key();
        draft.request.must_fail = draft.request.must_fail || !flow.local.has_key();
    }
}

// A fenced request sends the data that an earlier READ fetches.
std::optional<Bytes> pass_on(Draft& draft) {
    Flow& flow = draft.flow;
    const auto read = std::ranges::find_if(flow.posted, [](const Request& other) {
        return other.opcode == PIB_HCA_WQE_RDMA_READ && other.bytes != 0;
    });
    if (!draft.is_fenced || read == flow.posted.end()) {
        return std::nullopt;
    }
    draft.request.bytes = std::min(draft.request.bytes, read->bytes);
    const uint64_t offset = uint64_t{read->counter % Flow::kLocalSlots} * Flow::kSlotBytes;
    draft.wr.sges = {flow.local.sge(offset, draft.request.bytes)};
    draft.request.lkey = draft.request.bytes != 0 ? flow.local.key() : 0;
    draft.request.must_fail = draft.request.lkey != 0 && !flow.local.has_key();
    return flow.local.shadow.after_all(offset, draft.request.bytes);
}

// Gives the request data to send, from memory or inline.
Bytes fill(Draft& draft) {
    if (auto data = pass_on(draft)) {
        return *data;
    }
    Bytes data = random_bytes(draft.choice.b ^ draft.choice.c, draft.request.bytes);
    if (data.size() <= kMaxInline && !data.empty() && draft.choice.c % 8 == 1) {
        draft.wr.inline_data = data;
        return data;
    }
    draft.flow.local.shadow.store(draft.local_offset(), data);
    use_local(draft);
    return data;
}

void expect_local(Draft& draft, Bytes data, bool whole = false) {
    Region& local = draft.flow.local;
    draft.request.local_write = local.has_key()
                                    ? local.shadow.expect(draft.local_offset(), data, whole)
                                    : local.shadow.forbid(draft.local_offset(), data);
}

// A request that the responder has to refuse: with a key of another PD, a key that permits only
// reads, or an address past the memory's end.
void misdirect(Draft& draft) {
    Region& remote = draft.flow.remote;
    const uint32_t which = draft.choice.c / 16 % 3;
    const bool reads = draft.request.opcode == PIB_HCA_WQE_RDMA_READ;
    draft.request.is_refused = draft.request.must_fail = true;
    if (which == 0 || (which == 1 && reads)) {
        draft.wr.rkey = remote.foreign_key();
    } else if (which == 1) {
        draft.wr.rkey = remote.read_only_key();
    } else {
        constexpr uint64_t kEnd = uint64_t{Flow::kSlots} * Flow::kSlotBytes + Flow::kWords * 8;
        const uint64_t inside = draft.request.bytes == 8 ? 0 : draft.request.bytes - 1;
        draft.wr.remote_addr = remote.address(kEnd - inside);
    }
}

void aim(Draft& draft, uint64_t offset) {
    const Target& remote = *draft.request.target;
    draft.wr.remote_addr = remote.address(offset);
    draft.wr.rkey = remote.key();
    if (draft.request.bytes != 0) {
        draft.request.rkey = remote.key();
        draft.request.must_fail = draft.request.must_fail || !remote.has_key();
        if (draft.choice.may_be_refused && draft.choice.b / 4 % 128 == 0 &&
            &remote == &draft.flow.remote) {
            misdirect(draft);
        }
    }
}

void expect_remote(Draft& draft, uint64_t offset, Bytes data, bool whole = false) {
    Target& remote = *draft.request.target;
    const bool may = remote.has_key() && !draft.request.is_refused;
    draft.request.remote_write =
        may ? remote.bytes().expect(offset, data, whole) : remote.bytes().forbid(offset, data);
}

// The first slot from `wanted` on that the request may use: a READ may use any, other requests one
// that no posted READ reads, because a repeated READ may return what a later WRITE has written
// (IBA 9.7.5.1.5).
std::optional<unsigned> find_slot(const Draft& draft, unsigned wanted, bool reads) {
    for (unsigned i = 0; i < Flow::kSlots; ++i) {
        const unsigned slot = (wanted + i) % Flow::kSlots;
        const bool is_read = std::ranges::any_of(draft.flow.posted, [&](const Request& other) {
            return other.slot == slot && other.target == draft.request.target &&
                   other.opcode == PIB_HCA_WQE_RDMA_READ;
        });
        if (reads || !is_read) {
            return slot;
        }
    }
    return std::nullopt;
}

void add_message(Draft& draft, bool is_rdma, bool has_imm, Bytes data) {
    Flow& flow = draft.flow;
    draft.wr.imm = draft.choice.b;
    draft.request.message = flow.messages.size();
    flow.messages.push_back({.is_rdma = is_rdma,
                             .imm = has_imm ? std::optional(draft.choice.b) : std::nullopt,
                             .bytes = draft.request.bytes,
                             .data = std::move(data)});
}

// The n-th message goes to the n-th receive.
void match(Flow& flow, uint64_t number) {
    if (number >= flow.messages.size() || number >= flow.receives.size()) {
        return;
    }
    const Message& message = flow.messages[number];
    Receive& receive = flow.receives[number];
    if (message.is_rdma || message.data.empty()) {
        return;
    }
    const uint64_t offset = number % Flow::kDepth * Flow::kSlotBytes;
    receive.write = flow.inbox.opens(receive.lkey) ? flow.inbox.shadow.expect(offset, message.data)
                                                   : flow.inbox.shadow.forbid(offset, message.data);
}

// ---- drafts by opcode; false: no slot is free

bool draft_send(Draft& draft) {
    draft.request.bytes = random_length(draft.choice.b);
    Bytes data = fill(draft);
    add_message(draft, false, draft.request.opcode == PIB_HCA_WQE_SEND_WITH_IMM, std::move(data));
    return true;
}

// Drafts a SEND with Invalidate of the window; a plain SEND if the window is not bound, or if no
// request may meet an invalid window.
bool draft_invalidation(Draft& draft) {
    Window& window = draft.flow.window;
    if (!draft.choice.may_lack_window || !window.is_bound()) {
        draft.request.opcode = PIB_HCA_WQE_SEND;
        return draft_send(draft);
    }
    draft_send(draft);
    draft.wr.imm = window.key();
    draft.flow.messages.back().invalidates = window.key();
    window.doom();
    return true;
}

bool draft_write(Draft& draft) {
    const auto slot = find_slot(draft, draft.choice.c % Flow::kSlots, false);
    if (!slot) {
        return false;
    }
    draft.request.bytes = random_length(draft.choice.b);
    draft.request.slot = slot;
    const Bytes data = fill(draft);
    const uint64_t offset =
        uint64_t{*slot} * Flow::kSlotBytes +
        draft.choice.c / Flow::kSlots % (Flow::kSlotBytes - draft.request.bytes + 1);
    aim(draft, offset);
    if (!data.empty()) {
        expect_remote(draft, offset, data);
    }
    if (draft.request.opcode == PIB_HCA_WQE_RDMA_WRITE_WITH_IMM) {
        add_message(draft, true, true, {});
    }
    return true;
}

bool draft_read(Draft& draft) {
    const auto slot = find_slot(draft, draft.choice.c % Flow::kSlots, true);
    draft.request.bytes = random_length(draft.choice.b);
    draft.request.slot = slot;
    const uint64_t offset =
        uint64_t{*slot} * Flow::kSlotBytes +
        draft.choice.c / Flow::kSlots % (Flow::kSlotBytes - draft.request.bytes + 1);
    use_local(draft);
    aim(draft, offset);
    if (draft.request.bytes != 0) {
        expect_local(draft, draft.request.target->bytes().after_all(offset, draft.request.bytes));
    }
    return true;
}

uint64_t word_offset(const Draft& draft) {
    return uint64_t{Flow::kSlots} * Flow::kSlotBytes + draft.choice.c / 8 % Flow::kWords * 8;
}

bool draft_atomic(Draft& draft) {
    draft.request.bytes = 8;
    const uint64_t offset = word_offset(draft);
    const Bytes before = draft.request.target->bytes().after_all(offset, 8);
    uint64_t old = 0;
    std::memcpy(&old, before.data(), 8);
    const uint64_t operand = draft.choice.b * 0x100000001ull;
    uint64_t now = old + operand;
    draft.wr.swap_or_add = operand;
    if (draft.request.opcode == PIB_HCA_WQE_CMP_SWAP) {
        const bool equal = draft.choice.a % 4 != 0;
        draft.wr.compare = equal ? old : ~old;
        now = equal ? operand : old;
    }
    draft.wr.sges = {draft.flow.local.sge(draft.local_offset(), 8)};
    draft.request.lkey = draft.flow.local.key();
    draft.request.must_fail = !draft.flow.local.has_key();
    aim(draft, offset);
    expect_remote(draft, offset, bytes_of(now), true);
    expect_local(draft, before);
    return true;
}

bool draft_atomic_write(Draft& draft) {
    draft.request.bytes = 8;
    const uint64_t offset = word_offset(draft);
    const Bytes data = random_bytes(draft.choice.b, 8);
    draft.flow.local.shadow.store(draft.local_offset(), data);
    draft.wr.sges = {draft.flow.local.sge(draft.local_offset(), 8)};
    draft.request.lkey = draft.flow.local.key();
    draft.request.must_fail = !draft.flow.local.has_key();
    aim(draft, offset);
    expect_remote(draft, offset, data, true);
    return true;
}

struct Kind {
    pib_hca_wqe_opcode opcode;
    bool (*draft)(Draft&);
};
constexpr Kind kKinds[] = {
    {PIB_HCA_WQE_SEND, draft_send},
    {PIB_HCA_WQE_SEND_WITH_IMM, draft_send},
    {PIB_HCA_WQE_RDMA_WRITE, draft_write},
    {PIB_HCA_WQE_RDMA_WRITE, draft_write},
    {PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, draft_write},
    {PIB_HCA_WQE_RDMA_READ, draft_read},
    {PIB_HCA_WQE_FETCH_ADD, draft_atomic},
    {PIB_HCA_WQE_CMP_SWAP, draft_atomic},
    {PIB_HCA_WQE_ATOMIC_WRITE, draft_atomic_write},
    {PIB_HCA_WQE_SEND_WITH_INV, draft_invalidation},
};

}  // namespace

bool post_send(Flow& flow, const Choice& choice) {
    if (flow.posted.size() >= kInFlight) {
        return false;
    }
    const Kind& kind = kKinds[choice.a / 64 % std::size(kKinds)];
    const uint32_t counter = flow.from.qp.sq_producer;
    // At least every fourth request is signalled, because completions show which places are free.
    const bool is_fenced = choice.a / 2 % 4 == 0;
    Draft draft{.flow = flow,
                .choice = choice,
                .request = {.opcode = kind.opcode,
                            .is_signalled = choice.a % 2 == 0 || counter % 4 == 3,
                            .counter = counter,
                            .bytes = 0},
                .wr = {},
                .is_fenced = is_fenced};
    // Requests to a window that is not bound fail.
    const bool by_window = choice.a / 8 % 4 == 0 && flow.window.key() != 0 &&
                           (flow.window.is_bound() || choice.may_lack_window);
    draft.request.target = by_window ? static_cast<Target*>(&flow.window) : &flow.remote;
    if (!kind.draft(draft)) {
        return false;
    }
    draft.wr.opcode = static_cast<uint8_t>(draft.request.opcode);
    draft.wr.flags = static_cast<uint8_t>((draft.request.is_signalled ? PIB_HCA_WQE_SIGNALED : 0) |
                                          (is_fenced ? PIB_HCA_WQE_FENCE : 0) |
                                          (choice.a / 16 % 4 == 0 ? PIB_HCA_WQE_SOLICITED : 0));
    flow.posted.push_back(draft.request);
    if (draft.request.message) {
        match(flow, *draft.request.message);
    }
    flow.from.guest->driver.post_send(flow.from.qp, draft.wr, choice.is_quiet);
    return true;
}

bool post_on_window(Flow& flow, bool binds) {
    Flow& owner = *flow.reverse;
    const bool fits = binds ? flow.window.is_unbound() : flow.window.is_bound();
    if (!fits || owner.posted.size() >= kInFlight) {
        return false;
    }
    const SendWr wr = binds ? flow.window.bind() : flow.window.invalidate();
    owner.posted.push_back({.opcode = static_cast<pib_hca_wqe_opcode>(wr.opcode),
                            .is_signalled = true,
                            .counter = owner.from.qp.sq_producer,
                            .bytes = 0,
                            .binds = binds ? &flow.window : nullptr,
                            .closes = binds ? nullptr : &flow.window});
    owner.from.guest->driver.post_send(owner.from.qp, wr);
    return true;
}

void post_receives(Flow& flow, uint64_t count) {
    for (; count != 0 && flow.receives.size() - flow.received < Flow::kDepth; --count) {
        const uint64_t number = flow.receives.size();
        const uint64_t offset = number % Flow::kDepth * Flow::kSlotBytes;
        flow.receives.push_back({.lkey = flow.inbox.key()});
        match(flow, number);
        const std::array<pib_hca_sge, 2> sges = {
            flow.inbox.sge(offset, 100), flow.inbox.sge(offset + 100, Flow::kSlotBytes - 100)};
        flow.to.guest->driver.post_recv(flow.to.qp, sges);
    }
}

void store(Flow& flow, const Choice& choice) {
    const unsigned slot = choice.b % Flow::kSlots;
    const auto is_there = [&](const Request& other) {
        return other.slot == slot && other.target == &flow.remote;
    };
    if (std::ranges::none_of(flow.posted, is_there)) {
        flow.remote.shadow.store(uint64_t{slot} * Flow::kSlotBytes,
                                 random_bytes(choice.c, Flow::kSlotBytes));
    }
}

}  // namespace pib::simulation
