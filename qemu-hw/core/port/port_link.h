// SPDX-License-Identifier: GPL-2.0-or-later
// A port's connection to the fabric: joins the link endpoint, which knows no socket, to the host's
// stream.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/host.h"
#include "ib/link/link_endpoint.h"

namespace pib::hca {

class PortLink : private link::LinkEvents {
  public:
    // Events of the link. The port must not call received(), connected() or closed() from here.
    class Owner {
      public:
        virtual ~Owner() = default;
        virtual void link_up(const link::ActiveLink& link) = 0;
        virtual void link_down() = 0;
        virtual uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) = 0;
        virtual void link_packet_fault(link::PacketFault fault) = 0;
        // The connection has ended, and with it what was handed over.
        virtual void link_gone() = 0;
    };

    PortLink(Host& host, unsigned port, Owner& owner) : host_(host), port_(port), owner_(owner) {}

    // The host's side of the stream.
    void connected(const ib::link::Hello& hello, const ib::link::Link& offer);
    void received(std::span<const uint8_t> bytes);
    void writable();
    void closed();
    // Shared memory: handed over; a bounded amount of what came in, true when more may be there;
    // and asks the other end to wake us, false when it need not.
    void shared(const link::LinkRings& rings) { rings_ = rings; }
    bool poll();
    bool may_sleep() { return !endpoint_ || endpoint_->may_sleep(); }

    // Offers this to the peer from now on; a change takes the link down and perhaps up again.
    void set_offer(const ib::link::Link& offer);
    // set_offer(), and through Down even when nothing changed.
    void retrain(const ib::link::Link& offer);

    bool is_up() const { return endpoint_ && endpoint_->is_up(); }
    bool can_send(unsigned vl, size_t bytes) const {
        return endpoint_ && endpoint_->sender().can_send(vl, bytes);
    }
    bool has_credit(unsigned vl, size_t bytes) const {
        return endpoint_ && link::packet_blocks(bytes) <= endpoint_->sender().credits(vl);
    }
    // As LinkEndpoint's; no room when the link is down, without credit or full.
    link::BurstRoom begin(const link::BurstRequest& request);
    void commit(const ib::BurstSize& size, const link::OfferedPayload& offered);
    // For peer copy; nullptr when there is no connection.
    link::LinkEndpoint* endpoint() { return endpoint_ ? &*endpoint_ : nullptr; }
    // Closes the connection for a reason that only the port knows.
    void abandon(const char* why);

    // Gives what waits to the host. Packets leave in batches: at the end of each entry point of the
    // device, and when a batch has grown large.
    void flush();

  private:
    std::optional<link::LinkRings> link_rings() override { return rings_; }
    void link_up(const link::ActiveLink& link) override;
    void link_down() override;
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override;
    void link_copy_refused() override;
    void link_packet_fault(link::PacketFault fault) override { owner_.link_packet_fault(fault); }

    void fail(const link::LinkFailure& failure);

    Host& host_;
    const unsigned port_;
    Owner& owner_;
    std::optional<link::LinkRings> rings_;
    std::optional<link::LinkEndpoint> endpoint_;
    unsigned trainings_ = 0;     // counts how often the link went down
    bool refusal_told_ = false;  // the switch has refused to copy: told once
    bool blocked_ = false;       // the host takes no more until writable()
    std::string last_warning_;   // a switch that refuses is asked again and again: told once
};

}  // namespace pib::hca
