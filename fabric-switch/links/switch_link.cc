// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/switch_link.h"

namespace pib::fabric {

SwitchLink::SwitchLink(Admission& admission, LinkOwner& owner)
    : owner_(owner),
      attachment_(admission, owner, *this),
      endpoint_(admission.link_buffers(), attachment_) {}

SwitchLink::SwitchLink(OutgoingLink& outgoing, LinkOwner& owner)
    : owner_(owner),
      attachment_(outgoing, owner, *this),
      endpoint_(outgoing.hello(), outgoing.link_buffers(), attachment_) {}

void SwitchLink::pump() {
    if (LinkUser* port = attachment_.port()) {
        port->pump();
    }
}

std::expected<void, link::LinkFailure> SwitchLink::feed_input(std::size_t bytes) {
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

void SwitchLink::consume_output(std::size_t bytes) {
    endpoint_.consume_output(bytes);
    notified_ = false;
    pump();
    notify();
}

std::expected<bool, link::LinkFailure> SwitchLink::receive(std::size_t bytes) {
    const auto more = endpoint_.receive(bytes);
    if (more) {
        pump();
    }
    notify();
    return more;
}

bool SwitchLink::publish() {
    notified_ = false;
    return endpoint_.channel().publish();
}

void SwitchLink::close() {
    endpoint_.close();
    attachment_.detach();
}

void SwitchLink::notify() {
    if (!notified_ && (!endpoint_.output().empty() || endpoint_.channel().unpublished() != 0 ||
                       endpoint_.channel().wants_room())) {
        notified_ = true;
        owner_.link_output_ready();
    }
}

void SwitchLink::copy(std::uint64_t bytes) {
    Copier* copier = attachment_.copier();
    if (copier != nullptr && copier->step(bytes)) {
        owner_.link_wake();
    }
}

link::BurstRoom SwitchLink::begin(const link::BurstRequest& request) {
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

void SwitchLink::commit(const ib::BurstSize& size, const RamReference* offer) {
    if (offer != nullptr) {
        Copier& copier = *attachment_.copier();
        endpoint_.commit(size, {.handle = *copier.table().next()});
        copier.table().add(*offer);
    } else {
        endpoint_.commit(size);
    }
    notify();
}

bool SwitchLink::can_send(unsigned vl, std::size_t bytes, link::SendCrc crc) const {
    return endpoint_.sender().can_send(vl, bytes, crc);
}

void SwitchLink::release(unsigned vl, std::uint32_t blocks) {
    endpoint_.release(vl, blocks);
    notify();
}

void SwitchLink::set_offer(const ib::link::Link& offer) {
    endpoint_.training().set_offer(offer);
    notify();
}

void SwitchLink::retrain() {
    endpoint_.training().retrain();
    notify();
}

}  // namespace pib::fabric
