// SPDX-License-Identifier: GPL-2.0-or-later
// One connection to the switch: a link endpoint and, from HELLO (or WELCOME) on, the port it
// belongs to. It takes and returns bytes; its owner has the socket, or joins two ends in memory in
// tests.
#pragma once

#include <memory>
#include <string>

#include "links/copier.h"
#include "switch/port_link.h"

namespace pib::fabric {

class SwitchLink final : public PortLink, private link::LinkEvents {
  public:
    class Owner {
      public:
        virtual ~Owner() = default;
        // Output for the peer is ready; called once until consume_output() or publish().
        virtual void link_output_ready() = 0;
        // The peer can share memory: returns rings, which outlive the link; no value if this side
        // cannot.
        virtual std::optional<link::LinkRings> link_share() { return std::nullopt; }
        // Maps an adapter's shared memory; nullptr: unusable, as a note reports. The error ends the
        // connection.
        virtual std::expected<std::shared_ptr<const AdapterMemory>, std::string> link_map(
            const ib::link::Memory& /*memory*/) {
            return std::unexpected("descriptors are missing");
        }
        // An answer for the peer, which may sleep.
        virtual void link_wake() {}
        // A message for the user; one line.
        virtual void link_note(const std::string& text) = 0;
    };

    // The peer to which this side connects.
    class Outgoing {
      public:
        virtual ~Outgoing() = default;
        [[nodiscard]] virtual ib::link::Hello hello() const = 0;
        [[nodiscard]] virtual link::LinkEndpoint::Buffers link_buffers() const = 0;
        // The port for the answering peer, or the reason for a refusal, in one line.
        [[nodiscard]] virtual std::expected<Admission::Place, std::string> welcomed(
            const ib::link::Welcome& welcome) = 0;
    };

    // The listening side. Both references outlive the link, here and below.
    SwitchLink(Admission& admission, Owner& owner);
    // The connecting side.
    SwitchLink(Outgoing& outgoing, Owner& owner);
    ~SwitchLink() override { close(); }
    SwitchLink(const SwitchLink&) = delete;
    SwitchLink& operator=(const SwitchLink&) = delete;

    // As at LinkEndpoint. The clock of the ports is moved first.
    [[nodiscard]] std::span<std::uint8_t> input_space() { return endpoint_.input_space(); }
    [[nodiscard]] std::expected<void, link::LinkFailure> feed_input(std::size_t bytes);
    [[nodiscard]] std::span<const std::uint8_t> output() const { return endpoint_.output(); }
    void consume_output(std::size_t bytes);
    // The same of a link in shared memory.
    [[nodiscard]] bool is_shared() { return endpoint_.channel().is_shared(); }
    [[nodiscard]] std::expected<bool, link::LinkFailure> receive(std::size_t bytes);
    [[nodiscard]] bool publish();
    [[nodiscard]] bool may_sleep() {
        return endpoint_.may_sleep() && !(copier_ && copier_->is_copying());
    }
    // Continues the peer's pull up to this limit.
    void copy(std::uint64_t bytes);
    // Whether the next input may carry descriptors.
    [[nodiscard]] bool takes_memory() const { return endpoint_.agreed().peer_copy && !copier_; }
    [[nodiscard]] bool room_is_back() { return endpoint_.channel().room_is_back(); }
    // The connection is gone; the port goes Down. A REFUSE may still be in output().
    void close();

    [[nodiscard]] bool handshake_done() { return endpoint_.training().is_open(); }
    [[nodiscard]] std::uint8_t port_number() const { return place_.number; }

    // PortLink
    link::BurstRoom begin(const link::BurstRequest& request) override;
    void commit(const ib::BurstSize& size, const RamReference* offer) override;
    [[nodiscard]] const CopyCounts* copies() const override {
        return copier_ ? &copier_->counts() : nullptr;
    }
    [[nodiscard]] bool can_send(unsigned vl, std::size_t bytes, link::SendCrc crc) const override;
    void release(unsigned vl, std::uint32_t blocks) override;
    void set_offer(const ib::link::Link& offer) override;
    void retrain() override;

  private:
    link::HelloAnswer link_hello(const ib::link::Hello& hello) override;
    void link_welcome(const ib::link::Welcome& welcome) override;
    std::optional<link::LinkRings> link_rings() override { return rings_; }
    void link_up(const link::ActiveLink& active) override;
    void link_down() override;
    std::uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override;
    void link_packet_fault(link::PacketFault fault) override { place_.port->receive_fault(fault); }
    std::expected<std::span<std::uint8_t>, std::string> link_memory(
        const ib::link::Memory& memory) override;
    bool link_dereference(const ib::link::Reference& from, std::span<std::uint8_t> to) override;
    std::expected<void, std::string> link_pull(const ib::link::Pull& pull) override {
        return copier_->start(pull);
    }
    [[nodiscard]] std::uint32_t shared_features(const ib::link::Hello& hello) const;
    void notify();

    Admission* admission_ = nullptr;  // one of these
    Outgoing* outgoing_ = nullptr;
    Owner& owner_;
    Admission::Place place_;  // no port before HELLO or WELCOME
    std::string unwelcome_;   // mismatch of the peer's answer
    bool notified_ = false;
    std::optional<link::LinkRings> rings_;
    std::unique_ptr<Copier> copier_;  // from MEMORY on
    link::LinkEndpoint endpoint_;
};

}  // namespace pib::fabric
