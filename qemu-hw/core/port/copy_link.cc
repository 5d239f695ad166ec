// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/copy_link.h"

namespace pib::hca {

CopyLink::CopyLink(const PortContext& port, PortEndpoint& link) : port_(port), link_(link) {
    if (port_.peer_copy != nullptr) {
        port_.peer_copy->set_link(port_.number, *this);
    }
}

bool CopyLink::wants_memory() const {
    return port_.peer_copy != nullptr && link_.endpoint() != nullptr &&
           link_.endpoint()->agreed().peer_copy && !port_.peer_copy->attached(port_.number);
}

// Marks the registered pages before the switch receives the memory.
void CopyLink::share(const PeerCopyMemory& memory) {
    std::vector<uint64_t> blocks;
    blocks.reserve(memory.blocks.size());
    for (const RamBlock& block : memory.blocks) {
        blocks.push_back(block.bytes);
    }
    port_.peer_copy->attach(port_.number, memory);
    if (link::LinkEndpoint* endpoint = link_.endpoint()) {
        endpoint->peer_copy().share(memory.control, blocks);
        link_.flush();
    }
}

void CopyLink::gone() {
    if (port_.peer_copy != nullptr) {
        port_.peer_copy->detach(port_.number);
    }
}

bool CopyLink::pulling() const {
    return link_.endpoint() != nullptr && link_.endpoint()->peer_copy().is_pulling();
}

void CopyLink::cancel_pull() {
    if (link_.endpoint() != nullptr && link_.endpoint()->peer_copy().cancel_pull()) {
        port_.host.link_kick(port_.number);
    }
}

// Closing the connection is safe here: the endpoint calls no handler while it waits for the answer
// to a pull, so no handler is on the stack.
void CopyLink::give_up() {
    link_.abandon("the switch copies for the guest and does not answer");
}

}  // namespace pib::hca
