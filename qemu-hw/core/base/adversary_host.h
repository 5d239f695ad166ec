// SPDX-License-Identifier: GPL-2.0-or-later
// The host of an adversarial device: accesses to guest memory in parts and in another order,
// interrupts that come late, again or without a cause, and a clock that steps forward.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/adversary.h"
#include "base/config.h"
#include "base/forwarding_host.h"

namespace pib::hca {

// Delayed payload, cut into pieces that are stored in any order.
class PayloadPieces {
  public:
    void keep(Adversary& adversary, uint64_t bus_addr, std::span<const uint8_t> from);
    void store(Host& host, Adversary& adversary);
    size_t bytes() const { return bytes_.size(); }

  private:
    struct Piece {
        uint64_t bus_addr;
        size_t offset;  // index in bytes_ of the piece's first byte
        size_t length;
    };
    std::vector<uint8_t> bytes_;
    std::vector<Piece> pieces_;
};

class AdversaryHost final : public ForwardingHost {
  public:
    AdversaryHost(Host& host, Adversary& adversary, unsigned vectors);

    // Steps the clock or raises a spurious interrupt, if one is due. The device calls it at the
    // start of each of its entry points. Raises no interrupt if not `enabled`, as after a reset.
    void begin(bool enabled);
    // Stores the delayed payload. The device calls it before software or the peer can learn that
    // the payload has arrived.
    void store_payload() { payload_.store(host_, adversary_); }
    void timer();
    uint64_t next_deadline() const;
    // Drops the delayed interrupts: the device sends none of them after a reset.
    void reset() { late_.fill(kNever); }

    // ---- Host
    [[nodiscard]] bool dma_read(uint64_t bus_addr, std::span<uint8_t> to) override;
    [[nodiscard]] bool dma_write(uint64_t bus_addr, std::span<const uint8_t> from) override;
    [[nodiscard]] bool dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected,
                                     uint64_t desired) override;
    void dma_for(DmaPurpose purpose) override { purpose_ = purpose; }
    void dma_barrier() override {
        store_payload();
        host_.dma_barrier();
    }
    void raise_msix(unsigned vector) override;
    uint64_t now_ns() override { return host_.now_ns() + ahead_ns_; }
    void set_timer(uint64_t deadline_ns) override;

  private:
    Adversary& adversary_;
    DmaPurpose purpose_ = DmaPurpose::kOther;
    PayloadPieces payload_;
    const unsigned vectors_;
    std::array<uint64_t, kMaxVectors> late_{};  // when to raise the delayed interrupt; kNever: none
    uint64_t ahead_ns_ = 0;                     // lead of the device's clock over the host's
    uint64_t next_step_ns_ = 0;                 // when the clock steps; 0: not drawn yet
};

}  // namespace pib::hca
