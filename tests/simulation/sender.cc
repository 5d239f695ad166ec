// SPDX-License-Identifier: GPL-2.0-or-later
#include "sender.h"

#include <utility>

#include "violation.h"

namespace pib::simulation {
namespace {

constexpr uint8_t kLogCq = 6;  // room for four times the completions of the QP
constexpr size_t kMostInline = 64;

}  // namespace

Sender::Sender(uint32_t number, Delivery delivery, std::string name)
    : ledger(number, delivery, std::move(name)) {}

void Sender::create(const Owner& owner, pib_hca_qp_type type) {
    owner_ = owner;
    hca::test::MiniDriver& driver = owner.guest->driver;
    cq_ = driver.create_cq(owner.eqn, kLogCq);
    hca::test::QpShape shape;
    shape.type = type;
    shape.pd = owner.pd;
    shape.send_cq = cq_.cqn;
    shape.recv_cq = type == PIB_HCA_QP_XRC_INI ? 0 : cq_.cqn;
    shape.flags = PIB_HCA_QP_NO_RQ;
    shape.log_sq_depth = kLogDepth;
    qp_ = driver.create_qp(shape);
    mr_ = driver.create_mr(owner.pd, kMemoryBytes, PIB_HCA_ACCESS_LOCAL_WRITE);
    is_killed = is_lost = peer_is_gone = had_outage = false;
}

void Sender::destroy() {
    if (!is_lost) {
        hca::test::MiniDriver& driver = owner_.guest->driver;
        driver.destroy(PIB_HCA_CMD_DESTROY_QP, qp_.qpn);
        driver.destroy(PIB_HCA_CMD_DESTROY_CQ, cq_.cqn);
        driver.destroy(PIB_HCA_CMD_DESTROY_MR, mr_.key);
    }
    is_lost = true;
    ledger.restart();
}

void Sender::kill() {
    if (is_lost) {
        return;
    }
    is_killed = true;
    move_to_error(*owner_.guest, qp_, ledger.name());
}

void Sender::post(const Sent& sent, const Choice& choice, hca::test::SendWr wr) {
    const uint32_t counter = qp_.sq_producer;
    // At least every fourth request is signalled, because completions show which places are free.
    const bool is_signalled = choice.a % 2 == 0 || counter % 4 == 3;
    const Bytes data = ledger.add(sent, counter, is_signalled);
    const uint64_t offset = uint64_t{counter % (1u << kLogDepth)} * 4096;
    wr.opcode = sent.imm ? PIB_HCA_WQE_SEND_WITH_IMM : PIB_HCA_WQE_SEND;
    wr.imm = sent.imm.value_or(0);
    wr.flags = static_cast<uint8_t>((is_signalled ? PIB_HCA_WQE_SIGNALED : 0) |
                                    (choice.a / 2 % 4 == 0 ? PIB_HCA_WQE_SOLICITED : 0));
    if (data.size() <= kMostInline && choice.a / 8 % 2 == 0) {
        wr.inline_data = data;
    } else {
        const auto length = static_cast<uint32_t>(data.size());
        const uint32_t first = choice.a / 16 % 4 == 0 ? length / 3 : length;
        mr_.memory.write(offset, data);
        wr.sges = {hca::test::MiniDriver::sge(mr_, offset, first)};
        if (first != length) {
            wr.sges.push_back(hca::test::MiniDriver::sge(mr_, offset + first, length - first));
        }
    }
    owner_.guest->driver.post_send(qp_, wr);
}

Connection::Completions Sender::poll() {
    Connection::Completions completions;
    while (!is_lost) {
        const auto cqe = owner_.guest->driver.poll(cq_);
        if (!cqe) {
            break;
        }
        ++completions.all;
        completions.errors += cqe->status != PIB_HCA_WC_SUCCESS ? 1 : 0;
        require(cqe->qpn == qp_.qpn, ledger.name(), ": a completion of another QP");
        ledger.completed(*cqe, {.flushes = is_killed, .gives_up = peer_is_gone || had_outage});
    }
    return completions;
}

}  // namespace pib::simulation
