// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a fabric link (docs/fabric-protocol.md): handshake, link state, credits and packets of
// one connection, on either side. Pure: bytes go in by feed(), come out by output(), what happens
// is told to LinkEvents. No socket, no clock, no allocation after construction.
//
// Packets above this class run from LRH to the end of the padding; the ICRC and VCRC that a peer
// sends are checked and taken off here, and are added here when asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ib/link/link_state.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/packet.h"

namespace pib::link {

inline constexpr unsigned kDataVls = 15;
inline constexpr unsigned kVl15 = 15;
inline constexpr std::size_t kBlockBytes = 64;  // what credits count
// The LRH and whole checksums of a packet, in credit blocks; `bytes` is LRH to end of padding.
[[nodiscard]] constexpr std::uint32_t credit_blocks(std::size_t bytes) {
    return static_cast<std::uint32_t>((bytes + ib::kIcrcSize + ib::kVcrcSize + kBlockBytes - 1) /
                                      kBlockBytes);
}

// A packet that has come in and that fits its LRH:PktLen; its checksums, if any, were right.
struct LinkPacket {
    ib::Lrh lrh;
    std::span<const std::uint8_t> bytes;  // LRH to end of padding; valid during the call
    std::uint32_t blocks = 0;             // receive buffer it occupies until released; VL15: 0
};

// Why a received packet was dropped by the link; the port counts it.
enum class PacketFault : std::uint8_t {
    kMalformed,  // LVer, PktLen against the frame's length, too short
    kTooLong,    // more payload than the receiving port's MTU
    kIcrc,
    kVcrc,
};

// Why a connection has to end. The text that goes with it is for the log.
enum class LinkError : std::uint8_t {
    kRefused,          // by the peer, or the peer by us (see output(): the REFUSE wants to be sent)
    kMalformedFrame,   // a frame that the protocol does not allow
    kUnexpectedFrame,  // a frame that the protocol does not allow here
    kVersion,
    kCreditExceeded,  // the peer sent more than it was granted
};
[[nodiscard]] const char* to_string(LinkError error);

struct LinkFailure {
    LinkError error;
    std::string text;
};

using HelloAnswer = std::expected<ib::Welcome, ib::Refuse>;

// What an endpoint tells its port. Handlers may call anything on the endpoint but feed(), and must
// not destroy it.
class LinkEvents {
  public:
    virtual ~LinkEvents() = default;
    // Listening side: who connects; the answer is sent as WELCOME or REFUSE. Well-formed, version
    // and reserved fields checked.
    virtual HelloAnswer link_hello(const ib::Hello& hello);
    // Connecting side: the switch's answer. set_offer() may be called before or after.
    virtual void link_welcome(const ib::Welcome&) {}
    virtual void link_refused(const ib::Refuse&) {}
    // A link that was up goes down and comes up again within one call when either side retrains.
    virtual void link_up(const ActiveLink& link) = 0;
    virtual void link_down() = 0;
    // Never called while the link is down. The receive buffer it takes is given back by
    // LinkEndpoint::release(), now or later.
    virtual void link_packet(const LinkPacket& packet) = 0;
    virtual void link_packet_fault(PacketFault fault) = 0;
};

// Which checksums a packet is sent with.
enum class SendCrc : std::uint8_t {
    kElided,    // none: LRH to padding goes on the wire as it is
    kComputed,  // both are computed when the packet is committed
    kGiven,     // the caller wrote both (or damaged ones: fault injection)
};

class LinkEndpoint {
  public:
    struct Buffers {
        // Receive buffer per data VL, in blocks of 64 bytes; at least kMinReceiveBlocks where not
        // 0.
        std::array<std::uint32_t, kDataVls> receive_blocks{};
        std::size_t output_bytes = 256 * 1024;  // bounded: packets are refused when it is full
    };
    // Room for two packets of 4096 bytes: credits go out in quarters of the buffer.
    static constexpr std::uint32_t kMinReceiveBlocks = 160;

    // The connecting side; HELLO is ready in output().
    static std::unique_ptr<LinkEndpoint> connector(const ib::Hello& hello, const Buffers& buffers,
                                                   LinkEvents& events);
    // The listening side; waits for HELLO.
    static std::unique_ptr<LinkEndpoint> listener(const Buffers& buffers, LinkEvents& events);
    ~LinkEndpoint();
    LinkEndpoint(const LinkEndpoint&) = delete;
    LinkEndpoint& operator=(const LinkEndpoint&) = delete;

    // Takes what the peer sent, in whatever pieces; a frame that is whole within `bytes` is not
    // copied. On failure the connection has to be closed once output() is written or cannot be
    // written; link_down() has been called if the link was up, and further bytes are ignored.
    [[nodiscard]] std::expected<void, LinkFailure> feed(std::span<const std::uint8_t> bytes);

    // Bytes for the peer, contiguous; consume what was written. Then begin_packet() may succeed
    // again.
    [[nodiscard]] std::span<const std::uint8_t> output() const;
    void consume_output(std::size_t bytes);

    // The port's side of the link. Sent when it differs from the last; takes the link down, and up
    // again when both still want it. Kept until the handshake is over.
    void set_offer(const PortOffer& offer);
    // Sends the same offer with another epoch: the link goes through Down (IBA 7.2.1).
    void retrain();
    // The longest packet payload that may come in (MTU of the port, bytes); longer ones are faults.
    void set_receive_mtu(std::size_t payload_bytes);

    [[nodiscard]] bool handshake_done() const;
    [[nodiscard]] bool is_up() const;
    [[nodiscard]] const ActiveLink& active() const;  // meaningful while is_up()

    // Whether begin_packet() would succeed. VL15 needs no credits.
    [[nodiscard]] bool can_send(unsigned vl, std::size_t bytes) const;
    // Blocks that the peer would still take on a data VL.
    [[nodiscard]] std::uint32_t credits(unsigned vl) const;
    // Room for one packet of `bytes` in the output, or an empty span: link down, no credit, or
    // output full. Nothing else may be called on the endpoint before commit_packet(). With kGiven
    // `bytes` includes both checksums. LRH:VL in the packet must be `vl`.
    [[nodiscard]] std::span<std::uint8_t> begin_packet(unsigned vl, std::size_t bytes,
                                                       SendCrc crc = SendCrc::kElided);
    void commit_packet();

    // Gives back receive buffer of packets of this or an earlier link_up(); CREDIT follows by
    // itself.
    void release(unsigned vl, std::uint32_t blocks);

  private:
    struct Impl;
    explicit LinkEndpoint(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace pib::link
