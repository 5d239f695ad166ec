// SPDX-License-Identifier: GPL-2.0-or-later
#include "stranger.h"

namespace pib::conformance {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr uint8_t kCrcElided = 1;
constexpr uint16_t kMajor = 1;
constexpr uint16_t kMinor = 3;
constexpr uint64_t kSwitchGuid = 0x0650'0000'0000'0001;
constexpr size_t kDescriptionBytes = 64;

Frame welcome() {
    Frame frame{.type = static_cast<uint8_t>(FrameType::kWelcome)};
    put(frame.body, kMajor, 2);
    put(frame.body, kMinor, 2);
    put(frame.body, 0, 4);  // features
    put(frame.body, kSwitchGuid, 8);
    put(frame.body, 1, 1);  // port
    frame.body.resize(32);
    return frame;
}

}  // namespace

void put(Bytes& to, uint64_t value, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;) {
        to.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
}

uint64_t number_at(ByteSpan bytes, size_t offset, unsigned count) {
    uint64_t value = 0;
    for (size_t i = offset; i < offset + count; ++i) {
        value = value << 8 | bytes[i];
    }
    return value;
}

void Stranger::receive(ByteSpan bytes) {
    input_.insert(input_.end(), bytes.begin(), bytes.end());
    size_t at = 0;
    while (input_.size() - at >= kHeaderBytes) {
        const ByteSpan rest = ByteSpan(input_).subspan(at);
        const size_t length = number_at(rest, 4, 4);
        if (rest.size() < kHeaderBytes + length) {
            break;
        }
        const ByteSpan body = rest.subspan(kHeaderBytes, length);
        take({.type = rest[0], .flags = rest[1], .body = {body.begin(), body.end()}});
        at += kHeaderBytes + length;
    }
    input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(at));
}

void Stranger::take(const Frame& frame) {
    if (frame.type != static_cast<uint8_t>(FrameType::kPacket)) {
        frames_.push_back(frame);
        answer(frame);
        return;
    }
    if (const auto packet = read(frame.body, (frame.flags & kCrcElided) != 0)) {
        packets_.push_back(*packet);
    } else {
        ++malformed_;
    }
}

void Stranger::answer(const Frame& frame) {
    switch (static_cast<FrameType>(frame.type)) {
        case FrameType::kHello:
            if (answers) {
                send(welcome());
                send_link();
            }
            break;
        case FrameType::kWelcome:
            if (answers) {
                send_link();
            }
            break;
        case FrameType::kLink:
            peer_epoch_ = static_cast<uint16_t>(number_at(frame.body, 6, 2));
            for (uint8_t vl = 0; answers && vl < kVls; ++vl) {
                send_credit(vl, grant);
            }
            break;
        case FrameType::kCredit:
            granted_[frame.body[0] % granted_.size()] =
                static_cast<uint32_t>(number_at(frame.body, 4, 4));
            break;
        default:
            break;
    }
}

void Stranger::send(const Frame& frame) {
    output_.push_back(frame.type);
    output_.push_back(frame.flags);
    put(output_, 0, 2);
    put(output_, frame.body.size(), 4);
    output_.insert(output_.end(), frame.body.begin(), frame.body.end());
}

void Stranger::send_hello(uint64_t port_guid) {
    Frame frame{.type = static_cast<uint8_t>(FrameType::kHello), .body = {'P', 'I', 'B', 'L'}};
    put(frame.body, kMajor, 2);
    put(frame.body, kMinor, 2);
    put(frame.body, 0, 4);  // features
    put(frame.body, 1, 1);  // role: channel adapter
    put(frame.body, 1, 1);  // port
    put(frame.body, 0, 2);
    put(frame.body, port_guid - 1, 8);  // node
    put(frame.body, port_guid, 8);
    put(frame.body, 0, 8);
    frame.body.resize(frame.body.size() + kDescriptionBytes + 8);
    send(frame);
}

void Stranger::send_link() {
    Frame frame{
        .type = static_cast<uint8_t>(FrameType::kLink),
        .body = {offer.up, offer.width, offer.speed, offer.speed_ext, offer.mtu_cap, offer.vl_cap}};
    put(frame.body, ++epoch_, 2);
    put(frame.body, 0, 4);
    send(frame);
}

void Stranger::send_credit(uint8_t vl, uint32_t limit) {
    Frame frame{.type = static_cast<uint8_t>(FrameType::kCredit), .body = {vl, 0}};
    put(frame.body, peer_epoch_, 2);
    put(frame.body, limit, 4);
    send(frame);
}

void Stranger::send_packet(const Bytes& bytes, bool elided) {
    send(Frame{.type = static_cast<uint8_t>(FrameType::kPacket),
               .flags = elided ? kCrcElided : uint8_t{0},
               .body = bytes});
}

}  // namespace pib::conformance
