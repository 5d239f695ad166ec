// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/link_training.h"

namespace pib::link {
namespace {

bool same_parameters(const link::Link& a, link::Link b) {
    b.epoch = a.epoch;
    return a == b;
}

}  // namespace

void LinkTraining::open() {
    if (phase_ == Phase::kHandshake) {  // a handler may have called close()
        phase_ = Phase::kOpen;
        send_parameters();
    }
}

void LinkTraining::close() {
    phase_ = Phase::kClosed;
    credits_.stop();
    take_down();
}

void LinkTraining::take_down() {
    if (active_) {
        active_.reset();
        events_.link_down();
    }
}

void LinkTraining::bring_up() {
    if (!is_open() || parameters_unsent_ || !peer_ || active_) {
        return;
    }
    active_ = link::negotiate(parameters_, *peer_);
    if (active_) {
        events_.link_up(*active_);
    }
}

void LinkTraining::set_parameters(const link::Link& parameters) {
    if (same_parameters(parameters_, parameters)) {
        return;
    }
    const auto epoch = parameters_.epoch;
    parameters_ = parameters;
    parameters_.epoch = epoch;
    retrain();
}

void LinkTraining::retrain() {
    if (is_open()) {
        take_down();
        send_parameters();
    }
}

void LinkTraining::send_parameters() {
    auto next = parameters_;
    ++next.epoch;
    parameters_unsent_ = !channel_.send(next);
    if (parameters_unsent_) {
        return;
    }
    parameters_.epoch = next.epoch;
    credits_.restart_sending(next.epoch);
    bring_up();
}

LinkResult LinkTraining::receive(const link::Frame& frame) {
    const auto link = link::Link::parse(frame.body);
    if (!link) {
        return failure(LinkError::kMalformedFrame, to_string(link.error()));
    }
    if (peer_ && peer_->epoch == link->epoch) {
        return failure(LinkError::kMalformedFrame, "LINK without a new epoch");
    }
    take_down();
    if (!is_open()) {  // a handler has closed the link
        return {};
    }
    peer_ = *link;
    credits_.restart_receiving(link->epoch);
    bring_up();
    return {};
}

void LinkTraining::send_unsent() {
    if (!is_open()) {
        return;
    }
    if (parameters_unsent_) {
        send_parameters();
    }
    credits_.send_unsent();
}

}  // namespace pib::link
