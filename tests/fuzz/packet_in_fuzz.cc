// SPDX-License-Identifier: GPL-2.0-or-later
// Packets into a transport: every opcode with any headers, mostly with right addresses, to an RC QP
// with outstanding requests, to UD, SMI and GSI QPs, and to a multicast group. Only registered
// memory may change, and the output is valid packets.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "fuzz_target.h"
#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace pib::fuzz {

namespace {

constexpr size_t kMaxSteps = 200;
constexpr uint64_t kBuffer = 8192;
constexpr uint32_t kQkey = 0x44444444;
constexpr uint8_t kMgidLast = 7;
constexpr uint16_t kMlid = 0xc010;

class Program {
  public:
    explicit Program(std::span<const uint8_t> bytes) : in_(bytes) {
        before_ = b().host.alloc(4096);
        buffer_ = b().make_buffer(kBuffer);
        after_ = b().host.alloc(4096);
        rc_ = pair_.rc_pair({.timeout = 8, .retry_cnt = 1, .rnr_retry = 1}).b;
        uc_ = pair_.rc_pair({}, {.type = PIB_HCA_QP_UC}).b;
        srq_ = b().make_srq(4);
        shared_ = b().create({.srq = srq_.srqn});
        pair_.connect(pair_.a.create(), shared_);
        ud_ = b().create({.type = PIB_HCA_QP_UD});
        start_datagram(b(), ud_, kQkey);
        smi_ = b().create({.type = PIB_HCA_QP_SMI, .port = 1});
        start_datagram(b(), smi_, 0);
        gsi_ = b().create({.type = PIB_HCA_QP_GSI, .port = 1});
        start_datagram(b(), gsi_, 0x80010000);
        pib_hca_mcast group{};
        group.mgid[0] = 0xff;
        group.mgid[15] = kMgidLast;
        group.mlid = kMlid;
        require(attach_mcast(b(), ud_.qpn, group) == CmdStatus::kOk, "attach");
        pair_.filter = [](const ib::PacketView&) { return false; };
    }

    void run() {
        for (size_t i = 0; i < kMaxSteps && !in_.empty(); ++i) {
            step(in_.byte());
        }
        pair_.settle();
        for (const uint64_t page : {before_, after_}) {
            std::array<uint8_t, 4096> bytes;
            b().host.peek_bytes(page, bytes);
            require(bytes == std::array<uint8_t, 4096>{}, "only registered memory is written");
        }
    }

  private:
    Hca& b() { return pair_.b; }

    void step(uint8_t what) {
        switch (what % 8) {
            case 0:
                b().post_recv(rc_, {buffer_.sge(in_.byte(), in_.byte() * 32u)});
                b().post_recv(ud_, {buffer_.sge(in_.byte(), in_.byte() * 32u)});
                b().post_recv(uc_, {buffer_.sge(in_.byte(), in_.byte() * 32u)});
                b().post_srq(srq_, in_.byte(), {buffer_.sge(in_.byte(), in_.byte() * 32u)});
                b().post_recv(smi_, {buffer_.sge(0, 40 + in_.byte())});
                b().post_recv(gsi_, {buffer_.sge(0, 40 + in_.byte())});
                break;
            case 1:
                request();
                break;
            case 2:
                pair_.step_clock();
                break;
            case 3:
                revive();
                break;
            case 4:
                raw();
                break;
            default:
                packet();
                break;
        }
    }

    // Posts a request that responses can answer.
    void request() {
        const uint8_t opcode = in_.byte() % 7;
        const bool atomic = opcode == PIB_HCA_WQE_CMP_SWAP || opcode == PIB_HCA_WQE_FETCH_ADD;
        b().post(rc_, {.opcode = opcode,
                       .sges = {buffer_.sge(0, atomic ? 8 : in_.byte() * 32u)},
                       .remote_addr = 0x1000,
                       .rkey = 1});
        pair_.settle();
        b().poll_all(rc_);
    }

    // Brings connected QPs back from Error.
    void revive() {
        for (Qp* qp : {&rc_, &uc_, &shared_}) {
            if (b().state(*qp) != PIB_HCA_QPS_ERR) {
                continue;
            }
            to_state(b(), *qp, PIB_HCA_QPS_RESET);
            b().set_sq_producer(*qp, 0);
            b().set_rq_producer(*qp, 0);
            to_init(b(), *qp);
            to_rtr(b(), *qp, b().av_to(pair_.a), qp->qpn);
            to_rts(b(), *qp);
        }
    }

    void raw() {
        const auto bytes = in_.take(8 + in_.byte());
        if (const auto view = ib::PacketView::parse(bytes, ib::Crcs::kElided)) {
            pair_.give(b(), ib::Burst(*view));
        }
    }

    uint32_t destination(uint8_t pick) const {
        const std::array<uint32_t, 8> known = {rc_.qpn,  ud_.qpn, 0,       1,
                                               0xffffff, 5,       uc_.qpn, shared_.qpn};
        return known[pick % known.size()];
    }

    // Sends a packet with headers from input bytes, which are then mostly corrected.
    void packet() {
        std::array<uint8_t, 64> bytes{};
        const uint8_t opcode = in_.byte();
        const ib::OpcodeInfo* info = ib::find_opcode(opcode);
        if (info == nullptr) {
            return;
        }
        const uint8_t fix = in_.byte();
        const uint8_t length_code = in_.byte();
        const auto given = in_.take(in_.byte() % bytes.size());
        std::copy(given.begin(), given.end(), bytes.begin());
        ib::PacketHeaders h = headers(bytes, fix);
        h.bth.opcode = opcode;
        std::vector<uint8_t> payload;
        if (info->payload != ib::PayloadRule::kNone) {
            const bool full = info->payload == ib::PayloadRule::kFullMtu;
            payload.assign(full ? 256u << (length_code % 5) : length_code * 5u, 0x5c);
        }
        std::vector<uint8_t> buffer(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(buffer, h, payload.size(), ib::Crcs::kElided);
        if (!builder) {
            return;
        }
        builder->gather({{std::span<const uint8_t>(payload)}});
        if (const auto view = ib::PacketView::parse(builder->finish(), ib::Crcs::kElided)) {
            pair_.give(b(), ib::Burst(*view));
        }
        pair_.settle();
        for (const Qp* qp : {&rc_, &uc_, &shared_, &ud_, &smi_, &gsi_}) {
            b().poll_all(*qp);
        }
    }

    ib::PacketHeaders headers(const std::array<uint8_t, 64>& bytes, uint8_t fix) {
        const std::span<const uint8_t> all(bytes);
        ib::PacketHeaders h;
        h.lrh.dlid = ib::Lid((fix & 1) != 0 ? kMlid : 2);
        h.lrh.slid = ib::Lid((fix & 2) != 0 ? 9 : 1);
        h.bth = ib::Bth::parse(all.first<12>());
        h.bth.dest_qp = ib::Qpn(destination(bytes[62]));
        h.bth.pkey = (fix & 4) != 0 ? h.bth.pkey : ib::kDefaultPKey;
        // Near what is expected: requests at the responder's PSN, responses at the requester's.
        const uint32_t expecting = bytes[62] % 8 == 6   ? uc_.qpn
                                   : bytes[62] % 8 == 7 ? shared_.qpn
                                                        : rc_.qpn;
        const auto state = query_qp(b(), expecting);
        const auto near = static_cast<uint32_t>(static_cast<int8_t>(bytes[11]) / 16);
        h.bth.psn = ib::Psn(((fix & 8) != 0 ? state->sq_psn - 1 : state->rq_psn) + near);
        if ((fix & 16) != 0 || h.lrh.dlid.is_multicast()) {
            h.grh = ib::Grh{};
            h.grh->dgid.bytes[0] = 0xff;
            h.grh->dgid.bytes[15] = kMgidLast;
        }
        h.deth = {.qkey = ib::QKey((fix & 32) != 0 ? 0x80010000 : kQkey), .src_qp = ib::Qpn(77)};
        h.reth = ib::Reth::parse(all.subspan<12, 16>());
        h.atomic_eth = ib::AtomicEth::parse(all.subspan<12, 28>());
        if ((fix & 64) == 0) {
            const uint64_t offset = h.reth.va % (2 * kBuffer);
            h.reth.va = h.atomic_eth.va = buffer_.addr + offset;
            h.reth.rkey = h.atomic_eth.rkey = ib::RKey(buffer_.key);
            h.reth.dma_len %= 2 * kBuffer;
        }
        h.aeth = ib::Aeth::parse(all.subspan<40, 4>());
        h.atomic_ack_eth = ib::AtomicAckEth::parse(all.subspan<44, 8>());
        return h;
    }

    Input in_;
    Pair pair_;
    uint64_t before_ = 0;
    uint64_t after_ = 0;
    Buffer buffer_;
    Qp rc_;
    Qp uc_;
    Qp shared_;
    Srq srq_;
    Qp ud_;
    Qp smi_;
    Qp gsi_;
};

}  // namespace

std::vector<Bytes> seeds() {
    std::vector<Bytes> seeds;
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        if (ib::find_opcode(static_cast<uint8_t>(opcode)) == nullptr) {
            continue;
        }
        for (const uint8_t dest : {0, 1, 2, 3, 4, 6, 7}) {
            Bytes seed = {0, 0, 100, 0, 100, 0, 100, 1, 0, 100, 255, 255};
            seed.insert(seed.end(), {1, PIB_HCA_WQE_RDMA_READ, 100});
            for (unsigned i = 0; i < 3; ++i) {
                const uint8_t fix = dest == 4 ? 1 : i == 2 ? 8 : 0;
                seed.insert(seed.end(), {5, static_cast<uint8_t>(opcode), fix, 2, 63});
                Bytes headers(63);
                headers[8] = 0x80;   // AckReq
                headers[26] = 4;     // RETH: 1024 bytes
                headers[40] = 0x1f;  // an ACK
                std::ranges::copy(headers, std::back_inserter(seed));
                seed.back() = dest;
            }
            seed.insert(seed.end(), {2, 3});
            seeds.push_back(seed);
        }
    }
    return seeds;
}

void run(std::span<const uint8_t> input) {
    Program(input).run();
}

}  // namespace pib::fuzz
