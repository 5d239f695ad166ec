// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a link as docs/fabric-protocol.md describes it, without the code of ib/link: the
// switch's end for a device, or an adapter's end for a switch. It answers the handshake by itself
// and grants credits after each LINK; the check sends everything else.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "packet.h"

namespace pib::conformance {

enum class FrameType : uint8_t {
    kHello = 1,
    kWelcome = 2,
    kRefuse = 3,
    kLink = 4,
    kCredit = 5,
    kPacket = 6,
};

struct Frame {
    uint8_t type = 0;
    uint8_t flags = 0;
    Bytes body = {};
};

// Values of a LINK frame.
struct LinkOffer {
    uint8_t up = 1;
    uint8_t width = 3;
    uint8_t speed = 7;
    uint8_t speed_ext = 1;
    uint8_t mtu_cap = 5;
    uint8_t vl_cap = 4;  // VL0 to VL7
};

class Stranger {
  public:
    static constexpr unsigned kVls = 8;
    static constexpr uint32_t kBlocks = 1u << 16;

    // A check sets these before the link comes up.
    LinkOffer offer;
    uint32_t grant = kBlocks;  // 64-byte blocks on each VL
    bool answers = true;       // HELLO by WELCOME and LINK, WELCOME by LINK, LINK by CREDIT

    // ---- bytes of the stream
    void receive(ByteSpan bytes);
    Bytes take_output() { return std::exchange(output_, {}); }

    // ---- frames
    void send(const Frame& frame);
    void send_raw(const Bytes& bytes) { output_.insert(output_.end(), bytes.begin(), bytes.end()); }
    void send_hello(uint64_t port_guid);
    void send_link();  // with a new epoch
    void send_credit(uint8_t vl, uint32_t limit);
    void send(const Packet& packet) { send_packet(write(packet)); }
    void send_packet(const Bytes& bytes, bool elided = false);
    // Frames received since the last call, except packets.
    std::vector<Frame> take_frames() { return std::exchange(frames_, {}); }
    std::vector<Packet> take_packets() { return std::exchange(packets_, {}); }

    unsigned malformed() const { return malformed_; }  // packets that IBA does not allow
    // Total of blocks that the other end has granted on a VL.
    uint32_t granted(uint8_t vl) const { return granted_[vl]; }
    uint16_t peer_epoch() const { return peer_epoch_; }

  private:
    void take(const Frame& frame);
    void answer(const Frame& frame);

    Bytes input_;
    Bytes output_;
    std::vector<Frame> frames_;
    std::vector<Packet> packets_;
    std::array<uint32_t, 15> granted_{};
    uint16_t epoch_ = 0;
    uint16_t peer_epoch_ = 0;
    unsigned malformed_ = 0;
};

// Appends `value`, its most significant byte first.
void put(Bytes& to, uint64_t value, unsigned bytes);
uint64_t number_at(ByteSpan bytes, size_t offset, unsigned count);

}  // namespace pib::conformance
