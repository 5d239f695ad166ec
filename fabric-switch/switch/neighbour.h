// SPDX-License-Identifier: GPL-2.0-or-later
// Interface of a switch port to its neighbour: a connection to an HCA or to another process, or a
// port of another switch in this process. The neighbour calls the port as a LinkUser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "ib/link/link_endpoint.h"
#include "ib/mgmt/port_attrs.h"
#include "switch/peer.h"

namespace pib::fabric {

struct CopyCounts;
struct OfferRecord;

class Neighbour {
  public:
    virtual ~Neighbour() = default;
    // Same as LinkEndpoint::begin(). Gives room for one packet where bursts cannot be sent.
    virtual link::BurstRoom begin(const link::BurstRequest& request) = 0;
    // Sends the written packets. `offer`: the location of an offer's payload; nullptr: the packets
    // have their payload.
    virtual void commit(const ib::BurstSize& size, const OfferRecord* offer) = 0;
    // Counters of peer copies for the neighbour; nullptr: the neighbour does not share its memory.
    [[nodiscard]] virtual const CopyCounts* copies() const { return nullptr; }
    // Whether begin() would give room for one packet; `bytes` as BurstRequest::longest.
    [[nodiscard]] virtual bool can_send(unsigned vl, size_t bytes, link::SendCrc crc) const = 0;
    // Credit blocks that this port may still send on a data VL.
    [[nodiscard]] virtual uint32_t credits(unsigned vl) const = 0;
    // Credit blocks that the neighbour may still send on a data VL.
    [[nodiscard]] virtual uint32_t granted(unsigned vl) const = 0;
    // Frees `blocks` credit blocks of this port's receive buffer, which packets occupied.
    virtual void release(unsigned vl, uint32_t blocks) = 0;
    // Sets the link parameters that this port offers. A change, or retrain(), takes the link
    // through Down.
    virtual void set_parameters(const link::Link& parameters) = 0;
    virtual void retrain() = 0;
};

// A port's end of the cable. It knows the neighbour, if any, and sends it the port's link
// parameters when they change.
class CableEnd {
  public:
    explicit CableEnd(const ib::PortAttrs& attrs) : attrs_(attrs) {}

    // The neighbour; nullptr: no link.
    [[nodiscard]] Neighbour* neighbour() const { return neighbour_; }
    [[nodiscard]] bool attached() const { return neighbour_ != nullptr; }
    // As Neighbour::copies(); also nullptr without a link.
    [[nodiscard]] const CopyCounts* copies() const {
        return neighbour_ != nullptr ? neighbour_->copies() : nullptr;
    }
    void attach(Neighbour& neighbour) {
        neighbour_ = &neighbour;
        parameters_ = {};
        push(false);
    }
    void detach() { neighbour_ = nullptr; }
    // New widths and speeds take effect at the next training (IBA 14.2.5.6): now if the link is
    // down, else when subnet management sets it down.
    void attributes_changed(ib::PortEvents events) {
        const bool down = events.has(ib::PortEvent::kDownRequest);
        if (down || (events.has(ib::PortEvent::kLinkParameters) && !attrs_.link_is_up())) {
            push(down);
        }
    }
    // Plugs the cable in, or pulls it. While it is pulled, the link is down, whatever PortState
    // subnet management sets.
    void plug(bool plugged) {
        plugged_ = plugged;
        push(false);
    }
    [[nodiscard]] bool is_plugged() const { return plugged_; }

  private:
    // The link goes through Down if the parameters differ from the last ones, or if `retrain`.
    void push(bool retrain) {
        if (neighbour_ == nullptr) {
            return;
        }
        link::Link now = ib::link_parameters(attrs_);
        now.up = now.up && plugged_;
        if (now != parameters_) {
            parameters_ = now;
            neighbour_->set_parameters(now);
        } else if (retrain) {
            neighbour_->retrain();
        }
    }

    const ib::PortAttrs& attrs_;
    Neighbour* neighbour_ = nullptr;
    bool plugged_ = true;
    link::Link parameters_{};
};

// The port at one end of a link: functions that the neighbour calls. The port reads the time from
// its owner's clock, which the caller has moved.
class LinkUser {
  public:
    virtual ~LinkUser() = default;
    virtual void attach(Neighbour& neighbour) = 0;
    // The link has ended. Also does what link_down() does, if the link was up.
    virtual void detach() = 0;
    virtual void link_up(const link::ActiveLink& active) = 0;
    virtual void link_down() = 0;
    // Takes received packets; returns how many were taken, as LinkEvents::link_burst() does.
    // `offer`: the location of a payload that stays in the sender's memory; nullptr: `burst` has
    // the payload.
    [[nodiscard]] virtual uint32_t receive(const ib::Burst& burst, const OfferRecord* offer) = 0;
    // Counts a received packet that the link has dropped.
    virtual void receive_fault(link::PacketFault fault) = 0;
    // The link may take more packets than before: credits have arrived, or output was written.
    virtual void pump() = 0;
};

// Assigns a port to a connecting peer.
class Admission {
  public:
    struct Place {
        LinkUser* port = nullptr;  // outlives the connection
        ib::Guid node_guid{};      // GUID of the port's node
        uint8_t number = 0;
        std::string name;  // for the log
    };

    virtual ~Admission() = default;
    [[nodiscard]] virtual link::LinkEndpoint::Buffers link_buffers() const = 0;
    // Features of this side for links in shared memory (link::kFeature...).
    [[nodiscard]] virtual uint32_t link_features() const = 0;
    // The port for `peer`, the sender of HELLO, or the reason for a refusal.
    [[nodiscard]] virtual std::expected<Place, link::Refuse> admit(const link::Hello& hello,
                                                                   const Peer& peer) = 0;
};

}  // namespace pib::fabric
