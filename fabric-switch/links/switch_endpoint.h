// SPDX-License-Identifier: GPL-2.0-or-later
// One connection to the switch: a link endpoint and, from HELLO (or WELCOME) on, the port it
// belongs to. It takes and returns bytes; its owner has the socket, or joins two ends in memory in
// tests. The port sees the link as a PortLink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "links/port_link.h"

namespace pib::fabric {

class SwitchEndpoint {
  public:
    using Owner = LinkOwner;
    using Outgoing = OutgoingLink;

    // The listening side. Here and below, both references outlive the link.
    SwitchEndpoint(Admission& admission, LinkOwner& owner);
    // The connecting side.
    SwitchEndpoint(OutgoingLink& outgoing, LinkOwner& owner);
    ~SwitchEndpoint() { close(); }
    SwitchEndpoint(const SwitchEndpoint&) = delete;
    SwitchEndpoint& operator=(const SwitchEndpoint&) = delete;

    // As in LinkEndpoint. The caller has moved the clock of the ports.
    [[nodiscard]] std::span<uint8_t> input_space() { return endpoint_.input_space(); }
    [[nodiscard]] std::expected<void, link::LinkFailure> feed_input(size_t bytes,
                                                                    size_t turn = SIZE_MAX);
    [[nodiscard]] bool input_waits() const { return endpoint_.input_waits(); }
    [[nodiscard]] std::span<const uint8_t> output() const { return endpoint_.output(); }
    void consume_output(size_t bytes);
    // For a link in shared memory: as in LinkEndpoint and FrameChannel.
    [[nodiscard]] bool is_shared() { return endpoint_.channel().is_shared(); }
    [[nodiscard]] std::expected<bool, link::LinkFailure> receive(size_t bytes);
    [[nodiscard]] bool publish();
    [[nodiscard]] bool may_sleep() {
        const Copier* copier = attachment_.copier();
        return endpoint_.may_sleep() && !(copier != nullptr && copier->is_copying());
    }
    // Copies at most `bytes` bytes of the peer's pull.
    void copy(uint64_t bytes);
    // Whether MEMORY, which carries descriptors, may arrive now.
    [[nodiscard]] bool takes_memory() const {
        return endpoint_.agreed().peer_copy && attachment_.copier() == nullptr;
    }
    [[nodiscard]] bool room_is_back() { return endpoint_.channel().room_is_back(); }
    // Call when the connection has ended: the port goes Down. A REFUSE may still be in output().
    void close();

    // Whether this side has accepted the peer's HELLO or WELCOME; stays true after close().
    [[nodiscard]] bool handshake_done() const { return attachment_.has_accepted(); }
    [[nodiscard]] uint8_t port_number() const { return attachment_.port_number(); }
    [[nodiscard]] const std::string& port_name() const { return attachment_.port_name(); }

  private:
    // Lets the port send packets that wait for room or credits.
    void pump();

    LinkOwner& owner_;
    OutputNotice notice_{endpoint_, owner_};
    PortLink link_{endpoint_, attachment_, notice_};
    LinkAttachment attachment_;
    link::LinkEndpoint endpoint_;
};

}  // namespace pib::fabric
