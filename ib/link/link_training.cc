// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/link_training.h"

namespace pib::link {
namespace {

bool same_offer(const ib::link::Link& a, ib::link::Link b) {
    b.epoch = a.epoch;
    return a == b;
}

}  // namespace

void LinkTraining::open() {
    if (phase_ == Phase::kHandshake) {  // a handler may have called close()
        phase_ = Phase::kOpen;
        send_offer();
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
    if (!is_open() || offer_unsent_ || !peer_ || active_) {
        return;
    }
    active_ = ib::link::negotiate(offer_, *peer_);
    if (active_) {
        events_.link_up(*active_);
    }
}

void LinkTraining::set_offer(const ib::link::Link& offer) {
    if (same_offer(offer_, offer)) {
        return;
    }
    const auto epoch = offer_.epoch;
    offer_ = offer;
    offer_.epoch = epoch;
    retrain();
}

void LinkTraining::retrain() {
    if (is_open()) {
        take_down();
        send_offer();
    }
}

void LinkTraining::send_offer() {
    auto next = offer_;
    ++next.epoch;
    offer_unsent_ = !channel_.send(next);
    if (offer_unsent_) {
        return;
    }
    offer_.epoch = next.epoch;
    credits_.restart_sending(next.epoch);
    bring_up();
}

LinkResult LinkTraining::receive(const ib::link::Frame& frame) {
    const auto link = ib::link::Link::parse(frame.body);
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
    if (offer_unsent_) {
        send_offer();
    }
    credits_.send_unsent();
}

}  // namespace pib::link
