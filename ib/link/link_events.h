// SPDX-License-Identifier: GPL-2.0-or-later
// The events that a link endpoint reports to the port above it, and the reasons why a connection
// ends.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ib/link/shared_ring.h"
#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/placement.h"

namespace pib::link {

// Reasons for which a connection has to end. LinkFailure::text is for the log.
enum class LinkError : uint8_t {
    kRefused,          // the peer refused this side, or this side the peer: REFUSE is in output()
    kMalformedFrame,   // a frame that the protocol never allows
    kUnexpectedFrame,  // a frame that the protocol does not allow in this state
    kVersion,          // WELCOME of another major version
    kCreditExceeded,   // the peer sent an offer without credits for it
};
[[nodiscard]] const char* to_string(LinkError error);

struct LinkFailure {
    LinkError error;
    std::string text;
};
using LinkResult = std::expected<void, LinkFailure>;

[[nodiscard]] inline std::unexpected<LinkFailure> failure(LinkError error, std::string text) {
    return std::unexpected(LinkFailure{error, std::move(text)});
}

using HelloAnswer = std::expected<link::Welcome, link::Refuse>;

// The rings of a link in shared memory, as one end sees them.
struct LinkRings {
    RingView out;
    RingView in;
};

// Events of an endpoint. Handlers may call every function of the endpoint except feed_input() and
// receive(), and must not destroy it.
class LinkEvents {
  public:
    virtual ~LinkEvents() = default;
    // Listening side: HELLO of the connecting side. The endpoint sends the answer as WELCOME or
    // REFUSE. Format, version and reserved fields have been checked.
    virtual HelloAnswer link_hello(const link::Hello& hello);
    // Connecting side: the answer to HELLO. set_parameters() may be called before or after.
    virtual void link_welcome(const link::Welcome&) {}
    virtual void link_refused(const link::Refuse&) {}
    // WELCOME announces shared memory: returns the rings, which outlive the endpoint. nullopt: the
    // handshake fails.
    [[nodiscard]] virtual std::optional<LinkRings> link_rings() { return std::nullopt; }
    // When either side retrains a link that is up, the endpoint calls link_down(), then link_up()
    // if both sides still want the link.
    virtual void link_up(const ActiveLink& link) = 0;
    virtual void link_down() = 0;
    // Received packets; never called while the link is down. Returns how many packets the port has
    // taken, counted from the first; it frees their receive buffer by LinkEndpoint::release(), now
    // or later. A single packet is always taken. 0 of several: the port has done nothing, and the
    // endpoint delivers the first packet alone, then the rest.
    //
    // With peer copy, a burst of MIDDLE packets may come without its payload. The handler then does
    // not read the payload, and takes all packets or none. payload.form tells the cases apart:
    // * kOffered at a switch: after 0 the endpoint copies the payload and delivers the packets
    //   again.
    // * kOffered at an adapter: a port that takes the packets sets `where` to at most kMaxSegments
    //   segments of the blocks of MEMORY, the target of the pull, and does nothing else yet.
    // * kPulled at an adapter: the payload is in place. After 0, because the target is no longer
    //   valid, the endpoint delivers the packets again with their payload.
    [[nodiscard]] virtual uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) = 0;
    virtual void link_packet_fault(PacketFault fault) = 0;

    // --- peer copy, adapter: the switch has refused to copy to `where`; the burst is lost.
    virtual void link_copy_refused() {}

    // --- peer copy, switch: the adapter shares its memory. Returns kOfferRoom bytes, which
    // outlive the endpoint, for offers whose payload the endpoint has to copy. Empty: the memory is
    // unusable, and the link continues without it. An error ends the connection.
    [[nodiscard]] virtual std::expected<std::span<uint8_t>, std::string> link_memory(
        const link::Memory& memory);
    // Copies the payload of an offer; false: the offer has been revoked, and its packets are lost.
    [[nodiscard]] virtual bool link_copy_offer(const link::Offer& /*from*/,
                                               std::span<uint8_t> /*to*/) {
        return false;
    }
    // A pull by the adapter. All segments are in the blocks of MEMORY or in the bounce area. An
    // error ends the connection.
    [[nodiscard]] virtual std::expected<void, std::string> link_pull(const link::Pull& pull);
};

}  // namespace pib::link
