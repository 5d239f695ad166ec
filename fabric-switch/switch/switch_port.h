// SPDX-License-Identifier: GPL-2.0-or-later
// One external port of a switch: link state, egress queues by VL with credits, head-of-queue
// lifetime, counters (IBA 7.6, 18.2.5). The switch does the forwarding.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/packet_pool.h"
#include "base/ring_queue.h"
#include "ib/mgmt/link_errors.h"
#include "ib/mgmt/perf_counters.h"
#include "ib/mgmt/port_attrs.h"
#include "ib/mgmt/vl_arbiter.h"
#include "switch/fault_stage.h"
#include "switch/port_link.h"

namespace pib::fabric {

class SwitchPort;

// Interface of the switch for its ports.
class PortHost : public OriginSink {
  public:
    [[nodiscard]] virtual std::uint64_t now_ns() const = 0;
    // Reports an event at a port, which may change its next deadline. Idle ports without such a
    // report are not visited.
    virtual void port_touched(SwitchPort& port) = 0;
    // Packets that have passed the ingress faults. A single one is counted already, and always
    // taken. False of several: nothing has happened, and they come singly.
    [[nodiscard]] virtual bool packets_arrived(SwitchPort& port, Transit& packets) = 0;
    // The link itself moved PortState to or from Down (trap 128, SwitchInfo:PortStateChange).
    virtual void link_state_changed(SwitchPort& port) = 0;
    // Too many errors of one kind: a trap is due (129 to 131).
    virtual void link_error(SwitchPort& port, ib::LinkError error) = 0;
};

// Decoded values of PortInfo for checks of packets.
struct PortLimits {
    ib::PortState state = ib::PortState::kDown;
    unsigned data_vls = 0;          // OperationalVLs
    std::uint32_t max_pkt_len = 0;  // LRH:PktLen that NeighborMTU admits
    std::uint64_t hoq_life_ns = 0;  // UINT64_MAX: for ever
    unsigned vl_stall_count = 0;    // 0: never stalls
    bool enforce_pkey_in = false;
    bool enforce_pkey_out = false;
};

class SwitchPort final : public LinkUser, private FaultSink {
  public:
    SwitchPort(PortHost& host, PacketPool& pool, ib::Port& attrs, ib::PortCounters& counters);

    [[nodiscard]] std::uint8_t number() const { return attrs_.number; }
    [[nodiscard]] ib::Port& attrs() { return attrs_; }
    [[nodiscard]] ib::PortCounters& counters() { return counters_; }
    [[nodiscard]] const PortLimits& limits() const { return limits_; }
    [[nodiscard]] bool attached() const { return offers_.link() != nullptr; }
    // Whether a capture includes packets that arrive here; false if the neighbour's switch has
    // captured them.
    void set_captured(bool captured) { captured_ = captured; }
    [[nodiscard]] bool captured() const { return captured_; }

    // --- the link to the neighbour
    void attach(PortLink& link) override;
    void detach() override;
    void link_up(const link::ActiveLink& active) override;
    void link_down() override;
    std::uint32_t receive(const ib::Burst& burst, const RamReference* offer) override;
    void receive_fault(link::PacketFault fault) override;
    void pump() override;
    void release(const Origin& origin);  // receive buffer of a packet that came in here

    // --- the switch
    // Sends packets to this port's neighbour, or queues a single one. VL15 goes out in every state
    // but Down, data needs Active. MTU and partition have been checked. False: several, of which
    // none was sent, as they have to go singly.
    bool send(Transit& packets, unsigned vl);
    // Subnet management has changed this port.
    void attributes_changed(ib::PortEvents events);
    void advance(std::uint64_t now_ns);
    [[nodiscard]] std::uint64_t next_deadline() const;  // UINT64_MAX: none
    // True if the port is idle, so that advance() has no work until the next port_touched().
    [[nodiscard]] bool at_rest() const {
        return waiting_ == 0 && noted_waiting_ == 0 && !ingress_faults_.holds() &&
               !egress_faults_.holds();
    }
    // SwitchInfo:LifeTimeValue, UINT64_MAX: for ever.
    void set_packet_lifetime(std::uint64_t lifetime_ns) { packet_lifetime_ns_ = lifetime_ns; }

    // --- the operator
    // Holds the link down whatever subnet management wants, as a pulled cable would.
    void set_cable(bool plugged) { offers_.set_cable(plugged); }
    [[nodiscard]] bool cable() const { return offers_.cable(); }
    [[nodiscard]] FaultStage& ingress_faults() { return ingress_faults_; }
    [[nodiscard]] FaultStage& egress_faults() { return egress_faults_; }
    // Counts and reports the error as if the port had detected it.
    void raise(ib::LinkError error);
    [[nodiscard]] std::size_t queued_packets() const;
    // Copy counts of an adapter with peer copy; nullptr: none.
    [[nodiscard]] const CopyCounts* copies() const {
        return attached() ? offers_.link()->copies() : nullptr;
    }

  private:
    static constexpr unsigned kVls = 16;
    // More SMPs than any subnet manager has on the wire; further ones are dropped (VL15Dropped).
    static constexpr std::size_t kMaxVl15Packets = 1024;
    using Damage = std::optional<std::uint32_t>;

    struct Entry {
        PacketRef packet;
        std::uint64_t queued_ns = 0;
        Damage damage;
    };
    struct VlQueue {
        RingQueue<Entry> entries;
        std::uint64_t head_since_ns = 0;
        unsigned discarded_in_a_row = 0;
        std::uint64_t stalled_until_ns = 0;
    };

    void deliver(Transit& packet, unsigned vl, Damage damage) override;  // ingress faults' sink
    void enqueue(Transit& packet, unsigned vl, Damage damage);
    bool transmit(const Transit& packets, unsigned vl, Damage damage);
    void push(Transit& packet, unsigned vl, Damage damage);
    void pop(unsigned vl);
    [[nodiscard]] ib::VlMask sendable() const;
    void drain_vl15();
    void drain_data();
    void expire(unsigned vl, std::uint64_t now_ns);
    [[nodiscard]] std::uint64_t head_deadline(const VlQueue& queue) const;
    void count_discard(ib::Counter detail);
    void note_waiting();
    void count_wait(ib::Counter counter, std::uint64_t waited_ns, std::uint64_t& remainder_ns);
    void clear_queues();
    void refresh_limits();

    // The egress side of fault injection, whose output is queued.
    struct EgressSink final : FaultSink {
        SwitchPort& port;
        explicit EgressSink(SwitchPort& p) : port(p) {}
        void deliver(Transit& packet, unsigned vl, Damage damage) override {
            port.enqueue(packet, vl, damage);
        }
    };

    PortHost& host_;
    PacketPool& pool_;
    ib::Port& attrs_;
    ib::PortCounters& counters_;
    ib::LinkErrors errors_;
    PortLimits limits_;
    OfferSender offers_;
    std::uint64_t link_serial_ = 0;
    bool captured_ = true;
    std::array<VlQueue, kVls> queues_;
    ib::VlMask waiting_ = 0;  // data VLs whose queue is not empty
    ib::VlArbiter arbiter_;
    std::uint64_t packet_lifetime_ns_ = UINT64_MAX;
    // PortXmitWait: waiting VLs at the last check, its time, and fractions of ticks that are not
    // counted yet, for the port and each VL.
    ib::VlMask noted_waiting_ = 0;
    std::uint64_t noted_ns_ = 0;
    std::uint64_t wait_remainder_ns_ = 0;
    std::array<std::uint64_t, kVls> vl_wait_remainder_ns_{};
    EgressSink egress_sink_{*this};
    FaultStage ingress_faults_;
    FaultStage egress_faults_;
};

// 4.096 us times 2^value, as HOQLife and LifeTimeValue count; from 20 on for ever (IBA 18.2.5.4).
[[nodiscard]] std::uint64_t lifetime_ns(std::uint64_t value);

}  // namespace pib::fabric
