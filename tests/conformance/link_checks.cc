// SPDX-License-Identifier: GPL-2.0-or-later
// The link protocol at the device's end: handshake, link state, frames that end the link.
#include "tables.h"
#include "trial.h"

namespace pib::conformance {
namespace {

// Notes whether the device has closed the connection, and the state of its port.
void note_link(Trial& t) {
    t.settle();
    t.stranger.take_frames();
    t.stranger.take_packets();
    static constexpr std::string_view kStates[] = {"no state", "Down", "Initialize", "Armed",
                                                   "Active"};
    pib_hca_query_port out{};
    hca::test::MiniDriver::must(t.bench.driver.command_out(PIB_HCA_CMD_QUERY_PORT, 1, out),
                                "QUERY_PORT");
    t.note(std::string(t.bench.host.links[1].closes != 0 ? "closed" : "open") + ", " +
           std::string(kStates[out.state]));
}

void connected(Trial& t) {
    t.bench.device->links().connected(1, false);
    t.settle();
}

Frame frame(FrameType type, size_t bytes) {
    return {.type = static_cast<uint8_t>(type), .body = Bytes(bytes)};
}

// Sends a wrong frame on an Active link.
void behind(Trial& t, const Frame& wrong) {
    t.bring_up();
    t.put_frame(wrong);
    note_link(t);
}

// Answers HELLO by a WELCOME that `change` has changed.
void welcomed(Trial& t, const std::function<void(Bytes&)>& change) {
    t.stranger.answers = false;
    connected(t);
    Frame welcome = frame(FrameType::kWelcome, 32);
    welcome.body[1] = 1;
    welcome.body[3] = 3;
    welcome.body[15] = 9;
    welcome.body[16] = 1;
    change(welcome.body);
    t.put_frame(welcome);
    t.stranger.send_link();
    note_link(t);
}

void offered(Trial& t, const LinkOffer& offer) {
    t.stranger.offer = offer;
    connected(t);
    note_link(t);
}

Frame link_frame(uint16_t epoch, uint8_t up = 1) {
    Frame link = frame(FrameType::kLink, 0);
    link.body = {up, 3, 7, 1, 5, 4};
    put(link.body, epoch, 2);
    put(link.body, 0, 4);
    return link;
}

Frame credit_frame(uint8_t vl, uint8_t reserved, uint16_t epoch) {
    Frame credit = frame(FrameType::kCredit, 0);
    credit.body = {vl, reserved};
    put(credit.body, epoch, 2);
    put(credit.body, 5, 4);
    return credit;
}

void with_header(Trial& t, const Bytes& header_and_body) {
    t.bring_up();
    t.stranger.send_raw(header_and_body);
    note_link(t);
}

constexpr Check kChecks[] = {
    {"L01", "link: Handshake",
     "HELLO has the magic, version 1, the role of an adapter and the port.",
     [](Trial& t) {
         connected(t);
         const Frame hello = t.stranger.take_frames()[0];
         const ByteSpan body(hello.body);
         t.note(hello.type == 1 && body.size() == 112 && body[0] == 'P' && body[1] == 'I' &&
                        body[2] == 'B' && body[3] == 'L' && number_at(body, 4, 2) == 1 &&
                        body[12] == 1 && body[13] == 1 && number_at(body, 14, 2) == 0 &&
                        number_at(body, 24, 8) == 0x5254000000000101 &&
                        number_at(body, 32, 8) == 0 && number_at(body, 104, 8) == 0
                    ? "right HELLO"
                    : "wrong HELLO");
     },
     "right HELLO"},
    {"L02", "link: Handshake", "Before WELCOME the device sends only HELLO.",
     [](Trial& t) {
         t.stranger.answers = false;
         connected(t);
         t.note(std::to_string(t.stranger.take_frames().size()) + " frame");
     },
     "1 frame"},
    {"L03", "link: Handshake", "A right WELCOME and LINK bring the port to Initialize.",
     [](Trial& t) { welcomed(t, [](Bytes&) {}); }, "open, Initialize"},
    {"L04", "link: Handshake", "A WELCOME of another major version ends the link.",
     [](Trial& t) { welcomed(t, [](Bytes& b) { b[1] = 2; }); }, "closed, Down"},
    {"L05", "link: Handshake", "A WELCOME of a newer minor version is taken.",
     [](Trial& t) { welcomed(t, [](Bytes& b) { b[3] = 9; }); }, "open, Initialize"},
    {"L06", "link: Handshake", "A WELCOME with reserved bytes ends the link.",
     [](Trial& t) { welcomed(t, [](Bytes& b) { b[31] = 1; }); }, "closed, Down"},
    {"L07", "link: Handshake",
     "A WELCOME with a feature that the device has not asked for ends it.",
     [](Trial& t) { welcomed(t, [](Bytes& b) { b[7] = 2; }); }, "closed, Down"},
    {"L08", "link: Handshake", "A WELCOME that is a byte short ends the link.",
     [](Trial& t) { welcomed(t, [](Bytes& b) { b.pop_back(); }); }, "closed, Down"},
    {"L09", "link: Handshake", "LINK before WELCOME ends the link.",
     [](Trial& t) {
         t.stranger.answers = false;
         connected(t);
         t.put_frame(link_frame(1));
         note_link(t);
     },
     "closed, Down"},
    {"L10", "link: Handshake", "REFUSE ends the link.",
     [](Trial& t) {
         t.stranger.answers = false;
         connected(t);
         Frame refuse = frame(FrameType::kRefuse, 4);
         refuse.body[1] = 3;
         t.put_frame(refuse);
         note_link(t);
     },
     "closed, Down"},
    {"L11", "link: Handshake", "A second WELCOME ends the link.",
     [](Trial& t) {
         Frame welcome = frame(FrameType::kWelcome, 32);
         welcome.body[1] = 1;
         behind(t, welcome);
     },
     "closed, Down"},
    {"L12", "link: Handshake", "A HELLO from the switch's end ends the link.",
     [](Trial& t) { behind(t, frame(FrameType::kHello, 112)); }, "closed, Down"},
    {"L13", "link: Transport", "An unknown type of frame ends the link.",
     [](Trial& t) { behind(t, {.type = 99}); }, "closed, Down"},
    {"L14", "link: Transport", "Frame type 0 ends the link.",
     [](Trial& t) { behind(t, {.type = 0}); }, "closed, Down"},
    {"L15", "link: Transport", "A frame longer than MAX_BODY ends the link at its header.",
     [](Trial& t) { with_header(t, {6, 0, 0, 0, 0, 0, 0x20, 1}); }, "closed, Down"},
    {"L16", "link: Transport", "Reserved bytes in a frame's header end the link.",
     [](Trial& t) { with_header(t, {6, 0, 0, 1, 0, 0, 0, 0}); }, "closed, Down"},
    {"L17", "link: Transport", "An undefined flag of PACKET ends the link.",
     [](Trial& t) { behind(t, {.type = 6, .flags = 2, .body = Bytes(28)}); }, "closed, Down"},
    {"L18", "link: Transport", "A flag of LINK ends the link.",
     [](Trial& t) {
         Frame link = link_frame(77);
         link.flags = 1;
         behind(t, link);
     },
     "closed, Down"},
    {"L19", "link: Bursts", "A BURST on a stream ends the link.",
     [](Trial& t) { behind(t, {.type = 7, .body = Bytes(184)}); }, "closed, Down"},
    {"L20", "link: Peer copy", "MEMORY from the switch's end ends the link.",
     [](Trial& t) { behind(t, {.type = 8, .body = Bytes(16)}); }, "closed, Down"},
    {"L21", "link: Peer copy", "PULL from the switch's end ends the link.",
     [](Trial& t) { behind(t, {.type = 9, .body = Bytes(24)}); }, "closed, Down"},
    {"L22", "link: Link state", "LINK with up 0 takes the port Down.",
     [](Trial& t) { behind(t, link_frame(9, 0)); }, "open, Down"},
    {"L23", "link: Link state", "LINK with up 2 ends the link.",
     [](Trial& t) { behind(t, link_frame(9, 2)); }, "closed, Down"},
    {"L24", "link: Link state", "LINK with the epoch of the one before ends the link.",
     [](Trial& t) { behind(t, link_frame(1)); }, "closed, Down"},
    {"L25", "link: Link state",
     "LINK with another epoch retrains: the port is in Initialize again.",
     [](Trial& t) { behind(t, link_frame(9)); }, "open, Initialize"},
    {"L26", "link: Link state", "LINK a byte short ends the link.",
     [](Trial& t) { behind(t, frame(FrameType::kLink, 11)); }, "closed, Down"},
    {"L27", "link: Link state", "LINK with reserved bytes ends the link.",
     [](Trial& t) {
         Frame link = link_frame(9);
         link.body[11] = 1;
         behind(t, link);
     },
     "closed, Down"},
    {"L28", "7.2", "Without a common width the port stays Down.",
     [](Trial& t) { offered(t, {.width = 0}); }, "open, Down"},
    {"L29", "7.2", "Without a common speed the port stays Down.",
     [](Trial& t) { offered(t, {.speed = 0, .speed_ext = 0}); }, "open, Down"},
    {"L30", "7.2", "With width and speed in common the port is in Initialize.",
     [](Trial& t) { offered(t, {.width = 2, .speed = 1, .speed_ext = 0}); }, "open, Initialize"},
    {"L31", "link: Link state", "LINK with MTUCap 0 ends the link.",
     [](Trial& t) { offered(t, {.mtu_cap = 0}); }, "closed, Down"},
    {"L32", "link: Link state", "LINK with MTUCap 6 ends the link.",
     [](Trial& t) { offered(t, {.mtu_cap = 6}); }, "closed, Down"},
    {"L33", "link: Link state", "LINK with VLCap 0 ends the link.",
     [](Trial& t) { offered(t, {.vl_cap = 0}); }, "closed, Down"},
    {"L34", "link: Link state", "LINK with VLCap 6 ends the link.",
     [](Trial& t) { offered(t, {.vl_cap = 6}); }, "closed, Down"},
    {"L35", "link: Link state", "With up 0 from the start the port stays Down.",
     [](Trial& t) { offered(t, {.up = 0}); }, "open, Down"},
    {"L36", "link: Credits", "CREDIT for VL15 ends the link.",
     [](Trial& t) { behind(t, credit_frame(15, 0, 1)); }, "closed, Down"},
    {"L37", "link: Credits", "CREDIT for VL14, which the device does not have, is ignored.",
     [](Trial& t) { behind(t, credit_frame(14, 0, 1)); }, "open, Active"},
    {"L38", "link: Credits", "CREDIT with a reserved byte ends the link.",
     [](Trial& t) { behind(t, credit_frame(0, 1, 1)); }, "closed, Down"},
    {"L39", "link: Credits", "CREDIT a byte short ends the link.",
     [](Trial& t) { behind(t, frame(FrameType::kCredit, 7)); }, "closed, Down"},
    {"L40", "link: Packets", "PACKET of 0 bytes ends the link.",
     [](Trial& t) { behind(t, frame(FrameType::kPacket, 0)); }, "closed, Down"},
    {"L41", "link: Packets", "PACKET of 7 bytes ends the link.",
     [](Trial& t) { behind(t, frame(FrameType::kPacket, 7)); }, "closed, Down"},
    {"L42", "link: Packets", "PACKET of 8 bytes is not a packet and is dropped.",
     [](Trial& t) { behind(t, frame(FrameType::kPacket, 8)); }, "open, Active"},
    {"L43", "link: Packets", "PACKET of 25 bytes is not a packet and is dropped.",
     [](Trial& t) { behind(t, frame(FrameType::kPacket, 25)); }, "open, Active"},
    {"L44", "link: Packets", "PACKET of MAX_BODY bytes is dropped.",
     [](Trial& t) { behind(t, frame(FrameType::kPacket, 8192)); }, "open, Active"},
    {"L45", "link: Transport", "A frame that comes byte by byte is taken.",
     [](Trial& t) {
         t.bring_up();
         t.connect();
         t.stranger.send(t.request(kSendOnly, 0, 8));
         for (const uint8_t byte : t.stranger.take_output()) {
             t.stranger.send_raw({byte});
             t.settle();
         }
     },
     "ACK 0 msn 1; received 8; memory 0 to 8"},
    {"L46", "7.2.7", "In Initialize a data packet is dropped.",
     [](Trial& t) {
         connected(t);
         t.connect();
         t.send(kSendOnly, 0, 8, [](Packet& p) { p.dlid = 0; });
     },
     "nothing"},
    {"L47", "7.2.7", "The end of the connection takes the port Down.",
     [](Trial& t) {
         t.bring_up();
         t.bench.device->links().closed(1);
         note_link(t);
     },
     "open, Down"},
};

}  // namespace

CheckTable link_checks() {
    return {"Link: handshake, state, frames", nullptr, kChecks};
}

}  // namespace pib::conformance
