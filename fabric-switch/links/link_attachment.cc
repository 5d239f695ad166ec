// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/link_attachment.h"

#include <utility>

namespace pib::fabric {

const Peer& LinkOwner::link_peer() const {
    static const Peer kUnknown;
    return kUnknown;
}

void LinkAttachment::detach() {
    if (copier_) {
        copier_->give_up();
    }
    if (place_.port != nullptr) {
        place_.port->detach();
        place_ = {};
    }
}

link::HelloAnswer LinkAttachment::link_hello(const link::Hello& hello) {
    const Peer& peer = owner_.link_peer();
    if (auto refusal = peer.objection(hello)) {
        return std::unexpected(std::move(*refusal));
    }
    const auto place = admission_->admit(hello, peer);
    if (!place) {
        return std::unexpected(place.error());
    }
    place_ = *place;
    accepted_ = true;
    place_.port->attach(link_);
    if ((hello.features & link::kFeatureSharedMemory) != 0) {
        rings_ = owner_.link_share();
    }
    owner_.link_note(place_.name + ": " + hello.node_description + " connected" +
                     (rings_ ? ", shared memory" : "") +
                     (peer.name.empty() ? "" : ", " + peer.name));
    return link::Welcome{.version_minor = link::kVersionMinor,
                         .features = rings_ ? shared_features(hello) : 0,
                         .switch_guid = place_.node_guid,
                         .port_number = place_.number};
}

// Peer copy needs a channel adapter as the peer, and bursts.
uint32_t LinkAttachment::shared_features(const link::Hello& hello) const {
    uint32_t common = hello.features & admission_->link_features();
    if (hello.role != link::Role::kChannelAdapter || (common & link::kFeatureBursts) == 0) {
        common &= ~link::kFeaturePeerCopy;
    }
    return common | link::kFeatureSharedMemory;
}

// After an objection the link has no port and offers no parameters, so that it cannot come up
// before it is closed.
void LinkAttachment::link_welcome(const link::Welcome& welcome) {
    if (const auto objection = owner_.link_peer().objection(welcome.switch_guid)) {
        unwelcome_ = *objection;
        return;
    }
    const auto place = outgoing_->welcomed(welcome);
    if (!place) {
        unwelcome_ = place.error();
        return;
    }
    place_ = *place;
    accepted_ = true;
    place_.port->attach(link_);
    owner_.link_note(place_.name + ": connected");
}

void LinkAttachment::link_up(const link::ActiveLink& active) {
    place_.port->link_up(active);
    owner_.link_note(place_.name + ": link up");
}

void LinkAttachment::link_down() {
    place_.port->link_down();
    owner_.link_note(place_.name + ": link down");
}

// ---- peer copy

std::expected<std::span<uint8_t>, std::string> LinkAttachment::link_memory(
    const link::Memory& memory) {
    auto mapped = owner_.link_map(memory);
    if (!mapped) {
        return std::unexpected(mapped.error());
    }
    if (*mapped == nullptr) {
        return std::span<uint8_t>{};
    }
    copier_ = std::make_unique<Copier>(std::move(*mapped));
    copier_->memory()->control().mapped.store(link::kMapped, std::memory_order_release);
    owner_.link_wake();  // the adapter may have packets that it can offer now
    owner_.link_note(place_.name + ": peer copy");
    return copier_->room();
}

uint32_t LinkAttachment::link_burst(ib::Burst& burst, ib::Placement& payload) {
    if (!payload.is_offered()) [[likely]] {
        return place_.port->receive(burst, nullptr);
    }
    const link::Offer& to = *payload.offer;
    const OfferRecord offer{copier_->memory(), to.handle, to.bytes, to.segments};
    const uint32_t taken = place_.port->receive(burst, &offer);
    ++(taken != 0 ? copier_->counts().forwarded : copier_->counts().split);
    return taken;
}

bool LinkAttachment::link_copy_offer(const link::Offer& from, std::span<uint8_t> to) {
    const bool read = read_offer(*copier_->memory(), from.handle, from.segments, to);
    copier_->counts().lost += read ? 0 : 1;
    return read;
}

}  // namespace pib::fabric
