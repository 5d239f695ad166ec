// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/switch_endpoint.h"

namespace pib::fabric {

SwitchEndpoint::SwitchEndpoint(Admission& admission, LinkOwner& owner)
    : owner_(owner),
      attachment_(admission, owner, *this),
      endpoint_(admission.link_buffers(), attachment_) {}

SwitchEndpoint::SwitchEndpoint(OutgoingLink& outgoing, LinkOwner& owner)
    : owner_(owner),
      attachment_(outgoing, owner, *this),
      endpoint_(outgoing.hello(), outgoing.link_buffers(), attachment_) {}

void SwitchEndpoint::pump() {
    if (LinkUser* port = attachment_.port()) {
        port->pump();
    }
}

std::expected<void, link::LinkFailure> SwitchEndpoint::feed_input(std::size_t bytes) {
    const auto fed = endpoint_.feed_input(bytes);
    if (fed) {
        pump();  // the received frames may have been credits
    }
    notify();
    if (fed && !attachment_.unwelcome().empty()) {
        return std::unexpected(
            link::LinkFailure{link::LinkError::kRefused, attachment_.unwelcome()});
    }
    return fed;
}

void SwitchEndpoint::consume_output(std::size_t bytes) {
    endpoint_.consume_output(bytes);
    notified_ = false;
    pump();
    notify();
}

std::expected<bool, link::LinkFailure> SwitchEndpoint::receive(std::size_t bytes) {
    const auto more = endpoint_.receive(bytes);
    if (more) {
        pump();
    }
    notify();
    return more;
}

bool SwitchEndpoint::publish() {
    notified_ = false;
    return endpoint_.channel().publish();
}

void SwitchEndpoint::close() {
    endpoint_.close();
    attachment_.detach();
}

void SwitchEndpoint::notify() {
    if (!notified_ && (!endpoint_.output().empty() || endpoint_.channel().unpublished() != 0 ||
                       endpoint_.channel().wants_room())) {
        notified_ = true;
        owner_.link_output_ready();
    }
}

void SwitchEndpoint::copy(std::uint64_t bytes) {
    Copier* copier = attachment_.copier();
    if (copier != nullptr && copier->step(bytes)) {
        owner_.link_wake();
    }
}

link::BurstRoom SwitchEndpoint::begin(const link::BurstRequest& request) {
    if (request.is_offer) {
        Copier* copier = attachment_.copier();
        if (copier == nullptr || !copier->memory() || !copier->table().next()) {
            return {};
        }
    }
    const auto room = endpoint_.begin(request);
    if (room.packets == 0) {
        // The ring may have been full before this turn, and no sender has found it full since.
        notify();
    }
    return room;
}

void SwitchEndpoint::commit(const ib::BurstSize& size, const OfferRecord* offer) {
    if (offer != nullptr) {
        Copier& copier = *attachment_.copier();
        endpoint_.commit(size, {.handle = *copier.table().next()});
        copier.table().add(*offer);
    } else {
        endpoint_.commit(size);
    }
    notify();
}

bool SwitchEndpoint::can_send(unsigned vl, std::size_t bytes, link::SendCrc crc) const {
    return endpoint_.sender().can_send(vl, bytes, crc);
}

void SwitchEndpoint::release(unsigned vl, std::uint32_t blocks) {
    endpoint_.release(vl, blocks);
    notify();
}

void SwitchEndpoint::set_parameters(const link::Link& parameters) {
    endpoint_.training().set_parameters(parameters);
    notify();
}

void SwitchEndpoint::retrain() {
    endpoint_.training().retrain();
    notify();
}

}  // namespace pib::fabric
