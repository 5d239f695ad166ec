// SPDX-License-Identifier: GPL-2.0-or-later
// What a link endpoint tells the port above it, and why a connection ends.
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

// Why a connection has to end. The text that goes with it is for the log.
enum class LinkError : std::uint8_t {
    kRefused,          // by the peer, or the peer by us (see output(): the REFUSE wants to be sent)
    kMalformedFrame,   // a frame that the protocol does not allow
    kUnexpectedFrame,  // a frame that the protocol does not allow here
    kVersion,
    kCreditExceeded,  // the peer sent an offer beyond what it was granted
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

using ib::link::ActiveLink;
using ib::link::PacketFault;
using HelloAnswer = std::expected<ib::link::Welcome, ib::link::Refuse>;

// The rings of a link in shared memory, from one end's point of view.
struct LinkRings {
    RingView out;
    RingView in;
};

// What an endpoint tells its port. Handlers may call anything on the endpoint but feed(), and must
// not destroy it.
class LinkEvents {
  public:
    virtual ~LinkEvents() = default;
    // Listening side: who connects; the answer is sent as WELCOME or REFUSE. Well-formed, version
    // and reserved fields checked.
    virtual HelloAnswer link_hello(const ib::link::Hello& hello);
    // Connecting side: the switch's answer. set_offer() may be called before or after.
    virtual void link_welcome(const ib::link::Welcome&) {}
    virtual void link_refused(const ib::link::Refuse&) {}
    // WELCOME says that frames go through shared memory from here on: which. Nothing: the handshake
    // fails. It must outlive the endpoint.
    virtual std::optional<LinkRings> link_rings() { return std::nullopt; }
    // A link that was up goes down and comes up again within one call when either side retrains.
    virtual void link_up(const ActiveLink& link) = 0;
    virtual void link_down() = 0;
    // Packets that have come in; never called while the link is down. Returns how many were taken
    // from the first one on; LinkEndpoint::release() gives their receive buffer back, now or later.
    // A single packet is always taken. 0 of several: nothing has happened, the first one comes
    // alone and then the rest.
    //
    // With peer copy the payload of a burst of MIDDLE packets may be elsewhere and must not be
    // looked at. kOffered, at a switch: all are taken, or 0, and they come with their payload. At
    // an adapter: all, and `where` has at most kMaxPieces pieces of the blocks of MEMORY to which
    // the payload is to be pulled; nothing else has happened then. kPulled: all are taken, or 0 if
    // they belong elsewhere by now. The answer 0 brings the packets again, with their payload.
    virtual std::uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) = 0;
    virtual void link_packet_fault(PacketFault fault) = 0;

    // --- peer copy, at the adapter. The switch would not copy to `where`; the burst is lost.
    virtual void link_copy_refused() {}

    // --- peer copy, at the switch. Memory of kReferenceRoom bytes for bursts that come with their
    // payload in the end, which outlives the endpoint; empty: what was handed over cannot be used,
    // and the link goes on without it. Or why the connection ends.
    virtual std::expected<std::span<std::uint8_t>, std::string> link_memory(
        const ib::link::Memory& memory);
    // Copies the payload of an offer; false: the offer is revoked, and the packets are lost.
    virtual bool link_dereference(const ib::link::Reference& /*from*/,
                                  std::span<std::uint8_t> /*to*/) {
        return false;
    }
    // All pieces lie in the blocks of MEMORY, or in the bounce area. Or why the connection ends.
    virtual std::expected<void, std::string> link_pull(const ib::link::Pull& pull);
};

}  // namespace pib::link
