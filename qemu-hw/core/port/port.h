// SPDX-License-Identifier: GPL-2.0-or-later
// One InfiniBand port of the HCA: its link, VL queues and credits, its SMA and PMA, and the sorting
// of what arrives. Transport above it sends and receives whole packets and knows no link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ib/link/burst_room.h"
#include "ib/mgmt/vl_arbiter.h"
#include "ib/wire/placement.h"

namespace pib::hca {

// Calls of a port to the transport. Packets and readiness come while the device handles its link,
// its timer or run(), never from begin() or commit(): a packet to this port itself waits in a queue
// until run().
class PortClient {
  public:
    virtual ~PortClient() = default;
    // Packets for a QP, their headers checked, P_Key and Q_Key not: everything except the SMPs and
    // PMA queries that the port has answered itself. The burst is valid during the call. Returns
    // how many packets were taken, and uses `payload`, as link::LinkEvents::link_burst().
    virtual uint32_t burst_in(unsigned port, const ib::Burst& burst, ib::Placement& payload) = 0;
    // begin() was refused before and may now succeed.
    virtual void port_ready(unsigned port) = 0;
    // The port's P_Key table, LID or GIDs changed: caches of them are void. During a command, too.
    virtual void port_changed(unsigned port) = 0;
};

struct TxRequest {
    uint16_t dlid;
    uint8_t sl;
    bool vl15;       // an SMP from QP0
    uint32_t bytes;  // of the longest packet: LRH to end of padding, without ICRC and VCRC
    // Of its address vector: a code of PathRecord:Rate, or 0 for the port's own.
    uint8_t static_rate = 0;
    uint32_t packets = 1;   // of one message, at most
    uint32_t mtu = 0;       // of several: payload of each but the last
    bool is_offer = false;  // MIDDLE packets without ACK, whose payload the switch takes itself
};

// What a packet waits in before it is sent: one lane for each VL, and one for what needs no turn on
// the link: packets to the port itself, and those that are discarded.
inline constexpr unsigned kVl15Lane = 15;
inline constexpr unsigned kFreeLane = 16;
inline constexpr unsigned kLanes = 17;

// The data VL whose turn it is, and how many bytes of packets it may send; the last of them may
// exceed that. At least 1.
struct VlGrant {
    uint8_t vl;
    uint32_t bytes;
};

// The part of a port that the transport uses. HcaPort (hca_port.h) implements it; so do tests.
class Port {
  public:
    virtual ~Port() = default;

    // Room for as many of the packets as may go now, or for none while there is no credit or no
    // queue space, or while the static rate does not let them out (IBA 9.11); port_ready() follows
    // unless it was for an offer. The caller writes LRH (with VL 0) to padding, of several packets
    // what ib::BurstBuilder lays out, and commits, or calls nothing. A port that is not Active
    // takes data packets and discards them, as IBA vol. 1, 7.2.7 has it: timeouts do the rest. So
    // it does with SMPs while the link is down, with what is longer than NeighborMTU and with an SL
    // that maps to no VL. A packet to one of the port's own LIDs comes back by
    // PortClient::burst_in(); multicast goes out, its local copies are the transport's business.
    virtual link::BurstRoom begin(const TxRequest& request) = 0;
    // The port counts packets and bytes, TX and RX, in Counters, too. `offered`: where the payload
    // of an offer is.
    virtual void commit(const ib::BurstSize& size, const link::OfferedPayload& offered = {}) = 0;

    // The lane of a packet to this destination on this SL; its length does not matter.
    virtual unsigned lane(const TxRequest& request) const = 0;
    // VL arbitration (IBA 7.6.9), when packets of several data VLs want to be sent; `ready` is not
    // 0. Until end_grant() packets of the VL that is chosen count against its weight.
    virtual VlGrant arbitrate(ib::VlMask ready) = 0;
    virtual void end_grant() = 0;

    virtual bool is_active() const = 0;  // PortState Active
    virtual uint16_t lid() const = 0;    // base LID, 0 before the SM gave one
    virtual uint8_t lmc() const = 0;
    virtual bool owns_lid(uint16_t dlid) const = 0;   // one of the 2^LMC LIDs
    virtual uint32_t mtu_bytes() const = 0;           // NeighborMTU
    virtual uint16_t pkey(unsigned index) const = 0;  // 0 when empty or out of range
    virtual unsigned pkey_count() const = 0;
    virtual const uint8_t* gid(unsigned index) const = 0;  // 16 bytes, nullptr when empty
    // Counts PortInfo:P_KeyViolations / Q_KeyViolations and sends the trap (257, 258).
    virtual void pkey_violation(const ib::PacketView& packet) = 0;
    virtual void qkey_violation(const ib::PacketView& packet) = 0;
    // A packet for QP0 (`vl15`) or QP1 found no receive WQE: VL15Dropped, QP1Dropped of the PMA.
    virtual void mad_dropped(bool vl15) = 0;
};

// Where packets go out, and the static rate of their path.
struct Outlet {
    Port& port;
    uint8_t static_rate = 0;
};

}  // namespace pib::hca
