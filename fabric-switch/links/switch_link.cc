// SPDX-License-Identifier: GPL-2.0-or-later
// Connects a link endpoint with a switch port.
#include "links/switch_link.h"

#include <algorithm>

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
        place_.port->pump();  // the received frames may have been credits
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
    return endpoint_.channel().publish();
}

void SwitchLink::close() {
    endpoint_.close();
    if (copier_) {
        copier_->give_up();
    }
    if (place_.port != nullptr) {
        place_.port->detach();
        place_ = {};
    }
}

void SwitchLink::notify() {
    if (!notified_ && (!endpoint_.output().empty() || endpoint_.channel().unpublished() != 0 ||
                       endpoint_.channel().wants_room())) {
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
    return ib::link::Welcome{.version_minor = ib::link::kVersionMinor,
                             .features = rings_ ? shared_features(hello) : 0,
                             .switch_guid = place_.node_guid,
                             .port_number = place_.number};
}

// Only adapters share memory, and only runs use it.
std::uint32_t SwitchLink::shared_features(const ib::link::Hello& hello) const {
    std::uint32_t common = hello.features & admission_->link_features();
    if (hello.role != ib::link::Role::kChannelAdapter || (common & ib::link::kFeatureRuns) == 0) {
        common &= ~ib::link::kFeatureOneCopy;
    }
    return common | ib::link::kFeatureSharedMemory;
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

// ---- one copy

std::expected<std::span<std::uint8_t>, std::string> SwitchLink::link_memory(
    const ib::link::Memory& memory) {
    auto mapped = owner_.link_map(memory);
    if (!mapped) {
        return std::unexpected(mapped.error());
    }
    if (*mapped == nullptr) {
        return std::span<std::uint8_t>{};
    }
    copier_ = std::make_unique<Copier>(std::move(*mapped));
    copier_->memory()->control().mapped.store(link::kMapped, std::memory_order_release);
    owner_.link_wake();  // the port may have packets to send
    owner_.link_note(place_.name + ": one copy");
    return copier_->room();
}

std::uint32_t SwitchLink::link_burst(ib::Burst& burst, ib::Placement& payload) {
    if (!payload.is_offered()) [[likely]] {
        return place_.port->receive(burst, nullptr);
    }
    const ib::link::Reference& to = *payload.offer;
    const RamReference offer{copier_->memory(), to.handle, to.bytes, to.pieces};
    const std::uint32_t taken = place_.port->receive(burst, &offer);
    ++(taken != 0 ? copier_->counts().forwarded : copier_->counts().taken_apart);
    return taken;
}

bool SwitchLink::link_dereference(const ib::link::Reference& from, std::span<std::uint8_t> to) {
    const bool read = read_reference(*copier_->memory(), from.handle, from.pieces, to);
    copier_->counts().lost += read ? 0 : 1;
    return read;
}

void SwitchLink::copy(std::uint64_t bytes) {
    if (copier_ && copier_->step(bytes)) {
        owner_.link_wake();
    }
}

link::BurstRoom SwitchLink::begin(const link::BurstRequest& request) {
    if (request.is_offer && !(copier_ && copier_->memory() && copier_->table().next())) {
        return {};
    }
    const auto room = endpoint_.begin(request);
    if (room.packets == 0) {
        notify();  // the ring may have been full before this turn, and no sender waits for room yet
    }
    return room;
}

void SwitchLink::commit(const ib::BurstSize& size, const RamReference* offer) {
    if (offer != nullptr) {
        endpoint_.commit(size, {.handle = *copier_->table().next()});
        copier_->table().add(*offer);
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
