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
    // What a link tells its port; the port must not call received(), connected() or closed() from
    // here.
    class Owner {
      public:
        virtual ~Owner() = default;
        virtual void link_up(const link::ActiveLink& link) = 0;
        virtual void link_down() = 0;
        virtual void link_packet(const link::LinkPacket& packet) = 0;
        virtual void link_packet_fault(link::PacketFault fault) = 0;
        virtual uint32_t link_run(const ib::PacketRun& run, uint32_t from) = 0;
        virtual bool link_reference(const ib::PacketRun& run,
                                    std::vector<link::RamPiece>& where) = 0;
        virtual bool link_placed(const ib::PacketRun& run,
                                 std::span<const link::RamPiece> where) = 0;
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

    // What the port wants of the link from now on; a change takes the link down and perhaps up
    // again.
    void set_offer(const ib::link::Link& offer);
    // set_offer(), and through Down even when nothing changed.
    void retrain(const ib::link::Link& offer);

    bool is_up() const { return endpoint_ && endpoint_->is_up(); }
    bool can_send(unsigned vl, size_t bytes) const {
        return endpoint_ && endpoint_->can_send(vl, bytes);
    }
    bool has_credit(unsigned vl, size_t bytes) const {
        return endpoint_ && link::packet_blocks(bytes) <= endpoint_->credits(vl);
    }
    // As LinkEndpoint's: LRH to end of padding; empty when the link is down, without credit or
    // full.
    std::span<uint8_t> begin_packet(unsigned vl, size_t bytes);
    void commit_packet();
    uint32_t run_limit(unsigned vl, size_t longest, uint32_t mtu) const {
        return endpoint_ ? endpoint_->run_limit(vl, longest, mtu) : 0;
    }
    std::span<uint8_t> begin_run(unsigned vl, const ib::RunSize& size) {
        return endpoint_ ? endpoint_->begin_run(vl, size) : std::span<uint8_t>{};
    }
    // One copy (LinkEndpoint's functions of these names).
    bool one_copy_agreed() const { return endpoint_ && endpoint_->one_copy_agreed(); }
    void share_memory(uint8_t* control, std::span<const uint64_t> blocks);
    bool shares_memory() const { return endpoint_ && endpoint_->shares_memory(); }
    uint32_t reference_limit(unsigned vl, size_t longest, uint32_t mtu) const {
        return endpoint_ ? endpoint_->reference_limit(vl, longest, mtu) : 0;
    }
    std::span<uint8_t> begin_reference(unsigned vl, const ib::RunSize& size, uint64_t handle,
                                       std::span<const link::RamPiece> pieces) {
        return endpoint_ ? endpoint_->begin_reference(vl, size, handle, pieces)
                         : std::span<uint8_t>{};
    }
    bool pulling() const { return endpoint_ && endpoint_->pulling(); }
    void cancel_pull();
    // The switch does not answer.
    void give_up();

    // Gives what waits to the host. Packets leave in batches: at the end of each entry point of the
    // device, and when a batch has grown large.
    void flush();

  private:
    std::optional<link::LinkRings> link_rings() override { return rings_; }
    void link_up(const link::ActiveLink& link) override;
    void link_down() override;
    void link_packet(const link::LinkPacket& packet) override;
    uint32_t link_run(const link::LinkRun& run, uint32_t from) override;
    bool link_reference(const link::LinkRun& run, std::vector<link::RamPiece>& where) override {
        return owner_.link_reference(run.packets, where);
    }
    bool link_placed(const link::LinkRun& run, std::span<const link::RamPiece> where) override;
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
