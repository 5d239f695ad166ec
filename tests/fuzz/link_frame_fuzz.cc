// SPDX-License-Identifier: GPL-2.0-or-later
// The byte stream of a fabric link. The first byte chooses how the rest is cut into reads. Every
// frame that is accepted must be written back as it came.
#include <algorithm>

#include "fuzz_target.h"
#include "ib/wire/link_frame.h"

namespace pib::fuzz {
namespace {

using namespace link;

template <typename T>
void check_body(std::span<const uint8_t> body) {
    const auto value = T::parse(body);
    if (!value) {
        require(to_string(value.error())[0] != '\0', "every error has a text");
        return;
    }
    Bytes written;
    append(written, *value);
    require(written.size() == kHeaderSize + body.size(), "a frame keeps its length");
    require(std::ranges::equal(std::span(written).subspan(kHeaderSize), body), "a frame survives");
}

void check_link(std::span<const uint8_t> body) {
    check_body<Link>(body);
    const auto link = Link::parse(body);
    if (!link) {
        return;
    }
    if (const auto active = negotiate(*link, *link)) {
        require(link->up, "a link needs both sides");
        require((active->width & link->width_enabled) == active->width, "width was enabled");
        require(active->speed != 0 || active->speed_ext != 0, "a link has a speed");
    }
}

void check_frame(const Frame& frame) {
    switch (frame.type) {
        case FrameType::kHello:
            return check_body<Hello>(frame.body);
        case FrameType::kWelcome:
            return check_body<Welcome>(frame.body);
        case FrameType::kRefuse:
            return check_body<Refuse>(frame.body);
        case FrameType::kLink:
            return check_link(frame.body);
        case FrameType::kCredit:
            return check_body<Credit>(frame.body);
        case FrameType::kPacket:
            require(frame.body.size() >= 8 && frame.body.size() <= kMaxBody, "a packet fits");
            return;
        case FrameType::kMemory:
            return check_body<Memory>(frame.body);
        case FrameType::kBurst:
        case FrameType::kPull:
            break;  // not on a stream: the reader refuses them
    }
    require(false, "the reader knows which frames a stream has");
}

void check_offer(std::span<const uint8_t> body) {
    const auto offer = Offer::parse(body);
    if (!offer) {
        return;
    }
    require(offer->segments.size() <= kMaxSegments, "segments are bounded");
    require(offer->segments.empty() || segment_bytes(offer->segments) == offer->bytes,
            "segments are all of it");
    Bytes written(body.size());
    write_offer(written, offer->handle, offer->bytes, offer->segments);
    require(std::ranges::equal(written, body), "an offer survives");
}

Bytes body_of(const Bytes& frame) {
    return {frame.begin() + kHeaderSize, frame.end()};
}

}  // namespace

std::vector<Bytes> seeds() {
    const Hello hello{.role = Role::kSwitch,
                      .port_number = 3,
                      .node_guid = ib::Guid(1),
                      .port_guid = ib::Guid(2),
                      .node_description = "node \xC3\xBC"};
    const Link link{.up = true,
                    .width_enabled = 3,
                    .speed_enabled = 7,
                    .speed_ext_enabled = 15,
                    .mtu_cap = 5,
                    .vl_cap = 4,
                    .epoch = 1};
    Bytes client = {7};
    append(client, hello);
    append(client, link);
    append(client, Credit{.vl = 0, .epoch = 1, .limit = 1000});
    append_packet(client, Bytes(60, 0x11), true);
    append_packet(client, Bytes(66, 0x22), false);
    Bytes server = {255};
    append(server, Welcome{.switch_guid = ib::Guid(9), .port_number = 4});
    append(server, link);
    Bytes refusal = {0};
    append(refusal, Refuse{RefuseReason::kNoFreePort, "all 36 ports are taken"});
    Bytes memory = {3};
    append(memory, Memory{{1 << 20, 4096}});
    const std::vector<BlockSegment> segments = {{0, 0, 4096}, {8192, 1, 100}};
    Bytes pull;
    append(pull,
           Pull{.handle = 1, .sequence = 2, .offset = 3, .length = 4196, .segments = segments});
    Bytes offer(offer_bytes(2));
    write_offer(offer, 7, 4196, segments);
    return {client, server, refusal, memory, body_of(pull), offer};
}

void run(std::span<const uint8_t> input) {
    check_body<Pull>(input);  // no stream has PULL frames or offers
    check_offer(input);
    Input in(input);
    const size_t chunk = 1 + in.byte() * 4U;
    FrameReader reader(0);
    while (!in.empty()) {
        const auto space = reader.space();
        require(!space.empty(), "a drained reader has room");
        const auto bytes = in.take(std::min(chunk, space.size()));
        std::ranges::copy(bytes, space.begin());
        reader.commit(bytes.size());
        for (;;) {
            const auto frame = reader.next();
            if (!frame) {
                require(!reader.next().has_value(), "an error is final");
                return;
            }
            if (!*frame) {
                break;
            }
            check_frame(**frame);
        }
    }
}

}  // namespace pib::fuzz
