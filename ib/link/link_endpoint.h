// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a fabric link (docs/fabric-protocol.md): handshake, link state, credits and packets of
// one connection, on either side. Pure: bytes go in by feed(), come out by output(), what happens
// is told to LinkEvents. No socket, no clock. When both sides can share memory, frames go through
// rings after the handshake: receive() and publish() then take the place of feed() and output().
//
// Packets above this class run from LRH to the end of the padding; the ICRC and VCRC that a peer
// sends are checked and taken off here, and are added here when asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ib/link/burst_room.h"
#include "ib/link/one_copy.h"
#include "ib/link/output_buffer.h"
#include "ib/link/shared_ring.h"
#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/packet.h"
#include "ib/wire/placement.h"

namespace pib::link {

inline constexpr unsigned kDataVls = 15;
inline constexpr unsigned kVl15 = 15;

// Data VLs of a VLCap or OperationalVLs code (1, 2, 4, 8, 15); 0 for a reserved code.
[[nodiscard]] constexpr unsigned data_vls(std::uint8_t code) {
    constexpr std::uint8_t kVls[] = {0, 1, 2, 4, 8, 15};
    return code < sizeof(kVls) ? kVls[code] : 0;
}

// What a port with this MTUCap takes, LRH to ICRC: 124 bytes more than the MTU (IBA 7.7.8).
[[nodiscard]] constexpr std::size_t max_packet_bytes(std::uint8_t mtu_cap) {
    return (std::size_t{128} << mtu_cap) + 124;
}

// Credit blocks of a packet; `bytes` is LRH to end of padding, without checksums.
[[nodiscard]] constexpr std::uint32_t packet_blocks(std::size_t bytes) {
    return ib::link::credit_blocks(bytes + ib::kIcrcSize + ib::kVcrcSize);
}

// Receive buffer that `count` packets of a burst take from `from` on, as if they came singly; VL15
// has none.
[[nodiscard]] inline std::uint32_t burst_blocks(const ib::Burst& burst, std::uint32_t from,
                                                std::uint32_t count) {
    return burst.lrh().vl == ib::kVl15 ? 0 : burst.size().sum(from, count, packet_blocks);
}
[[nodiscard]] inline std::uint32_t burst_blocks(const ib::Burst& burst) {
    return burst_blocks(burst, 0, burst.count());
}

// Why a connection has to end. The text that goes with it is for the log.
enum class LinkError : std::uint8_t {
    kRefused,          // by the peer, or the peer by us (see output(): the REFUSE wants to be sent)
    kMalformedFrame,   // a frame that the protocol does not allow
    kUnexpectedFrame,  // a frame that the protocol does not allow here
    kVersion,
    kCreditExceeded,  // the peer sent a reference beyond what it was granted
};
[[nodiscard]] const char* to_string(LinkError error);

struct LinkFailure {
    LinkError error;
    std::string text;
};

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

// Writes ICRC and VCRC into the last six bytes of `packet_and_room`; before them is the packet.
void append_crcs(std::span<std::uint8_t> packet_and_room);

// Checks the length and the LRH of a packet and, with `with_crcs`, its checksums, which the burst
// does not have. `mtu_cap` is PortInfo:MTUCap of the receiver.
[[nodiscard]] std::expected<ib::Burst, PacketFault> check_packet(const ib::PacketBytes& body,
                                                                 bool with_crcs,
                                                                 std::uint8_t mtu_cap);

class LinkEndpoint {
  public:
    struct Buffers {
        // Receive buffer per data VL, in blocks of 64 bytes; at least kMinReceiveBlocks where not
        // 0.
        std::array<std::uint32_t, kDataVls> receive_blocks{};
        std::size_t output_bytes = 256 * 1024;  // bounded: packets are refused when it is full
        std::size_t input_bytes = 64 * 1024;    // frames that wait for their last byte
    };
    // Output that data packets leave free: LINK, CREDIT and VL15 must not wait behind a full
    // buffer.
    static constexpr std::size_t kReservedOutput = 32 * 1024;
    // Room for two packets of 4096 bytes: credits go out in quarters of the buffer.
    static constexpr std::uint32_t kMinReceiveBlocks = 160;
    // Where one copy is agreed on, at least, of VLs that have any. Of a switch two references of
    // the longest, which it may have to take apart; an adapter keeps none, and takes as many as it
    // is given before they are finished: what a switch has no credits for costs a copy more.
    static constexpr std::uint32_t kSwitchCopyBlocks = 2 * kMaxReferenceBytes / 64;
    static constexpr std::uint32_t kAdapterCopyBlocks = 256 * kMaxReferenceBytes / 64;

    // The connecting side; HELLO is ready in output().
    LinkEndpoint(const ib::link::Hello& hello, const Buffers& buffers, LinkEvents& events);
    // The listening side; waits for HELLO.
    LinkEndpoint(const Buffers& buffers, LinkEvents& events);
    LinkEndpoint(const LinkEndpoint&) = delete;
    LinkEndpoint& operator=(const LinkEndpoint&) = delete;

    // Takes what the peer sent, in whatever pieces. On failure the connection has to be closed once
    // output() is written or cannot be written; link_down() has been called if the link was up, and
    // further bytes are ignored.
    [[nodiscard]] std::expected<void, LinkFailure> feed(std::span<const std::uint8_t> bytes);
    // The same without a copy: read from the connection into input_space(), then say how much.
    // The packets that come up are views into that space.
    [[nodiscard]] std::span<std::uint8_t> input_space();
    [[nodiscard]] std::expected<void, LinkFailure> feed_input(std::size_t bytes);

    // Bytes for the peer, contiguous; consume what was written. Then begin() may succeed
    // again, and the link may come up.
    [[nodiscard]] std::span<const std::uint8_t> output() const;
    void consume_output(std::size_t bytes);

    // In shared memory: handles frames until there are none or `bytes` have been read; true when
    // more may be there. Fails as feed() does.
    [[nodiscard]] bool is_shared() const { return rings_ != nullptr; }
    [[nodiscard]] std::expected<bool, LinkFailure> receive(std::size_t bytes);
    // Lets the peer see what was written and given back; true: it sleeps and has to be woken.
    [[nodiscard]] bool publish();
    // Asks the peer to wake this side; false when there is something to do already.
    [[nodiscard]] bool may_sleep();
    // To be called after publish() by whoever sends while this side sleeps: if something was
    // refused, asks to be woken when there is room; true when there is by now, until receive(),
    // which is due then.
    [[nodiscard]] bool room_is_back();
    // Whether something has been refused since the last receive() because a ring is full.
    [[nodiscard]] bool wants_room() const { return rings_ && rings_->wants_room; }
    [[nodiscard]] std::size_t unpublished() const { return rings_ ? rings_->out.unpublished() : 0; }

    // The port's side of the link; `epoch` is ignored. Sent when it differs from the last; takes
    // the link down, and up again when both still want it. Kept until the handshake is over.
    // Packets longer than `mtu_cap` are faults when they come in.
    void set_offer(const ib::link::Link& offer);
    // Sends the same offer with another epoch: the link goes through Down (IBA 7.2.1).
    void retrain();
    // The connection is gone: link_down() if the link was up; nothing works afterwards.
    void close();

    [[nodiscard]] bool handshake_done() const { return phase_ == Phase::kOpen; }
    [[nodiscard]] bool is_up() const { return active_.has_value(); }
    // Both meaningful while is_up(): what is active, and the peer's newest LINK.
    [[nodiscard]] const ActiveLink& active() const { return *active_; }
    [[nodiscard]] const ib::link::Link& peer() const { return *peer_; }

    // Whether begin() would have room for one packet. VL15 needs no credits. Where a ring is full,
    // both count as asking for room: see room_is_back().
    [[nodiscard]] bool can_send(unsigned vl, std::size_t bytes,
                                SendCrc crc = SendCrc::kElided) const;
    // Blocks that the peer would still take on a data VL.
    [[nodiscard]] std::uint32_t credits(unsigned vl) const;
    // Whether both sides have agreed on bursts of several packets; all go singly otherwise.
    [[nodiscard]] bool takes_runs() const { return runs_; }
    // Room for as many packets as credits and the output admit. The caller writes them, and then
    // calls commit(); or nothing, and it is as if it had not asked. Nothing else may be called on
    // the endpoint in between. An offer is of several MIDDLE packets that want no ACK, or there is
    // no room for it.
    [[nodiscard]] BurstRoom begin(const BurstRequest& request);
    // Sends what was written: as many packets as there was room for, or one.
    void commit(const ib::BurstSize& size, const OfferedPayload& offered = {});

    // --- one copy. Both sides have agreed on it; then an adapter may hand over its memory.
    [[nodiscard]] bool one_copy_agreed() const { return one_copy_agreed_; }
    // The adapter: MEMORY is in output() then, and the descriptors go with its first byte.
    // `control_memory` has one_copy_bytes(blocks) bytes and outlives the endpoint.
    // Only once.
    void share_memory(std::uint8_t* control_memory, std::span<const std::uint64_t> blocks);
    // Whether references may be sent.
    [[nodiscard]] bool shares_memory() const;
    // The adapter: whether the switch may be writing to where link_burst() said, also after
    // close(). Meanwhile receive() does nothing, and the switch wakes this side when it has ended.
    [[nodiscard]] bool pulling() const;
    // Asks for that to end soon; pulling() says when it has. Afterwards receive() asks anew where
    // the run goes. True: the peer sleeps and has to be woken, as of publish().
    [[nodiscard]] bool cancel_pull();

    // Gives back the receive buffer of packets, of this or an earlier link_up(); CREDIT follows by
    // itself.
    void release(unsigned vl, std::uint32_t blocks);

  private:
    LinkEndpoint(const Buffers& buffers, LinkEvents& events, bool connecting);

    struct Rings {
        explicit Rings(const LinkRings& views) : out(views.out), in(views.in) {}
        RingProducer out;
        RingConsumer in;
        bool wants_room = false;    // something was refused since the last receive()
        bool room_is_back = false;  // since then, too
        // What is looked at of a frame is copied here before: the peer can still write to the
        // ring.
        std::array<std::uint8_t, ib::link::kMaxBody> frame{};
    };

    enum class Phase : std::uint8_t { kHandshake, kOpen, kFailed };
    using Result = std::expected<void, LinkFailure>;

    // A data VL, both directions. Counts are blocks, modulo 2^32.
    struct VlState {
        std::uint32_t sent = 0;        // since the own LINK
        std::uint32_t send_limit = 0;  // that the peer granted
        std::uint32_t received = 0;    // since the peer's LINK
        std::uint32_t granted = 0;     // limit last told to the peer
        std::uint32_t held = 0;        // delivered and not yet released
        std::uint32_t capacity = 0;
    };
    // The room that begin() has granted.
    struct Pending {
        std::span<std::uint8_t> frame;  // header, then packets
        unsigned vl = 0;
        SendCrc crc{};
        bool is_offer = false;
    };
    // A reference at the front of the ring, which is not skipped before it has been dealt with.
    struct Awaited {
        ib::link::Reference reference;
        ib::Burst burst;  // of Rings::frame and OneCopy::room
        std::size_t frame_bytes = 0;
        std::uint16_t epoch = 0;  // of the own LINK
        bool asked = false;       // PULL is written, its answer has not been seen
        bool bounce = false;      // to OneCopy::room, and from there packet by packet
        ib::Placement payload{};
    };
    struct OneCopy {
        std::vector<std::uint64_t> blocks;  // of the adapter's memory, bytes
        std::span<std::uint8_t> room;       // kReferenceRoom bytes
        OneCopyControl* control = nullptr;  // the adapter's
        std::uint32_t sequence = 0;         // of the last PULL
        std::uint64_t last_handle = 0;      // that came in
        std::optional<Awaited> awaited;
    };

    Result handle(const ib::link::Frame& frame);
    Result on_hello(const ib::link::Frame& frame);
    Result on_welcome(const ib::link::Frame& frame);
    Result on_refuse(const ib::link::Frame& frame);
    Result on_link(const ib::link::Frame& frame);
    Result on_credit(const ib::link::Frame& frame);
    Result on_packet(const ib::link::Frame& frame);
    Result on_run(const ib::link::Frame& frame);
    Result on_memory(const ib::link::Frame& frame);
    Result on_pull(const ib::link::Frame& frame);
    Result on_reference(const ib::link::Frame& frame);
    Result check_reference(const ib::link::Reference& reference);
    void take_reference(ib::Burst& burst, const ib::link::Reference& reference);
    void await_answer();
    [[nodiscard]] bool is_answered() const;
    void answered(PullResult result);
    void ask();
    void finish_awaited();
    void drop(const ib::Burst& burst);
    [[nodiscard]] bool holds(const Awaited& awaited) const;
    [[nodiscard]] bool fits(const ib::Burst& burst) const;
    void hand_over_parts(const ib::Burst& burst);
    void hand_over(ib::Burst& burst);
    std::uint32_t hand_over_rest(ib::Burst& burst, std::uint32_t from);
    void hand_over(const ib::PacketBytes& body, bool with_crcs, unsigned vl, std::uint32_t blocks);
    [[nodiscard]] std::uint32_t limit(const BurstRequest& request) const;
    [[nodiscard]] std::uint32_t offer_limit(const BurstRequest& request) const;
    bool take_credit(unsigned vl, std::uint32_t blocks);
    void overrun(unsigned vl, std::uint32_t packets);
    Result refuse(ib::link::Refuse refusal);
    Result fail(LinkError error, std::string text);
    Result share(std::uint32_t features);
    // Bytes of the frame; 0: it stays.
    std::expected<std::size_t, LinkFailure> receive_one(Rings& rings);
    std::expected<std::size_t, LinkFailure> read_front(Rings& rings);
    void send_unsent();
    [[nodiscard]] bool has_room(std::size_t bytes) const;
    [[nodiscard]] bool finds_room(std::size_t bytes) const;
    std::span<std::uint8_t> reserve(std::size_t bytes);
    void commit(std::size_t bytes);
    void open();
    void take_down();
    void update_link();
    void send_offer();
    void send_credits();
    void send_credit(unsigned vl);
    template <typename Control>
    bool send_control(const Control& frame);

    LinkEvents& events_;
    Phase phase_ = Phase::kHandshake;
    const bool connecting_;
    bool runs_ = false;
    bool one_copy_agreed_ = false;
    bool memory_passed_ = false;   // MEMORY has
    std::uint32_t asked_ = 0;      // HELLO's features, of the connecting side
    bool offer_unsent_ = false;    // LINK waits for room in the output
    bool credits_unsent_ = false;  // a CREDIT does
    ib::link::Link offer_{.up = false, .mtu_cap = 5, .vl_cap = 1};
    std::optional<ib::link::Link> peer_;
    std::optional<ActiveLink> active_;
    std::array<VlState, kDataVls> vls_{};
    Pending pending_;
    ib::link::FrameReader reader_;
    OutputBuffer output_;
    std::unique_ptr<Rings> rings_;       // nullptr: frames go through the stream
    std::unique_ptr<OneCopy> one_copy_;  // nullptr: no references go here
    std::vector<std::uint8_t> scratch_;  // control frames are laid out here
};

}  // namespace pib::link
