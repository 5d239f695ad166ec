// SPDX-License-Identifier: GPL-2.0-or-later
// The state machine of docs/fabric-protocol.md. Whatever a peer sends is checked here or in
// ib/wire/link_frame.cc; a port above sees only packets that fit their frame and its credits.
#include "ib/link/link_endpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ib/wire/crc.h"
#include "ib/wire/field.h"

namespace pib::link {
namespace {

using ib::link::Frame;
using ib::link::FrameError;
using ib::link::FrameType;
using ib::link::kHeaderSize;

constexpr std::size_t kCrcBytes = ib::kIcrcSize + ib::kVcrcSize;
// LRH, BTH: nothing shorter is an IBA packet.
constexpr std::size_t kMinPacket = ib::Lrh::kSize + ib::Bth::kSize;

bool same_offer(const ib::link::Link& a, ib::link::Link b) {
    b.epoch = a.epoch;
    return a == b;
}

// Credits are told once a quarter of the buffer has become free, not for every packet.
std::uint32_t grant_step(std::uint32_t capacity) {
    return std::max(capacity / 4, 1U);
}

// Credit blocks of a packet as BurstRequest has it.
std::uint32_t blocks_of(std::size_t bytes, SendCrc crc) {
    return crc == SendCrc::kGiven ? ib::link::credit_blocks(bytes) : packet_blocks(bytes);
}

bool is_iba(const ib::Lrh& lrh) {
    return lrh.lnh == ib::Lnh::kIbaLocal || lrh.lnh == ib::Lnh::kIbaGlobal;
}

// Whether the ICRC that stands behind `packet` (LRH to padding) is its own.
bool icrc_is_good(std::span<const std::uint8_t> packet, const std::uint8_t* stored) {
    const std::uint32_t crc = ib::icrc(packet);
    const std::uint8_t wire[] = {
        static_cast<std::uint8_t>(crc), static_cast<std::uint8_t>(crc >> 8),
        static_cast<std::uint8_t>(crc >> 16), static_cast<std::uint8_t>(crc >> 24)};
    return std::memcmp(wire, stored, sizeof(wire)) == 0;
}

}  // namespace

const char* to_string(LinkError error) {
    static constexpr std::array<const char*, 5> kNames = {
        "refused", "malformed frame", "unexpected frame", "other protocol version",
        "credit limit exceeded"};
    const auto index = static_cast<std::size_t>(error);
    return index < kNames.size() ? kNames[index] : "unknown";
}

void append_crcs(std::span<std::uint8_t> packet_and_room) {
    const auto packet = packet_and_room.first(packet_and_room.size() - kCrcBytes);
    std::uint8_t* out = packet_and_room.data() + packet.size();
    const std::uint32_t icrc = ib::icrc(packet);
    for (unsigned i = 0; i < ib::kIcrcSize; ++i) {
        out[i] = static_cast<std::uint8_t>(icrc >> (8 * i));
    }
    const std::uint16_t vcrc = ib::vcrc(packet_and_room.first(packet.size() + ib::kIcrcSize));
    out[4] = static_cast<std::uint8_t>(vcrc);
    out[5] = static_cast<std::uint8_t>(vcrc >> 8);
}

HelloAnswer LinkEvents::link_hello(const ib::link::Hello&) {
    return std::unexpected(
        ib::link::Refuse{ib::link::RefuseReason::kNoFreePort, "this side does not listen"});
}

LinkEndpoint::LinkEndpoint(const Buffers& buffers, LinkEvents& events, bool connecting)
    : events_(events),
      connecting_(connecting),
      reader_(buffers.input_bytes),
      output_(std::max(buffers.output_bytes, 2 * kReservedOutput)) {
    for (unsigned vl = 0; vl < kDataVls; ++vl) {
        const std::uint32_t wanted = buffers.receive_blocks[vl];
        vls_[vl].capacity = wanted == 0 ? 0 : std::max(wanted, kMinReceiveBlocks);
    }
    scratch_.reserve(kHeaderSize + ib::link::Hello::kSize + ib::link::Refuse::kMaxText);
}

LinkEndpoint::LinkEndpoint(const Buffers& buffers, LinkEvents& events)
    : LinkEndpoint(buffers, events, false) {}

LinkEndpoint::LinkEndpoint(const ib::link::Hello& hello, const Buffers& buffers, LinkEvents& events)
    : LinkEndpoint(buffers, events, true) {
    asked_ = hello.features;
    send_control(hello);
}

// ---- bytes in and out

std::expected<void, LinkFailure> LinkEndpoint::feed(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty() && phase_ != Phase::kFailed) {
        const auto space = input_space();
        const std::size_t take = std::min(space.size(), bytes.size());
        std::memcpy(space.data(), bytes.data(), take);
        bytes = bytes.subspan(take);
        if (auto fed = feed_input(take); !fed) {
            return fed;
        }
    }
    return {};
}

std::span<std::uint8_t> LinkEndpoint::input_space() {
    return reader_.space();
}

std::expected<void, LinkFailure> LinkEndpoint::feed_input(std::size_t bytes) {
    reader_.commit(bytes);
    while (phase_ != Phase::kFailed) {
        const auto frame = reader_.next();
        if (!frame) {
            return fail(LinkError::kMalformedFrame, to_string(frame.error()));
        }
        if (!*frame) {
            break;
        }
        if (rings_ && (*frame)->type != FrameType::kMemory) {
            return fail(LinkError::kUnexpectedFrame, "a frame beside the shared memory");
        }
        if (auto handled = handle(**frame); !handled) {
            return handled;
        }
    }
    return {};
}

std::span<const std::uint8_t> LinkEndpoint::output() const {
    return output_.pending();
}

void LinkEndpoint::consume_output(std::size_t bytes) {
    output_.consume(bytes);
    send_unsent();
}

void LinkEndpoint::send_unsent() {
    if (phase_ != Phase::kOpen) {
        return;
    }
    if (offer_unsent_) {
        send_offer();
    }
    if (credits_unsent_) {
        send_credits();
    }
}

template <typename Control>
bool LinkEndpoint::send_control(const Control& frame) {
    scratch_.clear();
    append(scratch_, frame);
    const auto room = reserve(scratch_.size());
    if (room.empty()) {
        return false;
    }
    std::memcpy(room.data(), scratch_.data(), scratch_.size());
    commit(scratch_.size());
    return true;
}

template bool LinkEndpoint::send_control(const ib::link::Pull&);  // by link_endpoint_one_copy.cc

// ---- where frames go

bool LinkEndpoint::has_room(std::size_t bytes) const {
    return rings_ ? rings_->out.has_room(ring_bytes(bytes)) : output_.has_room(bytes);
}

// Who finds none in a ring is told when there is: see room_is_back().
bool LinkEndpoint::finds_room(std::size_t bytes) const {
    const bool found = has_room(bytes);
    if (!found && rings_) {
        rings_->wants_room = true;
    }
    return found;
}

std::span<std::uint8_t> LinkEndpoint::reserve(std::size_t bytes) {
    if (!rings_) {
        return output_.reserve(bytes);
    }
    const auto room = rings_->out.reserve(bytes);
    rings_->wants_room = rings_->wants_room || room.empty();
    return room;
}

void LinkEndpoint::commit(std::size_t bytes) {
    if (rings_) {
        rings_->out.commit(bytes);
    } else {
        output_.commit(bytes);
    }
}

// ---- frames

LinkEndpoint::Result LinkEndpoint::handle(const Frame& frame) {
    struct Rule {
        Result (LinkEndpoint::*handler)(const Frame&);
        bool before_open;    // belongs to the handshake
        bool to_connecting;  // sides to which the peer may send it
        bool to_listening;
    };
    static constexpr Rule kRules[] = {
        {&LinkEndpoint::on_hello, true, false, true},
        {&LinkEndpoint::on_welcome, true, true, false},
        {&LinkEndpoint::on_refuse, true, true, false},
        {&LinkEndpoint::on_link, false, true, true},
        {&LinkEndpoint::on_credit, false, true, true},
        {&LinkEndpoint::on_packet, false, true, true},
        {&LinkEndpoint::on_run, false, true, true},
        {&LinkEndpoint::on_memory, false, false, true},
        {&LinkEndpoint::on_pull, false, false, true},
    };
    const Rule& rule = kRules[static_cast<std::size_t>(frame.type) - 1];
    const bool in_place = rule.before_open == (phase_ == Phase::kHandshake) &&
                          (connecting_ ? rule.to_connecting : rule.to_listening);
    if (!in_place) {
        return fail(LinkError::kUnexpectedFrame,
                    "frame type " + std::to_string(static_cast<unsigned>(frame.type)));
    }
    return (this->*rule.handler)(frame);
}

LinkEndpoint::Result LinkEndpoint::on_hello(const Frame& frame) {
    const auto hello = ib::link::Hello::parse(frame.body);
    if (!hello) {
        const bool version = hello.error() == FrameError::kVersion;
        return refuse(
            {version ? ib::link::RefuseReason::kVersion : ib::link::RefuseReason::kMalformedHello,
             version ? "this side speaks version 1 of the fabric link protocol"
                     : to_string(hello.error())});
    }
    auto answer = events_.link_hello(*hello);
    if (!answer) {
        return refuse(std::move(answer.error()));
    }
    send_control(*answer);
    if (auto shared = share(answer->features); !shared) {
        return shared;
    }
    open();
    return {};
}

LinkEndpoint::Result LinkEndpoint::on_welcome(const Frame& frame) {
    const auto welcome = ib::link::Welcome::parse(frame.body);
    if (!welcome) {
        return fail(welcome.error() == FrameError::kVersion ? LinkError::kVersion
                                                            : LinkError::kMalformedFrame,
                    to_string(welcome.error()));
    }
    constexpr std::uint32_t kAskedFor = ib::link::kFeatureRuns | ib::link::kFeatureOneCopy;
    if ((welcome->features & ~asked_ & kAskedFor) != 0) {
        return fail(LinkError::kUnexpectedFrame, "WELCOME with what nobody asked for");
    }
    events_.link_welcome(*welcome);
    if (auto shared = share(welcome->features); !shared) {
        return shared;
    }
    open();
    return {};
}

LinkEndpoint::Result LinkEndpoint::on_refuse(const Frame& frame) {
    const auto refusal = ib::link::Refuse::parse(frame.body);
    if (!refusal) {
        return fail(LinkError::kMalformedFrame, to_string(refusal.error()));
    }
    events_.link_refused(*refusal);
    return fail(LinkError::kRefused, refusal->text);
}

LinkEndpoint::Result LinkEndpoint::refuse(ib::link::Refuse refusal) {
    send_control(refusal);
    return fail(LinkError::kRefused, std::move(refusal.text));
}

LinkEndpoint::Result LinkEndpoint::fail(LinkError error, std::string text) {
    close();
    return std::unexpected(LinkFailure{error, std::move(text)});
}

// ---- link state

void LinkEndpoint::open() {
    if (phase_ == Phase::kHandshake) {  // a handler may have called close()
        phase_ = Phase::kOpen;
        send_offer();
    }
}

void LinkEndpoint::close() {
    phase_ = Phase::kFailed;
    take_down();
}

void LinkEndpoint::take_down() {
    if (active_) {
        active_.reset();
        events_.link_down();
    }
}

void LinkEndpoint::update_link() {
    if (phase_ != Phase::kOpen || offer_unsent_ || !peer_ || active_) {
        return;
    }
    active_ = ib::link::negotiate(offer_, *peer_);
    if (active_) {
        events_.link_up(*active_);
    }
}

void LinkEndpoint::set_offer(const ib::link::Link& offer) {
    if (same_offer(offer_, offer)) {
        return;
    }
    const auto epoch = offer_.epoch;
    offer_ = offer;
    offer_.epoch = epoch;
    retrain();
}

void LinkEndpoint::retrain() {
    if (phase_ == Phase::kOpen) {
        take_down();
        send_offer();
    }
}

void LinkEndpoint::send_offer() {
    auto next = offer_;
    ++next.epoch;
    offer_unsent_ = !send_control(next);
    if (offer_unsent_) {
        return;
    }
    offer_.epoch = next.epoch;
    for (VlState& vl : vls_) {
        vl.sent = vl.send_limit = 0;
    }
    update_link();
}

LinkEndpoint::Result LinkEndpoint::on_link(const Frame& frame) {
    const auto link = ib::link::Link::parse(frame.body);
    if (!link) {
        return fail(LinkError::kMalformedFrame, to_string(link.error()));
    }
    if (peer_ && peer_->epoch == link->epoch) {
        return fail(LinkError::kMalformedFrame, "LINK without a new epoch");
    }
    take_down();
    peer_ = *link;
    for (VlState& vl : vls_) {
        vl.received = vl.granted = 0;
    }
    send_credits();
    update_link();
    return {};
}

// ---- credits

void LinkEndpoint::send_credits() {
    credits_unsent_ = false;
    for (unsigned vl = 0; vl < kDataVls; ++vl) {
        send_credit(vl);
    }
}

void LinkEndpoint::send_credit(unsigned vl) {
    VlState& state = vls_[vl];
    const std::uint32_t limit = state.received + state.capacity - state.held;
    if (!peer_ || state.capacity == 0 || limit - state.granted < grant_step(state.capacity)) {
        return;
    }
    const ib::link::Credit credit{static_cast<std::uint8_t>(vl), peer_->epoch, limit};
    if (send_control(credit)) {
        state.granted = limit;
    } else {
        credits_unsent_ = true;
    }
}

void LinkEndpoint::release(unsigned vl, std::uint32_t blocks) {
    if (vl >= kDataVls) {
        return;
    }
    vls_[vl].held -= std::min(vls_[vl].held, blocks);
    if (phase_ == Phase::kOpen) {
        send_credit(vl);
    }
}

LinkEndpoint::Result LinkEndpoint::on_credit(const Frame& frame) {
    const auto credit = ib::link::Credit::parse(frame.body);
    if (!credit) {
        return fail(LinkError::kMalformedFrame, to_string(credit.error()));
    }
    if (credit->epoch != offer_.epoch) {
        return {};
    }
    VlState& vl = vls_[credit->vl];
    if (static_cast<std::int32_t>(credit->limit - vl.send_limit) < 0) {
        return fail(LinkError::kMalformedFrame, "credit limit moves backwards");
    }
    vl.send_limit = credit->limit;
    return {};
}

std::uint32_t LinkEndpoint::credits(unsigned vl) const {
    return active_ && vl < kDataVls ? vls_[vl].send_limit - vls_[vl].sent : 0;
}

// ---- packets in

std::expected<ib::Burst, PacketFault> check_packet(const ib::PacketBytes& body, bool with_crcs,
                                                   std::uint8_t mtu_cap) {
    const std::size_t crc_bytes = with_crcs ? kCrcBytes : 0;
    const auto lrh = ib::parse_lrh(body, with_crcs ? ib::Crcs::kIcrcAndVcrc : ib::Crcs::kElided);
    // Raw packets, which have no ICRC, are not spoken here.
    if (!lrh || !is_iba(*lrh) || body.size() < kMinPacket + crc_bytes) {
        return std::unexpected(PacketFault::kMalformed);
    }
    if (lrh->pkt_len * 4U > max_packet_bytes(mtu_cap)) {
        return std::unexpected(PacketFault::kTooLong);
    }
    if (!with_crcs) {
        return ib::Burst(*lrh, body);
    }
    const auto bytes = body.head().first(body.size() - crc_bytes);
    if (!ib::vcrc_is_good(body.head())) {
        return std::unexpected(PacketFault::kVcrc);
    }
    if (!icrc_is_good(bytes, bytes.data() + bytes.size())) {
        return std::unexpected(PacketFault::kIcrc);
    }
    return ib::Burst(*lrh, bytes);
}

// Receive buffer that a packet takes; false: more than was granted, and it takes none. What is held
// never exceeds the buffer, however far the peer has run ahead of its limit.
bool LinkEndpoint::take_credit(unsigned vl, std::uint32_t blocks) {
    VlState& state = vls_[vl];
    state.received += blocks;
    const bool granted = static_cast<std::int32_t>(state.granted - state.received) >= 0;
    if (!granted || state.capacity - state.held < blocks) {
        return false;
    }
    state.held += blocks;
    return true;
}

// Packets that take_credit() has refused are dropped (IBA 7.12.2). The peer has counted them as
// sent, and so have we: what it may send goes on from there.
void LinkEndpoint::overrun(unsigned vl, std::uint32_t packets) {
    send_credit(vl);
    for (; active_ && packets != 0; --packets) {
        events_.link_packet_fault(PacketFault::kOverrun);
    }
}

LinkEndpoint::Result LinkEndpoint::on_packet(const Frame& frame) {
    if (!peer_) {
        return fail(LinkError::kUnexpectedFrame, "PACKET before LINK");
    }
    const ib::PacketBytes body(frame.body, frame.shared.empty() ? frame.body : frame.shared);
    const unsigned vl = body.head()[0] >> 4;
    std::uint32_t blocks = 0;
    if (vl != kVl15) {
        blocks = ib::link::credit_blocks(body.size() + (frame.crc_elided() ? kCrcBytes : 0));
        if (!take_credit(vl, blocks)) {
            overrun(vl, 1);
            return {};
        }
    }
    hand_over(body, !frame.crc_elided(), vl, blocks);
    return {};
}

void LinkEndpoint::hand_over(const ib::PacketBytes& body, bool with_crcs, unsigned vl,
                             std::uint32_t blocks) {
    auto packet = check_packet(body, with_crcs, offer_.mtu_cap);
    if (!active_ || !packet) {
        release(vl, blocks);
        if (active_) {
            events_.link_packet_fault(packet.error());
        }
        return;
    }
    ib::Placement here;
    (void)events_.link_burst(*packet, here);
}

// ---- packets out

bool LinkEndpoint::can_send(unsigned vl, std::size_t bytes, SendCrc crc) const {
    const std::size_t on_wire = bytes + (crc == SendCrc::kComputed ? kCrcBytes : 0);
    if (!active_ || bytes < ib::Lrh::kSize || on_wire > ib::link::kMaxBody) {
        return false;
    }
    if (vl == kVl15) {
        return finds_room(kHeaderSize + on_wire);
    }
    return credits(vl) >= blocks_of(bytes, crc) &&
           finds_room(kHeaderSize + on_wire + kReservedOutput);
}

// Several packets leave room for what must not wait behind them, as one packet does.
std::uint32_t LinkEndpoint::limit(const BurstRequest& request) const {
    if (request.packets > 1 && runs_ && active_ && request.vl != kVl15) {
        constexpr std::size_t kBeside = kHeaderSize + ib::kBurstPayload + kReservedOutput;
        const std::uint32_t most =
            std::min({request.packets, credits(request.vl) / packet_blocks(request.longest),
                      static_cast<std::uint32_t>(ib::kMaxBurstPayload / request.mtu)});
        const std::size_t wanted = ring_bytes(kBeside + std::size_t{most} * request.mtu);
        const std::size_t room = rings_->out.room_for(wanted);
        const std::uint32_t packets =
            room >= wanted
                ? most
                : static_cast<std::uint32_t>((room - std::min(room, kBeside)) / request.mtu);
        if (packets > 1) {
            return packets;
        }
    }
    return can_send(request.vl, request.longest, request.crc) ? 1 : 0;
}

BurstRoom LinkEndpoint::begin(const BurstRequest& request) {
    const std::uint32_t packets = request.is_offer ? offer_limit(request) : limit(request);
    if (packets == 0) {
        return {};
    }
    const bool computed = request.crc == SendCrc::kComputed;
    const std::size_t bytes =
        request.is_offer ? ib::kBurstPayload + ib::link::reference_bytes(ib::link::kMaxPieces)
        : packets > 1    ? ib::kBurstPayload + std::size_t{packets} * request.mtu
                         : request.longest + (computed ? kCrcBytes : 0);
    pending_ = {.frame = reserve(kHeaderSize + bytes),
                .vl = request.vl,
                .crc = request.crc,
                .is_offer = request.is_offer};
    const auto body = pending_.frame.subspan(kHeaderSize);
    return {.bytes = body.first(request.is_offer ? ib::kBurstPayload
                                : packets > 1    ? bytes
                                                 : request.longest),
            .packets = packets};
}

void LinkEndpoint::commit(const ib::BurstSize& size, const OfferedPayload& offered) {
    const Pending pending = std::exchange(pending_, {});
    if (pending.frame.empty()) {
        return;
    }
    const auto room = pending.frame.subspan(kHeaderSize);
    const bool computed = pending.crc == SendCrc::kComputed;
    std::size_t body = size.packets > 1 ? size.body() : size.first + (computed ? kCrcBytes : 0);
    if (pending.is_offer) {
        body = ib::kBurstPayload + ib::link::reference_bytes(offered.pieces.size());
        ib::link::write_reference(room.subspan(ib::kBurstPayload), offered.handle,
                                  static_cast<std::uint32_t>(size.payload), offered.pieces);
    } else if (computed) {
        append_crcs(room.first(body));
    }
    const auto header =
        size.packets > 1
            ? ib::link::run_header(body, pending.is_offer ? ib::link::kFlagReference : 0)
            : ib::link::packet_header(body, pending.crc == SendCrc::kElided);
    std::memcpy(pending.frame.data(), header.data(), kHeaderSize);
    commit(kHeaderSize + body);
    if (pending.vl != kVl15) {
        vls_[pending.vl].sent += size.packets > 1 ? size.sum(0, size.packets, packet_blocks)
                                                  : blocks_of(size.first, pending.crc);
    }
}

}  // namespace pib::link
