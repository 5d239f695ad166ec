// SPDX-License-Identifier: GPL-2.0-or-later
// The egress side of a switch port: one queue per VL. VL15 is sent first, data VLs by arbitration
// and credits. Lifetime limits keep a neighbour that grants no credits from filling the switch (IBA
// 7.6, 18.2.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/packet_pool.h"
#include "base/ring_queue.h"
#include "ib/mgmt/lazy.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/vl_arbiter.h"
#include "ib/mgmt/xmit_wait.h"
#include "switch/fault_stage.h"
#include "switch/neighbour.h"
#include "switch/port_host.h"
#include "switch/vl_data.h"

namespace pib::fabric {

// Counts packets that could not be sent, in PortXmitDiscards and in `detail`.
void count_discard(ib::PortCounters& counters, ib::Counter detail, uint32_t packets = 1);

class SwitchPortQueues final : public FaultSink {
  public:
    using Damage = std::optional<uint32_t>;  // a bit to flip, see FaultSink

    // The parts of the port that its queues use. They outlive the queues.
    struct Port {
        const PortHost& host;
        PacketPool& pool;
        const ib::PortAttrs& attrs;
        ib::PortCounters& counters;
        const PortLimits& limits;
        const CableEnd& cable;
    };
    explicit SwitchPortQueues(const Port& port)
        : port_(port), arbiter_(port.attrs), xmit_wait_(port.counters) {}

    // Sends packets if none wait on `vl` and the link has room; false: nothing is done.
    [[nodiscard]] bool send(const Transit& packets, unsigned vl);
    // Queues a single packet. VL15 packets beyond the limit are dropped and counted.
    void enqueue(Transit& packet, unsigned vl, const Damage& damage);
    // Sends or queues a single packet that has passed the faults.
    void deliver(Transit& packet, unsigned vl, const Damage& damage) override;
    // Sends waiting packets while the link has room.
    void pump();
    // Drops all waiting packets and counts them.
    void clear();
    // Call after a change of the arbitration tables.
    void restart_arbiter() { arbiter_.restart(); }
    // SwitchInfo:LifeTimeValue in nanoseconds; UINT64_MAX: unlimited.
    void set_packet_lifetime(uint64_t lifetime_ns) { packet_lifetime_ns_ = lifetime_ns; }
    // Adds the time for which packets have waited until now to PortXmitWait and PortVLXmitWait.
    // Call before these are read.
    void count_wait();
    // Data that the port has sent and received.
    [[nodiscard]] VlData& data_by_vl() { return data_by_vl_; }
    // The number of waiting packets, of all VLs or of one.
    [[nodiscard]] size_t size() const;
    [[nodiscard]] size_t size(unsigned vl) const {
        return queues_ ? (*queues_)[vl].entries.size() : 0;
    }

    // Drops data packets whose lifetime is over, and sends those that waited for a stall's end.
    void advance(uint64_t now_ns);
    [[nodiscard]] uint64_t next_deadline() const;  // UINT64_MAX: none
    [[nodiscard]] bool at_rest() const { return waiting_ == 0 && xmit_wait_.waiting() == 0; }

  private:
    static constexpr unsigned kVls = 16;
    // More SMPs than any subnet manager has on the wire; further ones are dropped (VL15Dropped).
    static constexpr size_t kMaxVl15Packets = 1024;

    struct Entry {
        PacketRef packet;
        uint64_t queued_ns = 0;
        Damage damage;
    };
    struct VlQueue {
        RingQueue<Entry> entries;
        uint64_t head_since_ns = 0;
        unsigned discarded_in_a_row = 0;
        uint64_t stalled_until_ns = 0;
    };

    [[nodiscard]] bool transmit(const Transit& packets, unsigned vl, const Damage& damage);
    void push(Transit& packet, unsigned vl, const Damage& damage);
    void pop(unsigned vl);
    [[nodiscard]] ib::VlMask sendable() const;
    void drain_vl15();
    void drain_data();
    [[nodiscard]] bool is_stalled(unsigned vl) const;
    [[nodiscard]] bool expire(unsigned vl, uint64_t now_ns);
    [[nodiscard]] uint64_t head_deadline(const VlQueue& queue) const;

    const Port port_;
    ib::Lazy<std::array<VlQueue, kVls>> queues_;  // packets wait at few ports only
    VlData data_by_vl_;
    ib::VlMask waiting_ = 0;  // data VLs whose queue is not empty
    ib::VlArbiter arbiter_;
    uint64_t packet_lifetime_ns_ = UINT64_MAX;
    ib::XmitWait xmit_wait_;
};

}  // namespace pib::fabric
