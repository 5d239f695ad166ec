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
    // Counters of peer copies for the adapter; nullptr: it does not share its memory.
    [[nodiscard]] virtual const CopyCounts* copies() const { return nullptr; }
    [[nodiscard]] virtual bool can_send(unsigned vl, std::size_t bytes,
                                        link::SendCrc crc) const = 0;
    // Free blocks of the neighbour's receive buffer for a data VL.
    [[nodiscard]] virtual std::uint32_t credits(unsigned vl) const = 0;
    // Blocks that the neighbour may still send on a data VL.
    [[nodiscard]] virtual std::uint32_t granted(unsigned vl) const = 0;
    // Frees the receive buffer of packets from this link.
    virtual void release(unsigned vl, std::uint32_t blocks) = 0;
    // Sets this port's link parameters; retrain() sends them again, through Down.
    virtual void set_parameters(const link::Link& parameters) = 0;
    virtual void retrain() = 0;
};

// A port's end of the cable: the attached link, if any, and the port's link parameters, whose
// changes are sent to the neighbour.
class CableEnd {
  public:
    explicit CableEnd(const ib::PortAttrs& attrs) : attrs_(attrs) {}

    // nullptr: no link.
    [[nodiscard]] Neighbour* neighbour() const { return neighbour_; }
    [[nodiscard]] bool attached() const { return neighbour_ != nullptr; }
    // Counters of peer copies for the adapter; nullptr: none.
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
    // A port without a cable offers no link, regardless of subnet management.
    void plug(bool plugged) {
        plugged_ = plugged;
        push(false);
    }
    [[nodiscard]] bool is_plugged() const { return plugged_; }

  private:
    // The link goes through Down if the parameters differ from the last ones, or on request.
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

// The port at one end of a link: functions for the neighbour's calls. The owner of the port has the
// clock.
class LinkUser {
  public:
    virtual ~LinkUser() = default;
    virtual void attach(Neighbour& neighbour) = 0;
    // The link has ended. The port may still be up: then detach() does what link_down() does.
    virtual void detach() = 0;
    virtual void link_up(const link::ActiveLink& active) = 0;
    virtual void link_down() = 0;
    // Received packets; returns how many were taken, as LinkEvents::link_burst() does. `offer`: the
    // location of a payload that stays in the sender's memory; nullptr: `burst` has the payload.
    [[nodiscard]] virtual std::uint32_t receive(const ib::Burst& burst,
                                                const OfferRecord* offer) = 0;
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
        std::uint8_t number = 0;
        std::string name;  // for the log
    };

    virtual ~Admission() = default;
    [[nodiscard]] virtual link::LinkEndpoint::Buffers link_buffers() const = 0;
    // Features of this side for links in shared memory (link::kFeature...).
    [[nodiscard]] virtual std::uint32_t link_features() const = 0;
    // The port for `peer`, the sender of HELLO, or the reason for a refusal.
    [[nodiscard]] virtual std::expected<Place, link::Refuse> admit(const link::Hello& hello,
                                                                   const Peer& peer) = 0;
};

}  // namespace pib::fabric
