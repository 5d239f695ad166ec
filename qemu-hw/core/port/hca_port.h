// SPDX-License-Identifier: GPL-2.0-or-later
// A port of the HCA.
//
// Reset. A port's firmware outlives its driver: a warm reset (ENABLE 1->0, RESET, FLR) drops
// packets, takes back what software has set (CapabilityMask bits, NodeDescription, SystemImageGUID)
// and retrains the link (a LINK with another epoch), so that the port falls through Down to
// Initialize and the SM has to bring it up again, which is how other nodes learn that the QPs they
// knew are gone. What the SM has set (LID, P_Key table, M_Key, GUIDs, SL to VL) stays: a guest must
// not escape its partition or an M_Key by a reset. A cold reset is power-on: everything, the PMA's
// counters included, starts anew.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/counters.h"
#include "base/host.h"
#include "ib/mgmt/link_errors.h"
#include "memory/one_copy.h"
#include "port/hca_pma.h"
#include "port/hca_sma.h"
#include "port/pacer.h"
#include "port/port.h"
#include "port/port_link.h"
#include "port/port_loopback.h"
#include "queues/eq.h"

namespace pib::hca {

// What a port works with; all of it outlives the port.
struct PortParts {
    Host& host;
    EqTable& eqs;
    Counters& counters;
    HcaSma& sma;
    HcaPma& pma;
    OneCopy* one_copy;  // nullptr: payload is copied
};

class HcaPort final : public Port, private PortLink::Owner, private OneCopyLink {
  public:
    HcaPort(unsigned number, const PortParts& parts);

    void set_client(PortClient& client) { client_ = &client; }

    // Device's entry points of the same names.
    void link_connected(bool can_share);
    void link_rx(std::span<const uint8_t> bytes);
    void link_writable();
    void link_closed();
    void link_shared(const link::LinkRings& rings) { link_.shared(rings); }
    bool link_poll();
    bool link_may_sleep() { return link_.may_sleep(); }
    bool link_wants_memory() const {
        return parts_.one_copy != nullptr && link_.one_copy_agreed() &&
               !parts_.one_copy->attached(number_);
    }
    void link_memory(const OneCopyMemory& memory);
    bool has_one_copy() const { return link_.shares_memory(); }

    bool run();  // a bounded amount of looped packets; true when some are left
    void timer(uint64_t now_ns);
    uint64_t next_deadline() const {
        return std::min(parts_.sma.next_trap_ns(number_), paced_until_ns_);
    }
    void flush() { link_.flush(); }
    void reset(bool cold);  // after HcaSma and HcaPma have been reset

    // Makes what subnet management or a command has changed effective: events, link, caches.
    void apply(ib::PortEvents events);

    // ---- Port
    link::BurstRoom begin(const TxRequest& request) override;
    void commit(const ib::BurstSize& size, const link::OfferedPayload& offered) override;
    unsigned lane(const TxRequest& request) const override;
    VlGrant arbitrate(ib::VlMask ready) override;
    void end_grant() override { granted_vl_ = kNoVl; }
    bool is_active() const override { return view_.active; }
    uint16_t lid() const override { return view_.lid; }
    uint8_t lmc() const override { return view_.lmc; }
    bool owns_lid(uint16_t dlid) const override;
    uint32_t mtu_bytes() const override { return view_.mtu_bytes; }
    uint16_t pkey(unsigned index) const override;
    unsigned pkey_count() const override;
    const uint8_t* gid(unsigned index) const override;
    void pkey_violation(const ib::PacketView& packet) override;
    void qkey_violation(const ib::PacketView& packet) override;
    void mad_dropped(bool vl15) override;

  private:
    // Where a packet on its way out goes.
    enum class Route : uint8_t { kNone, kLink, kLoopback, kDiscard };
    struct Outgoing {
        Route route = Route::kNone;
        uint8_t vl = 0;
        ib::Counter reason = ib::Counter::kPortXmitDiscards;  // kDiscard: the detail counter
        uint8_t paced_rate = 0;  // not 0: its path is slower than the link
        uint8_t sl = 0;
        uint16_t dlid = 0;
        std::span<uint8_t> bytes{};  // room for the packets
    };
    // What sending and receiving look at for every packet, drawn from the ib::Port by refresh().
    struct View {
        bool link_up = false;   // Initialize, Armed or Active
        bool receives = false;  // Armed or Active
        bool active = false;
        uint8_t lmc = 0;
        uint16_t lid = 0;
        uint32_t mtu_bytes = 256;
        uint8_t data_vls = 1;
        uint32_t slower_rates = 0;  // static rates below the link's, bit per code
        ib::SlToVl sl_to_vl{};
        std::vector<ib::Gid> gids;
    };
    // Packets of a VL, or to the port itself, that wait for credit or room.
    static constexpr unsigned kLoopbackLane = kFreeLane;
    static constexpr unsigned kNoVl = kLanes;
    struct Waiting {
        bool waiting = false;
        uint32_t bytes = 0;  // of the packet that was refused
        uint64_t since_ns = 0;
    };
    // A MAD of the device on its way out: LRH, GRH if any, BTH, DETH and the MAD.
    struct OwnMad {
        TxRequest request{};
        bool loopback = false;  // to this port whatever the DLID says
        std::array<uint8_t, 324> bytes;
    };

    // ---- PortLink::Owner
    void link_up(const link::ActiveLink& link) override;
    void link_down() override;
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override;
    void link_packet_fault(link::PacketFault fault) override;
    void link_gone() override;

    // ---- OneCopyLink
    bool pulling() const override { return link_.pulling(); }
    void cancel_pull() override { link_.cancel_pull(); }
    void give_up() override { link_.give_up(); }

    void refresh();
    void sync_offer();
    void tell_client(ib::PortEvents events);
    ib::link::Hello hello(bool can_share) const;
    ib::Port& attrs() const { return parts_.sma.port(number_); }
    ib::PortCounters& pma() const { return parts_.pma.port(number_); }

    // port_transmit.cc
    Outgoing route(const TxRequest& request) const;
    link::BurstRoom begin(const TxRequest& request, const Outgoing& out);
    void commit(const Outgoing& out, const ib::BurstSize& size,
                const link::OfferedPayload& offered);
    void charge(const Outgoing& out, const ib::BurstSize& size);
    void refused(const TxRequest& request, const Outgoing& out);
    bool must_wait_for_others(unsigned vl) const;
    bool is_slower_than_link(const TxRequest& request) const {
        return (view_.slower_rates >> (request.static_rate & 31) & 1) != 0;
    }
    bool may_leave(const TxRequest& request, Outgoing& out);
    void wait_in(unsigned lane, uint32_t bytes);
    bool may_go_on(unsigned lane) const;
    void stop_waiting(unsigned lane);
    bool stop_waiting();
    void wait_for_credit_alone();
    void resume();
    void send_mad(const ib::PacketHeaders& headers, const ib::Mad& mad, bool loopback);
    bool try_send(const OwnMad& mad);

    // port_receive.cc
    enum class Admission : uint8_t { kYes, kWakes, kNoVl, kDropped };
    uint32_t receive(ib::Burst& burst, ib::Placement& payload, bool looped);
    uint32_t take(ib::Burst& burst, ib::Placement& payload, bool looped);
    Admission admit(const ib::Lrh& lrh, bool looped) const;
    bool passes_link(const ib::Burst& burst, bool looped);
    bool accepts_dlid(const ib::Lrh& lrh) const;
    void count_received(const ib::Burst& burst, uint32_t count, bool looped);
    void drop() { parts_.counters.add(PIB_HCA_COUNTER_RX_DROPPED, number_); }
    void receive_smp(const ib::Burst& burst, bool looped);
    bool direct_reply(const ib::Lrh& request, ib::Mad& reply, ib::PacketHeaders& headers,
                      bool& loopback) const;
    void answer_smp(const ib::PacketView& packet, const ib::Mad& request, bool looped);
    void receive_gmp(const ib::Burst& burst);
    void give_to_client(const ib::Burst& packet) {
        ib::Placement here;
        (void)client_->burst_in(number_, packet, here);
    }
    void answer_gmp(const ib::PacketView& packet, const ib::Mad& request);
    ib::PacketHeaders reply_headers(const ib::PacketView& request) const;
    ib::Lid reply_slid(ib::Lid request_dlid) const;

    const unsigned number_;
    const PortParts parts_;
    PortClient* client_ = nullptr;
    PortLink link_;
    PortLoopback loopback_;
    ib::LinkErrors link_errors_;
    View view_;
    Outgoing out_;
    std::array<Waiting, kLanes> waiting_{};  // by VL, then the loopback
    ib::VlMask wants_room_ = 0;  // data VLs that wait although they have credit, bit per VL
    ib::VlArbiter arbiter_;
    unsigned granted_vl_ = kNoVl;
    Pacer pacer_;
    uint64_t paced_until_ns_ = kNever;  // something was refused that may go then
    std::deque<OwnMad> queued_mads_;
    ib::Psn mad_psn_;
    std::array<uint8_t, ib::kMaxPacket> discarded_{};  // packets that go nowhere are written here
};

}  // namespace pib::hca
