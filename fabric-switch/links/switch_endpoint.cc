// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/switch_endpoint.h"

namespace pib::fabric {

SwitchEndpoint::SwitchEndpoint(Admission& admission, LinkOwner& owner)
    : owner_(owner),
      attachment_(admission, owner, link_),
      endpoint_(admission.link_buffers(), attachment_) {}

SwitchEndpoint::SwitchEndpoint(OutgoingLink& outgoing, LinkOwner& owner)
    : owner_(owner),
      attachment_(outgoing, owner, link_),
      endpoint_(outgoing.hello(), outgoing.link_buffers(), attachment_) {}

void SwitchEndpoint::pump() {
    if (LinkUser* port = attachment_.port()) {
        port->pump();
    }
}

std::expected<void, link::LinkFailure> SwitchEndpoint::feed_input(size_t bytes, size_t turn) {
    const auto fed = endpoint_.feed_input(bytes, turn);
    if (fed) {
        pump();  // the received frames may have been credits
    }
    notice_.give();
    if (fed && !attachment_.unwelcome().empty()) {
        return std::unexpected(
            link::LinkFailure{link::LinkError::kRefused, attachment_.unwelcome()});
    }
    return fed;
}

void SwitchEndpoint::consume_output(size_t bytes) {
    endpoint_.consume_output(bytes);
    notice_.output_taken();
    pump();
    notice_.give();
}

std::expected<bool, link::LinkFailure> SwitchEndpoint::receive(size_t bytes) {
    const auto more = endpoint_.receive(bytes);
    if (more) {
        pump();
    }
    notice_.give();
    return more;
}

bool SwitchEndpoint::publish() {
    notice_.output_taken();
    return endpoint_.channel().publish();
}

void SwitchEndpoint::close() {
    endpoint_.training().close();
    attachment_.detach();
}

void SwitchEndpoint::copy(uint64_t bytes) {
    Copier* copier = attachment_.copier();
    if (copier != nullptr && copier->step(bytes)) {
        owner_.link_wake();
    }
}

}  // namespace pib::fabric
