// SPDX-License-Identifier: GPL-2.0-or-later
// One InfiniBand port of the HCA: its link, VL queues and credits, its SMA and PMA, and the
// distribution of received packets. The transport above it sends and receives whole packets and
// knows no link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ib/link/burst_room.h"
#include "ib/mgmt/vl_arbiter.h"
#include "ib/wire/placement.h"

namespace pib::hca {

// Calls of a port to the transport. The port calls burst_in() and port_ready() while the device
// handles its link, its timer or run(), never from begin() or commit(): a packet to this port
// itself waits in a queue until run().
class PortClient {
  public:
    virtual ~PortClient() = default;
    // Packets for a QP. Their headers are checked, P_Key and Q_Key are not. SMPs and PMA queries
    // that the port itself answers are not delivered. The burst is valid during the call. The
    // result and `payload` are as in link::LinkEvents::link_burst().
    virtual uint32_t burst_in(unsigned port, const ib::Burst& burst, ib::Placement& payload) = 0;
    // Work of packets since the last call in addition to their own bytes, as bytes of payload:
    // local copies of multicasts, and searches for the QPs of a CQ that has failed.
    virtual uint64_t take_copied() { return 0; }
    // begin() has refused a packet of this port, and may now succeed.
    virtual void port_ready(unsigned port) = 0;
    // The port's P_Key table, LID or GIDs have changed, so cached values are invalid. A command may
    // cause this call, too.
    virtual void port_changed(unsigned port) = 0;
};

struct TxRequest {
    uint16_t dlid;
    uint8_t sl;
    bool vl15;       // an SMP from QP0
    uint32_t bytes;  // longest packet: LRH to the end of padding, without ICRC and VCRC
    // Rate of the address vector: a code of PathRecord:Rate, or 0 for the port's rate.
    uint8_t static_rate = 0;
    uint32_t packets = 1;   // at most this number, all of one message
    uint32_t mtu = 0;       // several packets: payload of all but the last, in bytes
    bool is_offer = false;  // MIDDLE packets without AckReq whose payload the switch copies
    uint32_t qpn = 0;       // the sending QP, for the trace; 0: the port itself
};

// Lanes of the send scheduler: one for each VL, and one for packets that need no arbitration:
// packets to the port itself and discarded packets.
inline constexpr unsigned kVl15Lane = 15;
inline constexpr unsigned kLoopbackLane = 16;
inline constexpr unsigned kLanes = 17;

// Result of VL arbitration: the data VL that sends next, and the bytes that its packets may have,
// at least 1; the last packet may exceed them.
struct VlGrant {
    uint8_t vl;
    uint32_t bytes;
};

// The part of a port that the transport uses. HcaPort (hca_port.h) and test doubles implement it.
class Port {
  public:
    virtual ~Port() = default;

    // Finds room for as many of the packets as may be sent now. There is none while credits or
    // space are missing, or while the static rate delays the packets (IBA 9.11); then port_ready()
    // follows, except after an offer. The caller writes the packets, each from LRH (with VL 0) to
    // padding, in the layout of ib::BurstBuilder, and calls commit(), or leaves the
    // room unused and calls nothing.
    //
    // The port takes and discards data packets while it is not Active (IBA vol. 1, 7.2.7), SMPs
    // while the link is down, packets longer than NeighborMTU, and packets whose SL maps to no VL;
    // the sender then times out. A packet to one of the port's own LIDs is delivered by
    // PortClient::burst_in(). A multicast packet leaves the port; the transport delivers its local
    // copies.
    virtual link::BurstRoom begin(const TxRequest& request) = 0;
    // Sends the packets and counts them in Counters; packets to this port itself count as received
    // when run() delivers them. `offered`: the memory that holds the payload of an offer.
    virtual void commit(const ib::BurstSize& size, const link::OfferedPayload& offered = {}) = 0;

    // The lane of a packet with this destination, SL and `vl15`. `bytes` may be 0: the length only
    // matters if it exceeds NeighborMTU, because such a packet is discarded.
    virtual unsigned lane(const TxRequest& request) const = 0;
    // VL arbitration (IBA 7.6.9) between the data VLs `ready`, not 0, that have packets to send.
    // Packets of the chosen VL count against its weight until the call of end_grant().
    virtual VlGrant arbitrate(ib::VlMask ready) = 0;
    virtual void end_grant() = 0;

    [[nodiscard]] virtual bool is_active() const = 0;  // PortState Active
    virtual uint16_t lid() const = 0;                  // base LID, 0 until the SM sets one
    virtual uint8_t lmc() const = 0;
    [[nodiscard]] virtual bool owns_lid(uint16_t dlid) const = 0;  // one of the port's 2^LMC LIDs
    virtual uint32_t mtu_bytes() const = 0;                        // NeighborMTU
    virtual uint16_t pkey(unsigned index) const = 0;               // 0: empty or out of range
    virtual unsigned pkey_count() const = 0;
    virtual const uint8_t* gid(unsigned index) const = 0;  // 16 bytes, big-endian; nullptr: none
    // Counts PortInfo:P_KeyViolations or Q_KeyViolations and sends the trap (257, 258).
    virtual void pkey_violation(const ib::PacketView& packet) = 0;
    virtual void qkey_violation(const ib::PacketView& packet) = 0;
    // A packet for QP0 (`vl15`) or QP1 has found no receive WQE: counts VL15Dropped or QP1Dropped
    // of the PMA.
    virtual void mad_dropped(bool vl15) = 0;
};

// The port by which packets leave, the static rate of their path, and the number of their QP.
struct Outlet {
    Port& port;
    uint8_t static_rate = 0;
    uint32_t qpn = 0;
};

}  // namespace pib::hca
