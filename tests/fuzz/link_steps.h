// SPDX-License-Identifier: GPL-2.0-or-later
// Output of a peer on a link, made from a few bytes of input each: suitable frames, corrupted
// frames, and any bytes. So a mutation of the input changes one field without shifting the frames
// after it, and inputs get past the handshake.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz_target.h"
#include "ib/link/packet_checksums.h"
#include "ib/wire/burst.h"
#include "ib/wire/headers.h"
#include "ib/wire/link_frame.h"
#include "link_parts.h"

namespace pib::fuzz {

class LinkSteps {
  public:
    // The peer's frames that open the link.
    struct Peer {
        link::Hello hello{};
        link::Welcome welcome{};
    };

    explicit LinkSteps(Peer peer) : peer_(std::move(peer)) {}

    // The next bytes of the peer.
    Bytes next(Input& in) {
        const uint8_t step = in.byte();
        Bytes bytes;
        switch (step % 8) {
            case 0:
                append(bytes, peer_.hello);
                break;
            case 1:
                append(bytes, peer_.welcome);
                break;
            case 2:
                append(bytes, parameters(in.byte()));
                break;
            case 3:
                append(bytes, credit(in.byte(), in.byte()));
                break;
            case 4:
            case 5:
                packet(in, bytes, step % 8 == 4);
                break;
            case 6:
                bytes = any_frame(in);
                break;
            default:
                const auto raw = in.take(in.byte());
                return {raw.begin(), raw.end()};
        }
        if ((step & 0x80) != 0) {
            bend(in, bytes);
        }
        return bytes;
    }

    // Steps that bring a link up, and packets of each kind.
    static std::vector<Bytes> opening(bool welcomes) {
        return {{static_cast<uint8_t>(welcomes ? 1 : 0)}, {2, 1}, {3, 0, 250}, {3, 1, 100}};
    }
    static std::vector<Bytes> packets() {
        return {{4, 0, 2, 15, 8},
                {5, 0, 2, 15, 8},
                {4, 1, 3, 0, 40},
                {4, 15, 1, 0, 64},
                {5, 15, 0xff, 0, 64},
                {2, 1},
                {0x84, 0, 2, 15, 8, 1, 20, 0, 1}};
    }

  private:
    // A LINK frame with the next epoch, the link up or not, and values that both sides support.
    link::Link parameters(uint8_t how) {
        auto link = make_parameters(static_cast<uint8_t>(1 + (how >> 4) % 5));
        link.epoch = ++epoch_;
        link.up = (how & 1) != 0;
        link.mtu_cap = static_cast<uint8_t>(5 - (how >> 1) % 5);
        return link;
    }
    link::Credit credit(uint8_t which, uint8_t more) {
        uint32_t& limit = limits_[which % 16];
        limit += more;
        return {.vl = static_cast<uint8_t>(which % 15),
                .epoch = static_cast<uint16_t>(epoch_ - (which >> 7)),
                .limit = limit};
    }
    // A UD SEND, or a directed SMP on VL15, with the right length and checksums.
    static void packet(Input& in, Bytes& to, bool crc_elided) {
        const uint8_t vl = in.byte();
        const uint8_t dlid = in.byte();
        const uint8_t opcode = in.byte();
        const size_t size = std::max<size_t>(28, in.byte() * size_t{4});
        Bytes packet(size, 0x55);
        ib::Lrh{.vl = ib::Vl(vl & 0xF),
                .dlid = ib::Lid(dlid == 0xff ? 0xffff : dlid),
                .pkt_len = static_cast<uint16_t>(size / 4 + 1),
                .slid = ib::Lid(1)}
            .write(std::span(packet).first<8>());
        packet[8] = (opcode & 15) == 0 ? uint8_t{0x64} : opcode;
        packet[9] = 0;
        std::fill_n(packet.begin() + 12, 4, uint8_t{0});
        if (!crc_elided) {
            packet.resize(size + 6);
            link::append_crcs(packet);
        }
        link::append_packet(to, packet, crc_elided);
    }
    static void bend(Input& in, Bytes& bytes) {
        for (unsigned count = 1 + in.byte() % 4; count > 0; --count) {
            const size_t at = in.byte() | in.byte() << 8;
            bytes[at % bytes.size()] = in.byte();
        }
    }

    Peer peer_;
    uint16_t epoch_ = 0;
    uint32_t limits_[16] = {};
};

}  // namespace pib::fuzz
