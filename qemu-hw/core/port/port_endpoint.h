// SPDX-License-Identifier: GPL-2.0-or-later
// A port's connection to the fabric: joins the link endpoint, which knows no socket, with the
// host's stream.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/host.h"
#include "ib/link/link_endpoint.h"

namespace pib::hca {

class PortEndpoint : private link::LinkEvents {
  public:
    // Events of the link. A handler must not call received(), connected(), closed() or abandon().
    class Owner {
      public:
        virtual ~Owner() = default;
        virtual void link_up(const link::ActiveLink& link) = 0;
        virtual void link_down() = 0;
        virtual uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) = 0;
        virtual void link_packet_fault(link::PacketFault fault) = 0;
        // See PortClient::take_copied().
        virtual uint64_t take_copied() = 0;
        // The connection has ended: the switch no longer shares the memory.
        virtual void link_gone() = 0;
    };

    PortEndpoint(Host& host, unsigned port, Owner& owner)
        : host_(host), port_(port), owner_(owner) {}

    // Events of the host's stream.
    void connected(const link::Hello& hello, const link::Link& parameters);
    // Returns the work of retrainings, as bytes of payload.
    [[nodiscard]] uint64_t received(std::span<const uint8_t> bytes);
    void writable();
    void closed();
    // Shared memory: shared() sets the rings. poll() handles a bounded number of bytes; true: there
    // may be more. may_sleep() asks the other end for a wake-up; false: there already is work.
    void shared(const link::LinkRings& rings) { rings_ = rings; }
    [[nodiscard]] bool poll();
    [[nodiscard]] bool may_sleep() { return !endpoint_ || endpoint_->may_sleep(); }

    // Sets the parameters of this side's LINK. A change takes the link down, and up again if both
    // sides want it.
    void set_parameters(const link::Link& parameters);
    // Like set_parameters(), but the link passes through Down even without a change.
    void retrain(const link::Link& parameters);

    [[nodiscard]] bool is_up() const { return endpoint_ && endpoint_->is_up(); }
    [[nodiscard]] bool can_send(unsigned vl, size_t bytes) const {
        return endpoint_ && endpoint_->sender().can_send(vl, bytes);
    }
    [[nodiscard]] bool has_credit(unsigned vl, size_t bytes) const {
        return endpoint_ && link::packet_blocks(bytes) <= endpoint_->sender().credits(vl);
    }
    // See LinkEndpoint. There is no room while the link is down, has no credits, or is full.
    link::BurstRoom begin(const link::BurstRequest& request);
    void commit(const ib::BurstSize& size, const link::OfferedPayload& offered);
    // nullptr: there is no connection.
    link::LinkEndpoint* endpoint() { return endpoint_ ? &*endpoint_ : nullptr; }
    // Closes the connection for a reason outside the link protocol.
    void abandon(const char* why);

    // Passes pending output to the host. Packets are sent in batches: at the end of each entry
    // point of the device, and when a batch has become large.
    void flush();

  private:
    [[nodiscard]] std::optional<link::LinkRings> link_rings() override { return rings_; }
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
    unsigned trainings_ = 0;     // number of times that the link went down
    bool refusal_told_ = false;  // the log has the warning that the switch refuses copies
    bool blocked_ = false;       // the host accepts no output until writable()
    std::string last_warning_;   // text of the last warning, which is not repeated
};

}  // namespace pib::hca
