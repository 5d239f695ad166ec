// SPDX-License-Identifier: GPL-2.0-or-later
// Packets from the fabric. The first byte says which checksums the rest has. An accepted packet is
// readable to its last byte, and building it again gives the same bytes.
#include <algorithm>
#include <iterator>

#include "fuzz_target.h"
#include "ib/wire/dump.h"
#include "ib/wire/packet.h"

namespace pib::fuzz {
namespace {

using namespace ib;

PacketHeaders headers_of(const PacketView& view) {
    PacketHeaders h;
    h.lrh = view.lrh();
    h.grh = view.grh();
    h.bth = view.bth();
    h.rdeth = view.rdeth().value_or(Rdeth{});
    h.deth = view.deth().value_or(Deth{});
    h.xrceth = view.xrceth().value_or(Xrceth{});
    h.reth = view.reth().value_or(Reth{});
    h.atomic_eth = view.atomic_eth().value_or(AtomicEth{});
    h.aeth = view.aeth().value_or(Aeth{});
    h.atomic_ack_eth = view.atomic_ack_eth().value_or(AtomicAckEth{});
    h.imm_dt = view.imm_dt().value_or(ImmDt{});
    h.feth = view.feth().value_or(Feth{});
    h.masked_atomic_eth = view.masked_atomic_eth().value_or(MaskedAtomicEth{});
    h.ieth = view.ieth().value_or(Ieth{});
    return h;
}

// Whether the device could send such a packet: the device never sends reserved opcodes, or READs
// and atomics with payload.
bool sendable(const PacketView& view) {
    const OpcodeInfo& info = view.opcode();
    return info.kind != OpKind::kReserved &&
           (info.payload != PayloadRule::kNone || view.payload().empty());
}

void check_rebuild(const PacketView& view) {
    static Bytes buffer(2 * kMaxPacket);
    auto builder =
        PacketBuilder::begin(buffer, headers_of(view), view.payload().size(), Crcs::kIcrcAndVcrc);
    require(builder.has_value(), "what was parsed can be built");
    const std::array parts = {view.payload()};
    const auto bytes = builder->gather(parts).finish();
    const auto again = PacketView::parse(bytes, Crcs::kIcrcAndVcrc);
    // The pad of the original may be longer than the payload needs; all else is the same.
    require(again.has_value(), "what was built can be parsed");
    require(again->icrc_is_good() && again->vcrc_is_good(), "built checksums are good");
    require(std::ranges::equal(again->payload(), view.payload()), "payload survives");
    Bth bth = again->bth();
    bth.pad_count = view.bth().pad_count;
    require(bth == view.bth(), "BTH survives");
    require(again->reth() == view.reth() && again->aeth() == view.aeth(), "headers survive");
    require(again->deth() == view.deth() && again->imm_dt() == view.imm_dt(), "headers survive");
}

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> seeds;
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(opcode));
        if (info == nullptr) {
            continue;
        }
        PacketHeaders h;
        h.lrh.dlid = Lid(4);
        h.lrh.slid = Lid(5);
        h.bth.opcode = static_cast<uint8_t>(opcode);
        h.bth.pkey = kDefaultPKey;
        h.bth.dest_qp = Qpn(0x48);
        if (opcode % 3 == 0) {
            h.grh.emplace();
        }
        const size_t payload = info->payload == PayloadRule::kNone      ? 0
                               : info->payload == PayloadRule::kFullMtu ? 256
                               : info->payload == PayloadRule::kCnp     ? 16
                                                                        : 13;
        const auto crcs = static_cast<Crcs>(opcode % 3);
        Bytes buffer(2 * kMaxPacket);
        auto builder = PacketBuilder::begin(buffer, h, payload, crcs);
        const auto packet = builder->finish();
        Bytes seed = {static_cast<uint8_t>(crcs)};
        std::ranges::copy(packet, std::back_inserter(seed));
        seeds.push_back(std::move(seed));
    }
    return seeds;
}

void run(std::span<const uint8_t> input) {
    Input in(input);
    const auto crcs = static_cast<Crcs>(in.byte() % 3);
    // An allocation of exact size, so that the sanitizer finds a read past the end.
    const auto rest = in.rest();
    const Bytes bytes(rest.begin(), rest.end());
    const auto view = PacketView::parse(bytes, crcs);
    require(!dump_packet(bytes, crcs).empty(), "every packet has a dump");
    if (!view) {
        return;
    }
    require(parse_lrh(bytes, crcs).has_value(), "a packet passes the link level");
    require(view->payload().size() <= kMaxPayload, "payload is bounded");
    if (sendable(*view)) {
        check_rebuild(*view);
    }
}

}  // namespace pib::fuzz
