// SPDX-License-Identifier: GPL-2.0-or-later
#include "ledger.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "violation.h"

namespace pib::simulation {

Ledger::Ledger(uint32_t sender, Delivery delivery, std::string name)
    : sender_(sender), delivery_(delivery), name_(std::move(name)) {}

uint32_t Ledger::sender_of(const Bytes& data) {
    require(data.size() >= kLeastBytes, "a message has too few bytes");
    uint32_t sender = 0;
    std::memcpy(&sender, data.data(), sizeof sender);
    return sender;
}

// The numbers of sender and message, and bytes that follow from them.
Bytes Ledger::content(uint32_t number) const {
    Bytes data = random_bytes(uint64_t{sender_} << 32 | number, sent_[number].bytes);
    std::memcpy(&data[0], &sender_, sizeof sender_);
    std::memcpy(&data[4], &number, sizeof number);
    return data;
}

Bytes Ledger::add(Sent sent, uint32_t counter, bool is_signalled) {
    const auto number = static_cast<uint32_t>(sent_.size());
    sent.epoch = epoch_;
    sent_.push_back(sent);
    requests_.push_back({.counter = counter, .number = number, .is_signalled = is_signalled});
    return content(number);
}

void Ledger::succeed(const Request& request) {
    acknowledged_ = request.number + 1;
}

void Ledger::fail(const Request& request, uint8_t status, const SendCauses& causes) {
    const auto text = [&] {
        return name_ + ", request " + std::to_string(request.counter) + " completes with status " +
               std::to_string(status);
    };
    const bool has_cause = (status == PIB_HCA_WC_WR_FLUSH_ERR && (causes.flushes || has_failed_)) ||
                           (status == PIB_HCA_WC_RETRY_EXC_ERR && causes.gives_up && !has_failed_ &&
                            delivery_ == Delivery::kReliable);
    require(has_cause, text, " without a cause");
    has_failed_ = true;
}

void Ledger::completed(const pib_hca_cqe& cqe, const SendCauses& causes) {
    const auto text = [&] {
        return name_ + ", send completion " + std::to_string(cqe.wqe_counter);
    };
    // Earlier requests are complete as well, and none of them was signalled.
    while (!requests_.empty() && requests_.front().counter != cqe.wqe_counter) {
        require(!requests_.front().is_signalled && !has_failed_, text, " is out of order");
        succeed(requests_.front());
        requests_.pop_front();
    }
    require(!requests_.empty(), text, ": there is no such request");
    const Request request = requests_.front();
    requests_.pop_front();
    if (cqe.status != PIB_HCA_WC_SUCCESS) {
        fail(request, cqe.status, causes);
        return;
    }
    require(request.is_signalled && !has_failed_, text, " must not come");
    require(cqe.opcode == PIB_HCA_CQE_SEND, text, " has another opcode");
    succeed(request);
}

void Ledger::rest_completed() {
    for (; !requests_.empty(); requests_.pop_front()) {
        require(!requests_.front().is_signalled && !has_failed_, name_,
                ": a request does not complete");
        succeed(requests_.front());
    }
}

void Ledger::received(const Bytes& data, const pib_hca_cqe& cqe, unsigned guest, bool is_late) {
    uint32_t number = 0;
    std::memcpy(&number, &data[4], sizeof number);
    const auto text = [&] {
        return name_ + ", message " + std::to_string(number) + " at guest " + std::to_string(guest);
    };
    require(number < sent_.size(), text, " has not been sent");
    const Sent& sent = sent_[number];
    require(data == content(number), text, " has other bytes");
    require(sent.to.value_or(guest) == guest, text, " was for another guest");
    const bool has_imm = (cqe.flags & PIB_HCA_CQE_FLAG_IMM) != 0;
    require(has_imm == sent.imm.has_value() && (!has_imm || cqe.imm_data == *sent.imm), text,
            " has other immediate data");
    require(cqe.opcode == PIB_HCA_CQE_RECV, text, " has another opcode");
    require(((cqe.flags & PIB_HCA_CQE_FLAG_GRH) != 0) == !sent.to, text,
            " has a GRH although it was for one guest, or none although it was for all");
    if (sent.epoch == epoch_) {
        check_order(number, sent, guest);
    } else {
        require(is_late, text, " comes from a QP that has been destroyed");
    }
}

void Ledger::check_order(uint32_t number, const Sent& sent, unsigned guest) {
    const auto text = [&] { return name_ + ", message " + std::to_string(number); };
    if (delivery_ == Delivery::kReliable) {
        require(number == next_, text, " is lost, repeated or out of order");
        ++next_;
    } else if (!is_scrambled) {
        uint32_t& next = next_at_[guest][sent.to ? 0 : 1];
        require(number >= next, text, " is repeated or out of order");
        next = number + 1;
    }
}

void Ledger::check_delivery() const {
    require(delivery_ != Delivery::kReliable || acknowledged_ <= next_, name_,
            ": a message has been acknowledged that was not received");
}

void Ledger::restart() {
    ++epoch_;
    requests_.clear();
    has_failed_ = false;
    next_ = acknowledged_ = static_cast<uint32_t>(sent_.size());
}

bool Ledger::awaits_completion() const {
    return std::ranges::any_of(requests_, &Request::is_signalled);
}

}  // namespace pib::simulation
