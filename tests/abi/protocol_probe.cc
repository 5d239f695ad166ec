// SPDX-License-Identifier: GPL-2.0-or-later
// Prints frames of the fabric link as this tree writes them; test_protocol.py compares them with
// the manual. "FRAME field HEX": FRAME with all bits of one field set (or as many as the field
// allows, in several lines); "FRAME - HEX": all fields zero; "NAME value": a constant.
#include <algorithm>
#include <cstdio>
#include <string>

#include "ib/link/peer_copy_control.h"
#include "ib/link/shared_ring.h"
#include "ib/wire/link_frame.h"

namespace {

using namespace pib::link;
using namespace pib::ib;

void show(const char* frame, const char* field, std::span<const uint8_t> bytes) {
    std::printf("%s %s ", frame, field);
    for (const uint8_t byte : bytes) {
        std::printf("%02x", byte);
    }
    std::printf("\n");
}

template <typename Frame>
void show_body(const char* name, const char* field, const Frame& frame) {
    std::vector<uint8_t> out;
    append(out, frame);
    show(name, field, std::span(out).subspan(kHeaderSize));
}

// `frame` with one member set.
template <typename Frame, typename Value>
void show_member(const char* name, const char* field, Frame frame, Value Frame::* member,
                 Value value) {
    frame.*member = std::move(value);
    show_body(name, field, frame);
}

void show_header() {
    show("HEADER", "-", packet_header(0, false));
    show("HEADER", "flags", packet_header(0, true));
    show("HEADER", "length", packet_header(0xffffffff, false));
    std::vector<uint8_t> out;
    append(out, Hello{});
    out.resize(kHeaderSize);
    out[7] = 0;  // clears HELLO's length, so that only the type is left
    show("HEADER", "type", out);
}

constexpr pib::ib::Guid kOnes{0xffffffffffffffff};

void show_hello() {
    const Hello zero{.version_minor = 0,
                     .features = 0,
                     .role = Role{0},
                     .port_number = 0,
                     .node_guid = {},
                     .port_guid = {},
                     .node_description = {}};
    show_body("HELLO", "-", zero);
    show_member("HELLO", "version_minor", zero, &Hello::version_minor, uint16_t{0xffff});
    show_member("HELLO", "features", zero, &Hello::features, 0xffffffffU);
    show_member("HELLO", "role", zero, &Hello::role, Role::kSwitch);
    show_member("HELLO", "port_number", zero, &Hello::port_number, uint8_t{0xff});
    show_member("HELLO", "node_guid", zero, &Hello::node_guid, kOnes);
    show_member("HELLO", "port_guid", zero, &Hello::port_guid, kOnes);
    show_member("HELLO", "node_description", zero, &Hello::node_description, std::string(99, 'x'));
}

void show_answers() {
    const Welcome zero{.version_minor = 0, .features = 0, .switch_guid = {}, .port_number = 0};
    show_body("WELCOME", "-", zero);
    show_member("WELCOME", "version_minor", zero, &Welcome::version_minor, uint16_t{0xffff});
    show_member("WELCOME", "features", zero, &Welcome::features, 0xffffffffU);
    show_member("WELCOME", "switch_guid", zero, &Welcome::switch_guid, kOnes);
    show_member("WELCOME", "port_number", zero, &Welcome::port_number, uint8_t{0xff});
    const Refuse refuse{};
    show_body("REFUSE", "-", refuse);
    show_member("REFUSE", "reason", refuse, &Refuse::reason, RefuseReason{0xffff});
    show_member("REFUSE", "text_length", refuse, &Refuse::text, std::string(255, 'x'));
    show_member("REFUSE", "text_length", refuse, &Refuse::text, std::string(256, 'x'));
}

void show_link_state() {
    const Link link{};
    const uint8_t ones = 0xff;
    show_body("LINK", "-", link);
    show_member("LINK", "up", link, &Link::up, true);
    show_member("LINK", "width_enabled", link, &Link::width_enabled, ones);
    show_member("LINK", "speed_enabled", link, &Link::speed_enabled, ones);
    show_member("LINK", "speed_ext_enabled", link, &Link::speed_ext_enabled, ones);
    show_member("LINK", "mtu_cap", link, &Link::mtu_cap, ones);
    show_member("LINK", "vl_cap", link, &Link::vl_cap, ones);
    show_member("LINK", "epoch", link, &Link::epoch, uint16_t{0xffff});
    const Credit credit{};
    show_body("CREDIT", "-", credit);
    show_member("CREDIT", "vl", credit, &Credit::vl, ones);
    show_member("CREDIT", "epoch", credit, &Credit::epoch, uint16_t{0xffff});
    show_member("CREDIT", "limit", credit, &Credit::limit, 0xffffffffU);
}

void show_burst() {
    std::vector<uint8_t> zero(kBurstPayload);
    show("BURST", "-", zero);
    const auto field = [&](const char* name, size_t at, size_t bytes) {
        auto body = zero;
        std::fill_n(body.begin() + static_cast<ptrdiff_t>(at), bytes, 0xff);
        show("BURST", name, body);
    };
    field("packets", 0, 2);
    field("mtu", 2, 2);
    field("first", kBurstFirst, kBurstHeadersSize);
    field("last", kBurstLast, kBurstHeadersSize);
}

// Shows a field that is written by hand: `bytes` bytes from `at` on, in a body of `size`.
void show_ones(const char* frame, const char* name, size_t size, size_t at, size_t bytes) {
    std::vector<uint8_t> body(size);
    std::fill_n(body.begin() + static_cast<ptrdiff_t>(at), bytes, 0xff);
    show(frame, name, body);
}

void show_memory() {
    const Memory none{};
    show_body("MEMORY", "-", none);
    std::vector<uint8_t> all;
    append(all, Memory{std::vector<uint64_t>(0xffff)});
    show("MEMORY", "blocks", std::span(all).subspan(kHeaderSize, Memory::kFixed));
}

template <typename Value>
void show_pull(const char* field, Value Pull::* member, Value value) {
    show_member("PULL", field, Pull{}, member, value);
}

void show_pulls() {
    show_body("PULL", "-", Pull{});
    show_pull("handle", &Pull::handle, 0xffffffffffffffffU);
    show_pull("sequence", &Pull::sequence, 0xffffffffU);
    show_pull("offset", &Pull::offset, 0xffffffffU);
    show_pull("length", &Pull::length, 0xffffffffU);
    // The number of segments must be valid, so only the parser can show where it is.
    show_ones("PULL", "segments", Pull::kFixed, 20, 4);
}

void show_offer(const char* field, uint64_t handle, uint32_t bytes) {
    std::vector<uint8_t> out(offer_bytes(0));
    write_offer(out, handle, bytes, {});
    show("OFFER", field, out);
}

void show_segment(const char* field, const BlockSegment& segment) {
    std::vector<uint8_t> out(offer_bytes(1));
    write_offer(out, 0, 0, {&segment, 1});
    show("SEGMENT", field, std::span(out).subspan(Offer::kFixed));
}

void show_offers() {
    show_offer("-", 0, 0);
    show_offer("handle", 0xffffffffffffffffU, 0);
    show_offer("bytes", 0, 0xffffffffU);
    show_ones("OFFER", "segments", Offer::kFixed, 12, 4);
    show_segment("-", {});
    show_segment("offset", {.offset = 0xffffffffffffffffU});
    show_segment("block", {.block = 0xffffffffU});
    show_segment("length", {.length = 0xffffffffU});
}

void show_copying_field(const char* field, auto set) {
    pib::link::PeerCopyControl control;
    set(control);
    show("PEER_COPY", field, {reinterpret_cast<const uint8_t*>(&control), sizeof(control)});
}

void show_copying() {
    using Control = pib::link::PeerCopyControl;
    constexpr uint64_t ones = 0xffffffffffffffffU;
    show_copying_field("-", [](Control&) {});
    show_copying_field("answer", [](Control& c) { c.answer = ones; });
    show_copying_field("mapped", [](Control& c) { c.mapped = 0xffffffffU; });
    show_copying_field("reading", [](Control& c) { c.reading = ones; });
    show_copying_field("cancel", [](Control& c) { c.cancel = 0xffffffffU; });
    show_copying_field("finished", [](Control& c) { c.finished = ones; });
    show_copying_field("flags", [](Control& c) { c.flags = 0xffffffffU; });
    show_copying_field("slots", [](Control& c) {
        for (auto& slot : c.slots) {
            slot = ones;
        }
    });
}

void show_peer_copy_constants() {
    using namespace pib::link;
    std::printf("FEATURE_PEER_COPY %u\nFLAG_OFFER %u\nMAX_OFFER_BYTES %zu\n", kFeaturePeerCopy,
                kFlagOffer, kMaxOfferBytes);
    std::printf("MAX_SEGMENTS %zu\nMAX_MEMORY_BLOCKS %zu\nBOUNCE_BLOCK %u\n", kMaxSegments,
                kMaxMemoryBlocks, pib::link::kBounceBlock);
    std::printf("BOUNCE_OFFSET %zu\nPAGE_BYTES %zu\nMAPPED %u\nNOT_MAPPED %u\nALL_REGISTERED %u\n",
                kBounceOffset, kPageBytes, kMapped, kNotMapped, PeerCopyControl::kAllRegistered);
}

void show_control_field(const char* field, std::atomic<uint32_t> pib::link::RingControl::* member) {
    pib::link::RingControl control;
    if (member != nullptr) {
        control.*member = 0xffffffffU;
    }
    show("CONTROL", field, {reinterpret_cast<const uint8_t*>(&control), sizeof(control)});
}

void show_control() {
    using pib::link::RingControl;
    show_control_field("-", nullptr);
    show_control_field("produced", &RingControl::produced);
    show_control_field("room_event", &RingControl::room_event);
    show_control_field("consumed", &RingControl::consumed);
    show_control_field("data_event", &RingControl::data_event);
    show_control_field("wakes", &RingControl::wakes);
}

}  // namespace

int main() {
    show_header();
    show_hello();
    show_answers();
    show_link_state();
    show_burst();
    show_memory();
    show_pulls();
    show_offers();
    show_copying();
    show_control();
    show_peer_copy_constants();
    std::printf("VERSION_MAJOR %u\nVERSION_MINOR %u\nMAX_BODY %zu\n", kVersionMajor, kVersionMinor,
                kMaxBody);
    std::printf("FEATURE_SHARED_MEMORY %u\nFEATURE_BURSTS %u\nRING_ALIGN %u\n",
                kFeatureSharedMemory, kFeatureBursts, pib::link::kRingAlign);
    std::printf("MAX_BURST_PAYLOAD %zu\nMAX_BURST_PACKETS %u\n", kMaxBurstPayload,
                kMaxBurstPackets);
    std::printf("FLAG_CRC_ELIDED %u\nCREDIT_BLOCK_BYTES %zu\n", kFlagCrcElided, kCreditBlockBytes);
}
