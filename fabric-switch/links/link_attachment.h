// SPDX-License-Identifier: GPL-2.0-or-later
// Finds the port at this end of a connection when HELLO or WELCOME arrives, and passes it the
// events of the link endpoint. Starts peer copy when MEMORY arrives.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "links/copier.h"
#include "switch/neighbour.h"

namespace pib::fabric {

// Owner of a link's connection.
class LinkOwner {
  public:
    virtual ~LinkOwner() = default;
    // Output for the peer is ready. Called again only after consume_output() or publish().
    virtual void link_output_ready() = 0;
    // The peer can share memory: returns rings, which outlive the link; nullopt if this side
    // cannot.
    [[nodiscard]] virtual std::optional<link::LinkRings> link_share() { return std::nullopt; }
    // Maps an adapter's shared memory; nullptr: unusable, which a note reports. The error ends the
    // connection.
    [[nodiscard]] virtual std::expected<std::shared_ptr<const AdapterMemory>, std::string> link_map(
        const link::Memory& /*memory*/) {
        return std::unexpected("descriptors are missing");
    }
    // Wakes the peer, which may be asleep while an answer for it is ready.
    virtual void link_wake() {}
    // The other end. It stays the same from the peer's first frame on.
    [[nodiscard]] virtual const Peer& link_peer() const;
    // A message for the user; one line.
    virtual void link_note(const std::string& text) = 0;
};

// The connecting side of a link: its HELLO, and its check of the peer's WELCOME.
class OutgoingLink {
  public:
    virtual ~OutgoingLink() = default;
    [[nodiscard]] virtual link::Hello hello() const = 0;
    [[nodiscard]] virtual link::LinkEndpoint::Buffers link_buffers() const = 0;
    // The port for the answering peer, or the reason for a refusal, in one line.
    [[nodiscard]] virtual std::expected<Admission::Place, std::string> welcomed(
        const link::Welcome& welcome) = 0;
};

class LinkAttachment final : public link::LinkEvents {
  public:
    // The listening side, and the connecting one. All objects outlive the attachment; the port
    // sends over `link`.
    LinkAttachment(Admission& admission, LinkOwner& owner, Neighbour& link)
        : admission_(&admission), owner_(owner), link_(link) {}
    LinkAttachment(OutgoingLink& outgoing, LinkOwner& owner, Neighbour& link)
        : outgoing_(&outgoing), owner_(owner), link_(link) {}

    // The port at this end; nullptr: neither HELLO nor WELCOME has arrived, or the connection has
    // ended.
    [[nodiscard]] LinkUser* port() const { return place_.port; }
    [[nodiscard]] uint8_t port_number() const { return place_.number; }
    // For messages; empty while there is no port.
    [[nodiscard]] const std::string& port_name() const { return place_.name; }
    // Whether HELLO or WELCOME has been accepted; stays true after detach().
    [[nodiscard]] bool has_accepted() const { return accepted_; }
    // The reason why this side refuses the received WELCOME; empty: it does not refuse it.
    [[nodiscard]] const std::string& unwelcome() const { return unwelcome_; }
    // Peer copy with the peer; nullptr: the peer has not shared its memory.
    [[nodiscard]] Copier* copier() const { return copier_.get(); }
    // The connection has ended; the port goes Down.
    void detach();

    // --- LinkEvents
    link::HelloAnswer link_hello(const link::Hello& hello) override;
    void link_welcome(const link::Welcome& welcome) override;
    [[nodiscard]] std::optional<link::LinkRings> link_rings() override { return rings_; }
    void link_up(const link::ActiveLink& active) override;
    void link_down() override;
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override;
    void link_packet_fault(link::PacketFault fault) override { place_.port->receive_fault(fault); }
    [[nodiscard]] std::expected<std::span<uint8_t>, std::string> link_memory(
        const link::Memory& memory) override;
    [[nodiscard]] bool link_copy_offer(const link::Offer& from, std::span<uint8_t> to) override;
    [[nodiscard]] std::expected<void, std::string> link_pull(const link::Pull& pull) override {
        return copier_->start(pull);
    }

  private:
    [[nodiscard]] uint32_t shared_features(const link::Hello& hello) const;

    Admission* admission_ = nullptr;  // one of these two is set
    OutgoingLink* outgoing_ = nullptr;
    LinkOwner& owner_;
    Neighbour& link_;
    Admission::Place place_;
    bool accepted_ = false;
    std::string unwelcome_;
    std::optional<link::LinkRings> rings_;
    std::unique_ptr<Copier> copier_;
};

}  // namespace pib::fabric
