// SPDX-License-Identifier: GPL-2.0-or-later
// Sent packets of a port: their route, the static rate of their path, VL arbitration, and the wait
// for credits and room.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ib/mgmt/xmit_wait.h"
#include "port/pacer.h"
#include "port/port.h"
#include "port/port_attributes.h"
#include "port/port_loopback.h"

namespace pib::hca {

class Egress {
  public:
    Egress(PortContext& port, PortAttributes& attributes, PortEndpoint& link, ib::XmitWait& waits)
        : port_(port), attributes_(attributes), link_(link), waits_(waits) {}

    // ---- packets of the transport: see Port
    link::BurstRoom begin(const TxRequest& request);
    void commit(const ib::BurstSize& size, const link::OfferedPayload& offered) {
        send(std::exchange(out_, {}), size, offered);
    }
    unsigned lane(const TxRequest& request) const;
    VlGrant arbitrate(ib::VlMask ready);
    void end_grant() { granted_vl_ = kNoVl; }

    // Sends a packet of the port itself; false if there is no room. `loopback`: to this port,
    // whatever DLID the packet has.
    [[nodiscard]] bool send_own(const TxRequest& request, std::span<const uint8_t> packet,
                                bool loopback);

    // Packets from the port to itself.
    PortLoopback& loopback() { return loopback_; }
    // Checks the lanes that wait for credits or room. True: a refused packet may be sent now, and
    // its lane waits no longer.
    [[nodiscard]] bool resume();
    // timer(): whether a packet that was refused because of its static rate may be sent now.
    // next_deadline(): when to call timer().
    [[nodiscard]] bool timer(uint64_t now_ns);
    uint64_t next_deadline() const { return paced_until_ns_; }
    // The connection of the link has ended: the room that begin() returned is no longer valid.
    void link_gone();
    void reset();

  private:
    // Destination of a packet.
    enum class Route : uint8_t { kNone, kLink, kLoopback, kDiscard };
    struct Outgoing {
        Route route = Route::kNone;
        uint8_t vl = 0;
        ib::Counter reason = ib::Counter::kPortXmitDiscards;  // PMA counter, if discarded
        uint8_t paced_rate = 0;  // rate code of a path slower than the link, else 0
        uint8_t sl = 0;
        uint16_t dlid = 0;
        uint32_t qpn = 0;            // the QP that sends the packets
        std::span<uint8_t> bytes{};  // room for the packets
    };
    static constexpr unsigned kNoVl = kLanes;
    // A packet of a VL, or from the port to itself, that waits for credits or room.
    struct Waiting {
        bool waiting = false;
        uint32_t bytes = 0;  // length of the packet
    };

    const PortView& view() const { return attributes_.view(); }
    Outgoing route(const TxRequest& request) const;
    link::BurstRoom room_for(const TxRequest& request, const Outgoing& out);
    void send(const Outgoing& out, const ib::BurstSize& size, const link::OfferedPayload& offered);
    void charge(const Outgoing& out, const ib::BurstSize& size);
    void refused(const TxRequest& request, const Outgoing& out);
    [[nodiscard]] bool must_wait_for_others(unsigned vl) const;
    [[nodiscard]] bool may_leave(const TxRequest& request, Outgoing& out);
    void wait_in(unsigned lane, uint32_t bytes);
    [[nodiscard]] bool may_go_on(unsigned lane) const;
    void stop_waiting(unsigned lane);
    void wait_for_credit_alone();

    PortContext& port_;
    PortAttributes& attributes_;
    PortEndpoint& link_;
    ib::XmitWait& waits_;
    PortLoopback loopback_;
    Outgoing out_;                           // packets of begin(), for commit()
    std::array<Waiting, kLanes> waiting_{};  // by VL; the last one is the loopback
    ib::VlMask wants_room_ = 0;  // data VLs that have credits and wait for room, one bit per VL
    unsigned granted_vl_ = kNoVl;
    Pacer pacer_;
    uint64_t paced_until_ns_ = kNever;                 // time of the next paced packet
    std::array<uint8_t, ib::kMaxPacket> discarded_{};  // discarded packets are written here
};

}  // namespace pib::hca
