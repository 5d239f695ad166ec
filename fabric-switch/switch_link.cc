// SPDX-License-Identifier: GPL-2.0-or-later
// Between a link endpoint and a switch port.
#include "switch_link.h"

namespace pib::fabric {

SwitchLink::SwitchLink(Admission& admission, Owner& owner)
    : admission_(&admission), owner_(owner), endpoint_(admission.link_buffers(), *this) {}

SwitchLink::SwitchLink(Outgoing& outgoing, Owner& owner)
    : outgoing_(&outgoing),
      owner_(owner),
      endpoint_(outgoing.hello(), outgoing.link_buffers(), *this) {}

std::expected<void, link::LinkFailure> SwitchLink::feed_input(std::size_t bytes) {
    const auto fed = endpoint_.feed_input(bytes);
    if (fed && place_.port != nullptr) {
        place_.port->pump();  // what came in may have been credits
    }
    notify();
    if (fed && !unwelcome_.empty()) {
        return std::unexpected(link::LinkFailure{link::LinkError::kRefused, unwelcome_});
    }
    return fed;
}

void SwitchLink::consume_output(std::size_t bytes) {
    endpoint_.consume_output(bytes);
    notified_ = false;
    if (place_.port != nullptr) {
        place_.port->pump();
    }
    notify();
}

std::expected<bool, link::LinkFailure> SwitchLink::receive(std::size_t bytes) {
    const auto more = endpoint_.receive(bytes);
    if (more && place_.port != nullptr) {
        place_.port->pump();
    }
    notify();
    return more;
}

bool SwitchLink::publish() {
    notified_ = false;
    return endpoint_.publish();
}

void SwitchLink::close() {
    endpoint_.close();
    if (place_.port != nullptr) {
        place_.port->detach();
        place_ = {};
    }
}

void SwitchLink::notify() {
    if (!notified_ && (!endpoint_.output().empty() || endpoint_.unpublished() != 0)) {
        notified_ = true;
        owner_.link_output_ready();
    }
}

link::HelloAnswer SwitchLink::link_hello(const ib::link::Hello& hello) {
    const auto place = admission_->admit(hello);
    if (!place) {
        return std::unexpected(place.error());
    }
    place_ = *place;
    place_.port->attach(*this);
    if ((hello.features & ib::link::kFeatureSharedMemory) != 0) {
        rings_ = owner_.link_share();
    }
    owner_.link_note(place_.name + ": " + hello.node_description + " connected" +
                     (rings_ ? ", shared memory" : ""));
    const std::uint32_t runs = hello.features & admission_->link_features();
    return ib::link::Welcome{.version_minor = ib::link::kVersionMinor,
                             .features = rings_ ? ib::link::kFeatureSharedMemory | runs : 0,
                             .switch_guid = place_.node_guid,
                             .port_number = place_.number};
}

// Without a port nothing is offered, so that the link cannot come up before it is closed.
void SwitchLink::link_welcome(const ib::link::Welcome& welcome) {
    const auto place = outgoing_->welcomed(welcome);
    if (!place) {
        unwelcome_ = place.error();
        return;
    }
    place_ = *place;
    place_.port->attach(*this);
    owner_.link_note(place_.name + ": connected");
}

void SwitchLink::link_up(const link::ActiveLink& active) {
    place_.port->link_up(active);
    owner_.link_note(place_.name + ": link up");
}

void SwitchLink::link_down() {
    place_.port->link_down();
    owner_.link_note(place_.name + ": link down");
}

std::span<std::uint8_t> SwitchLink::begin_packet(unsigned vl, std::size_t bytes,
                                                 link::SendCrc crc) {
    return endpoint_.begin_packet(vl, bytes, crc);
}

void SwitchLink::commit_packet() {
    endpoint_.commit_packet();
    notify();
}

bool SwitchLink::can_send(unsigned vl, std::size_t bytes, link::SendCrc crc) const {
    return endpoint_.can_send(vl, bytes, crc);
}

void SwitchLink::release(unsigned vl, std::uint32_t blocks) {
    endpoint_.release(vl, blocks);
    notify();
}

void SwitchLink::set_offer(const ib::link::Link& offer) {
    endpoint_.set_offer(offer);
    notify();
}

void SwitchLink::retrain() {
    endpoint_.retrain();
    notify();
}

}  // namespace pib::fabric
