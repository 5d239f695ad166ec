// SPDX-License-Identifier: GPL-2.0-or-later
#include "completions.h"

#include <array>

#include "violation.h"

namespace pib::simulation {
namespace {

struct Meaning {
    pib_hca_wqe_opcode opcode;
    uint8_t completion;
};
constexpr Meaning kMeanings[] = {
    {PIB_HCA_WQE_SEND, PIB_HCA_CQE_SEND},
    {PIB_HCA_WQE_SEND_WITH_IMM, PIB_HCA_CQE_SEND},
    {PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_CQE_RDMA_WRITE},
    {PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, PIB_HCA_CQE_RDMA_WRITE},
    {PIB_HCA_WQE_RDMA_READ, PIB_HCA_CQE_RDMA_READ},
    {PIB_HCA_WQE_FETCH_ADD, PIB_HCA_CQE_FETCH_ADD},
    {PIB_HCA_WQE_CMP_SWAP, PIB_HCA_CQE_CMP_SWAP},
    {PIB_HCA_WQE_ATOMIC_WRITE, PIB_HCA_CQE_ATOMIC_WRITE},
    {PIB_HCA_WQE_SEND_WITH_INV, PIB_HCA_CQE_SEND},
    {PIB_HCA_WQE_BIND_MW, PIB_HCA_CQE_BIND_MW},
    {PIB_HCA_WQE_LOCAL_INV, PIB_HCA_CQE_LOCAL_INV},
};

uint8_t completion_of(pib_hca_wqe_opcode opcode) {
    for (const Meaning& meaning : kMeanings) {
        if (meaning.opcode == opcode) {
            return meaning.completion;
        }
    }
    throw Violation("no completion is known for opcode " + std::to_string(opcode));
}

std::string describe(const Flow& flow, const Request& request) {
    return flow.name + ", request " + std::to_string(request.counter) + " (opcode " +
           std::to_string(request.opcode) + ", " + std::to_string(request.bytes) + " bytes)";
}

bool has_dead_receive(const Flow& flow, const Request& request) {
    return request.message && *request.message < flow.receives.size() &&
           !flow.inbox.opens(flow.receives[*request.message].lkey);
}

// Whether there is a cause for the first error of a send queue.
bool has_cause(const Flow& flow, const Request& request, uint8_t status) {
    switch (status) {
        case PIB_HCA_WC_LOC_PROT_ERR:
            return request.lkey != 0 && !flow.local.opens(request.lkey);
        case PIB_HCA_WC_REM_ACCESS_ERR:
            return request.is_refused ||
                   (request.rkey != 0 && !request.target->opens(request.rkey));
        case PIB_HCA_WC_REM_OP_ERR:
            return has_dead_receive(flow, request);
        case PIB_HCA_WC_RETRY_EXC_ERR:
            return flow.had_outage || flow.responder_may_fail();
        case PIB_HCA_WC_WR_FLUSH_ERR:
            return flow.requester_may_fail();
        default:
            return false;
    }
}

void succeed(Flow& flow, const Request& request) {
    if (flow.is_lossy && request.rkey != 0) {
        flow.late_rkeys.insert(request.rkey);
    }
    const auto text = [&] { return describe(flow, request); };
    require(!request.must_fail, text, " succeeds without a key");
    if (request.remote_write) {
        request.target->bytes().finish(*request.remote_write);
    }
    if (request.local_write) {
        flow.local.shadow.finish(*request.local_write);
    }
    if (request.message) {
        require(*request.message == flow.acknowledged, text, " is out of order");
        ++flow.acknowledged;
    }
    if (request.binds != nullptr) {
        request.binds->bound();
    }
    if (request.closes != nullptr) {
        request.closes->closed();
    }
}

void fail(Flow& flow, const Request& request, uint8_t status) {
    const auto text = [&] {
        return describe(flow, request) + " completes with status " + std::to_string(status);
    };
    flow.was_refused = flow.may_be_refused();
    if (request.rkey != 0) {
        flow.late_rkeys.insert(request.rkey);
    }
    for (Window* window : {request.binds, request.closes}) {
        if (window != nullptr) {
            window->broken();
        }
    }
    if (flow.has_failed) {
        require(status == PIB_HCA_WC_WR_FLUSH_ERR, text, " after a failed one");
        return;
    }
    require(has_cause(flow, request, status), text, " without a cause");
    flow.has_failed = true;
}

void check_message(const Flow& flow, const Message& message, const pib_hca_cqe& cqe) {
    const auto text = [&] { return flow.name + ", receive " + std::to_string(cqe.wqe_counter); };
    const bool has_imm = (cqe.flags & PIB_HCA_CQE_FLAG_IMM) != 0;
    require(
        cqe.opcode == (message.is_rdma ? PIB_HCA_CQE_RECV_RDMA_WITH_IMM : PIB_HCA_CQE_RECV),
        [&] { return text() + " has opcode " + std::to_string(cqe.opcode); }, "");
    const auto length = [&] {
        return text() + " has " + std::to_string(cqe.byte_count) + " bytes of " +
               std::to_string(message.bytes);
    };
    require(cqe.byte_count == message.bytes, length, "");
    require(has_imm == message.imm.has_value(), text, " has immediate data, or has none");
    require(!has_imm || cqe.imm_data == *message.imm, text, " has other immediate data");
    const bool invalidates = (cqe.flags & PIB_HCA_CQE_FLAG_INVALIDATED) != 0;
    require(invalidates == message.invalidates.has_value() &&
                (!invalidates || cqe.imm_data == *message.invalidates),
            text, " does not name the key that was invalidated");
}

}  // namespace

void send_completed(Flow& flow, const pib_hca_cqe& cqe) {
    const auto text = [&] {
        return flow.name + ", send completion " + std::to_string(cqe.wqe_counter);
    };
    // Earlier requests are complete as well, and none of them was signalled.
    while (!flow.posted.empty() && flow.posted.front().counter != cqe.wqe_counter) {
        require(!flow.posted.front().is_signalled && !flow.has_failed, text, " is out of order");
        succeed(flow, flow.posted.front());
        flow.posted.pop_front();
    }
    require(!flow.posted.empty(), text, ": there is no such request");
    const Request request = flow.posted.front();
    if (cqe.status != PIB_HCA_WC_SUCCESS) {
        fail(flow, request, cqe.status);
        flow.posted.pop_front();
        return;
    }
    flow.posted.pop_front();
    require(request.is_signalled && !flow.has_failed, text, " must not come");
    require(cqe.opcode == completion_of(request.opcode), text, " has another opcode");
    const bool has_count = request.local_write.has_value();
    require(!has_count || cqe.byte_count == request.bytes, text, " has another byte count");
    succeed(flow, request);
}

void receive_completed(Flow& flow, const pib_hca_cqe& cqe) {
    const auto text = [&] {
        return flow.name + ", receive completion " + std::to_string(cqe.wqe_counter) +
               " with status " + std::to_string(cqe.status);
    };
    require(flow.received < flow.receives.size(), text, ": there is no such receive");
    require(cqe.wqe_counter == static_cast<uint32_t>(flow.received), text, " is out of order");
    const Receive& receive = flow.receives[flow.received];
    if (cqe.status == PIB_HCA_WC_SUCCESS) {
        require(!flow.is_flushed, text, " after a failed one");
        require(flow.received < flow.messages.size(), text, ": there is no such message");
        check_message(flow, flow.messages[flow.received], cqe);
        if (flow.messages[flow.received].invalidates) {
            flow.window.closed();
        }
        if (receive.write) {
            flow.inbox.shadow.finish(*receive.write);
        }
    } else if (cqe.status == PIB_HCA_WC_LOC_PROT_ERR && !flow.is_flushed) {
        require(!flow.inbox.opens(receive.lkey), text, " without a cause");
    } else {
        require(cqe.status == PIB_HCA_WC_WR_FLUSH_ERR && flow.responder_may_fail(), text,
                " without a cause");
    }
    if (cqe.status != PIB_HCA_WC_SUCCESS) {
        flow.is_flushed = true;
        flow.was_refused = flow.may_be_refused();
    }
    ++flow.received;
}

void rest_completed(Flow& flow) {
    for (; !flow.posted.empty(); flow.posted.pop_front()) {
        require(
            !flow.posted.front().is_signalled && !flow.has_failed,
            [&] { return describe(flow, flow.posted.front()); }, " does not complete");
        succeed(flow, flow.posted.front());
    }
    const bool is_flushed = flow.to.is_killed || flow.is_flushed || flow.reverse->has_failed;
    require(flow.to.is_lost || !is_flushed || flow.received == flow.receives.size(), flow.name,
            ": a receive of a QP in Error does not complete");
}

void check_delivery(const Flow& flow) {
    require(flow.to.is_lost || flow.acknowledged <= flow.received, flow.name,
            ": a message has been acknowledged that was not received");
}

}  // namespace pib::simulation
