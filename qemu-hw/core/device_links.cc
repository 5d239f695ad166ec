// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_links.h"

#include "port/hca_port.h"

namespace pib::hca {

void DeviceLinks::connected(unsigned port, bool can_share) {
    recording_.connected(port, can_share);
    engine_.enter([&] {
        if (HcaPort* p = find(port)) {
            p->link_connected(can_share);
        }
    });
}

void DeviceLinks::received(unsigned port, std::span<const uint8_t> bytes) {
    recording_.received(port, bytes);
    engine_.enter([&] {
        if (HcaPort* p = find(port)) {
            engine_.begin_input();
            p->link_rx(bytes);
            engine_.turn();
        }
    });
}

bool DeviceLinks::is_behind(unsigned port) {
    const HcaPort* p = find(port);
    return p != nullptr && p->link_is_behind();
}

void DeviceLinks::writable(unsigned port) {
    recording_.entry(record::Tag::kLinkWritable, {port});
    engine_.enter([&] {
        if (HcaPort* p = find(port)) {
            p->link_writable();
        }
    });
}

void DeviceLinks::closed(unsigned port) {
    recording_.entry(record::Tag::kLinkClosed, {port});
    engine_.enter([&] {
        if (HcaPort* p = find(port)) {
            p->link_closed();
        }
    });
}

void DeviceLinks::shared(unsigned port, const link::LinkRings& rings) {
    recording_.entry(record::Tag::kLinkShared, {port, rings.out.size, rings.in.size});
    if (HcaPort* p = find(port)) {
        p->link_shared(recording_.rings(rings));
    }
}

bool DeviceLinks::poll(unsigned port) {
    bool more = false;
    HcaPort* p = find(port);
    if (p == nullptr) {
        return false;
    }
    recording_.entry(record::Tag::kLinkPoll, {port});
    engine_.enter([&] {
        engine_.begin_input();
        more = p->link_poll();
        engine_.turn();
    });
    // link_may_sleep() asks the other end for a wake-up: call it last, when all work of this call
    // is done.
    return more || !p->link_may_sleep();
}

bool DeviceLinks::wants_memory(unsigned port) {
    const HcaPort* p = find(port);
    return p != nullptr && p->link_wants_memory();
}

void DeviceLinks::share_memory(unsigned port, const PeerCopyMemory& memory) {
    engine_.enter([&] {
        if (HcaPort* p = find(port); p != nullptr && p->link_wants_memory()) {
            p->link_memory(memory);
        }
    });
}

}  // namespace pib::hca
