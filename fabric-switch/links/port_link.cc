// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/port_link.h"

namespace pib::fabric {

link::BurstRoom PortLink::begin(const link::BurstRequest& request) {
    if (request.is_offer) {
        Copier* copier = attachment_.copier();
        if (copier == nullptr || !copier->memory() || !copier->table().next()) {
            return {};
        }
    }
    const auto room = endpoint_.begin(request);
    if (room.packets == 0) {
        // A sender now wants room in the channel: the notice makes the owner wait for the room
        // (FrameChannel::room_is_back()).
        notice_.give();
    }
    return room;
}

void PortLink::commit(const ib::BurstSize& size, const OfferRecord* offer) {
    if (offer != nullptr) {
        Copier& copier = *attachment_.copier();
        endpoint_.commit(size, {.handle = *copier.table().next()});
        copier.table().add(*offer);
    } else {
        endpoint_.commit(size);
    }
    notice_.give();
}

const CopyCounts* PortLink::copies() const {
    const Copier* copier = attachment_.copier();
    return copier != nullptr ? &copier->counts() : nullptr;
}

bool PortLink::can_send(unsigned vl, size_t bytes, link::SendCrc crc) const {
    return endpoint_.sender().can_send(vl, bytes, crc);
}

uint32_t PortLink::credits(unsigned vl) const {
    return endpoint_.sender().credits(vl);
}

uint32_t PortLink::granted(unsigned vl) const {
    return endpoint_.sender().granted_to_peer(vl);
}

void PortLink::release(unsigned vl, uint32_t blocks) {
    endpoint_.release(vl, blocks);
    notice_.give();
}

void PortLink::set_parameters(const link::Link& parameters) {
    endpoint_.training().set_parameters(parameters);
    notice_.give();
}

void PortLink::retrain() {
    endpoint_.training().retrain();
    notice_.give();
}

}  // namespace pib::fabric
