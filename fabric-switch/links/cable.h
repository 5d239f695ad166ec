// SPDX-License-Identifier: GPL-2.0-or-later
// A link between two ports of one process, with the rules of a connection: negotiated parameters,
// credits for each data VL, packets in order and without loss. Only run() delivers packets, not the
// calls of a port, so a path of many hops does not nest calls.
#pragma once

#include <array>

#include "base/packet_pool.h"
#include "base/ring_queue.h"
#include "switch/neighbour.h"

namespace pib::fabric {

class Cable;

class CableScheduler {
  public:
    virtual ~CableScheduler() = default;
    // Runs the cable later, because it has work. Called at most once before each run().
    virtual void cable_ready(Cable& cable) = 0;
};

class Cable final {
  public:
    // Both ports outlive the cable. `receive_blocks`: receive buffer of each port for each data VL,
    // in credit blocks.
    Cable(LinkUser& a, LinkUser& b, uint32_t receive_blocks, PacketPool& pool,
          CableScheduler& scheduler);
    ~Cable();
    Cable(const Cable&) = delete;
    Cable& operator=(const Cable&) = delete;

    // Delivers at most `packets` waiting packets each way. The caller has moved the clock.
    void run(unsigned packets);

  private:
    // The end of the cable that one port uses.
    class End final : public Neighbour {
      public:
        End(Cable& cable, LinkUser& user, End& peer) : cable_(cable), user_(user), peer_(peer) {}

        link::BurstRoom begin(const link::BurstRequest& request) override;
        void commit(const ib::BurstSize& size, const OfferRecord* offer) override;
        [[nodiscard]] bool can_send(unsigned vl, size_t bytes, link::SendCrc crc) const override;
        [[nodiscard]] uint32_t credits(unsigned vl) const override;
        [[nodiscard]] uint32_t granted(unsigned vl) const override { return peer_.credits(vl); }
        void release(unsigned vl, uint32_t blocks) override;
        void set_parameters(const link::Link& parameters) override;
        void retrain() override;

      private:
        friend class Cable;
        struct Packet {
            PacketRef bytes;
            uint8_t vl = 0;
            bool with_crcs = false;
            uint32_t blocks = 0;
        };

        void deliver(unsigned packets);
        void drop_queue();

        Cable& cable_;
        LinkUser& user_;
        End& peer_;
        link::Link parameters_{};
        RingQueue<Packet> queue_;  // packets on their way to the peer
        size_t vl15_queued_ = 0;
        Packet pending_;
        std::array<uint32_t, link::kDataVls> used_{};  // used blocks of the peer's buffer
        bool pump_ = false;                            // this port may send more packets
    };

    void ready();
    void train();

    uint32_t receive_blocks_;
    PacketPool& pool_;
    CableScheduler& scheduler_;
    End a_, b_;
    bool scheduled_ = false;
    bool changed_ = false;  // set_parameters() or retrain() since train()
    bool up_ = false;
};

}  // namespace pib::fabric
