// SPDX-License-Identifier: GPL-2.0-or-later
// A port without a link: packets wait in a queue until the test takes them. With PIB_BURSTS=on it
// accepts bursts, but splits them at once, so that tests always see packets.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_peer_copy.h"
#include "port/port.h"

namespace pib::hca::test {

inline bool bursts_wanted() {
    const char* bursts = std::getenv("PIB_BURSTS");
    return bursts != nullptr && (std::string_view(bursts) == "on" || peer_copy_wanted());
}

// An offer: a burst whose payload is still in the sender's memory.
struct SentOffer {
    FakePeerCopy* memory;
    uint64_t handle;
    std::vector<link::BlockSegment> segments;
    uint32_t packets;
};

// A packet, and if it belongs to an offer, the offer and the packet's index in it.
struct SentPacket : std::vector<uint8_t> {
    using std::vector<uint8_t>::vector;
    std::shared_ptr<const SentOffer> offer = nullptr;
    uint32_t index = 0;
};

class FakePort : public Port {
  public:
    explicit FakePort(uint16_t lid) : lid_(lid) {
        gids.resize(1);
        gids[0][0] = 0xfe;
        gids[0][1] = 0x80;
        gids[0][14] = static_cast<uint8_t>(lid >> 8);
        gids[0][15] = static_cast<uint8_t>(lid);
    }

    // ---- Port
    link::BurstRoom begin(const TxRequest& request) override {
        const size_t room = capacity - std::min(capacity, sent.size());
        const uint32_t packets =
            request.is_offer ? offer_limit(request, room) : limit(request, room);
        refused = refused || (packets == 0 && !request.is_offer);
        if (packets == 0) {
            return {};
        }
        last_request = request;
        is_offer_ = request.is_offer;
        const size_t several =
            ib::kBurstPayload + (is_offer_ ? size_t{0} : size_t{packets} * request.mtu);
        pending_.assign(packets == 1 ? request.bytes : several, 0xee);
        return {pending_, packets};
    }
    void commit(const ib::BurstSize& size, const link::OfferedPayload& offered) override {
        if (!active) {
            return;
        }
        if (size.packets == 1) {
            charge(size.first);
            sent.emplace_back().assign(pending_.begin(),
                                       pending_.begin() + static_cast<ptrdiff_t>(size.first));
            return;
        }
        offer_ = nullptr;
        if (is_offer_) {
            offer_ = std::make_shared<SentOffer>(
                SentOffer{peer_copy,
                          offered.handle,
                          {offered.segments.begin(), offered.segments.end()},
                          size.packets});
        } else {
            pending_.resize(size.body());
        }
        split();
    }
    unsigned lane(const TxRequest& request) const override {
        const bool free = !active || owns_lid(request.dlid);
        return request.vl15 ? kVl15Lane
               : free       ? kLoopbackLane
                            : vl_port.sl_to_vl[0][request.sl & 0xf];
    }
    VlGrant arbitrate(ib::VlMask ready) override {
        granted_vl_ = arbiter_.choose(ready);
        return {.vl = static_cast<uint8_t>(granted_vl_), .bytes = arbiter_.allowance()};
    }
    void end_grant() override { granted_vl_ = kLanes; }
    bool is_active() const override { return active; }
    uint16_t lid() const override { return lid_; }
    uint8_t lmc() const override { return lid_mask; }
    bool owns_lid(uint16_t dlid) const override { return dlid >> lid_mask == lid_ >> lid_mask; }
    uint32_t mtu_bytes() const override { return mtu; }
    uint16_t pkey(unsigned index) const override {
        return index < pkeys.size() ? pkeys[index] : uint16_t{0};
    }
    unsigned pkey_count() const override { return static_cast<unsigned>(pkeys.size()); }
    const uint8_t* gid(unsigned index) const override {
        return index < gids.size() ? gids[index].data() : nullptr;
    }
    void pkey_violation(const ib::PacketView&) override { ++pkey_violations; }
    void qkey_violation(const ib::PacketView&) override { ++qkey_violations; }
    void mad_dropped(bool vl15) override { ++(vl15 ? vl15_dropped : qp1_dropped); }

    // ---- settings and observations of the test
    void set_lids(uint16_t base, uint8_t lmc) {
        lid_ = base;
        lid_mask = lmc;
    }
    bool active = true;
    uint8_t lid_mask = 0;  // LMC
    uint32_t mtu = 4096;
    size_t capacity = 64;
    bool takes_bursts = bursts_wanted();
    unsigned bursts_sent = 0;
    std::vector<uint16_t> pkeys = {0xffff, 0x8001, 0x0002, 0};
    std::vector<std::array<uint8_t, 16>> gids;
    unsigned offers_sent = 0;
    FakePeerCopy* peer_copy = nullptr;
    std::deque<SentPacket> sent;
    TxRequest last_request{};
    ib::PortAttrs vl_port =
        ib::make_port({.vl_cap = 5});  // source of the SL-to-VL and VL arbitration tables
    bool refused = false;
    unsigned pkey_violations = 0;
    unsigned qkey_violations = 0;
    unsigned vl15_dropped = 0;
    unsigned qp1_dropped = 0;

  private:
    // Counts a packet's bytes for the VL arbiter, if the arbiter has granted the packet's VL.
    void charge(size_t bytes) {
        if (lane(last_request) == granted_vl_) {
            arbiter_.account(bytes);
        }
    }
    uint32_t limit(const TxRequest& request, size_t room) const {
        if (!takes_bursts || request.packets == 1) {
            return room != 0 ? 1 : 0;
        }
        return static_cast<uint32_t>(
            std::min({room, size_t{request.packets}, ib::kMaxBurstPayload / request.mtu}));
    }
    uint32_t offer_limit(const TxRequest& request, size_t room) const {
        const size_t most =
            std::min({room, size_t{request.packets}, link::kMaxOfferBytes / request.mtu,
                      size_t{ib::kMaxBurstPackets}});
        return peer_copy != nullptr && most > 1 ? static_cast<uint32_t>(most) : 0;
    }
    // Splits the pending burst or offer into packets.
    void split() {
        if (offer_) {
            const std::vector<uint8_t> payload = peer_copy->gather(offer_->segments);
            pending_.insert(pending_.end(), payload.begin(), payload.end());
            ++offers_sent;
        }
        const std::span<const uint8_t> body(pending_);
        const auto burst =
            ib::Burst::parse(body.first<ib::kBurstPayload>(), body, link::kMaxOfferBytes);
        if (!burst) {
            throw std::runtime_error(std::string("malformed burst: ") +
                                     ib::to_string(burst.error()));
        }
        ++bursts_sent;
        ib::BurstHeaders room;
        for (uint32_t i = 0; i < burst->count(); ++i) {
            const ib::PacketBytes packet = burst->packet(i, room);
            charge(packet.size());
            packet.copy_to(sent.emplace_back(packet.size()));
            sent.back().offer = offer_;
            sent.back().index = i;
        }
    }

    uint16_t lid_;
    std::vector<uint8_t> pending_;
    bool is_offer_ = false;
    std::shared_ptr<const SentOffer> offer_;
    ib::VlArbiter arbiter_{vl_port};
    unsigned granted_vl_ = kLanes;
};

}  // namespace pib::hca::test
