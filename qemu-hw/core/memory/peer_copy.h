// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy (docs/fabric-protocol.md, "Peer copy"): the switch copies payload from guest to guest.
// This class is the device's part. It has the memory that each link shares, its valid offers, and
// the target of its current pull. Code that takes memory away from the fabric calls this class
// first. No call waits: is_busy() is true until the switch has stopped accessing all revoked
// memory, and until then the device returns no buffer to software.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/host.h"
#include "ib/link/burst_room.h"
#include "memory/mpt.h"
#include "memory/offer_slots.h"
#include "memory/registered_pages.h"

namespace pib::hca {

// Interface of a link for peer copies.
class PeerCopyLink {
  public:
    virtual ~PeerCopyLink() = default;
    // Whether the switch may be writing to the target of a pull; false without a link.
    [[nodiscard]] virtual bool pulling() const = 0;
    virtual void cancel_pull() = 0;
    // Closes the link, because the switch does not answer.
    virtual void give_up() = 0;
};

// Memory that a link shares with the switch, with its mapping in this process.
struct PeerCopyMemory {
    uint8_t* control = nullptr;  // control memory; link::peer_copy_bytes() says its size
    std::vector<RamBlock> blocks;
};

class PeerCopy final : public MemoryWatch {
  public:
    // Longest time to wait for a switch that accesses revoked memory. The time between two looks
    // counts as at most one step: after a pause of this process, the switch's answer may have
    // arrived and not been read yet.
    static constexpr uint64_t kPullStepNs = 100'000'000;
    static constexpr uint64_t kPullTimeoutNs = 10 * kPullStepNs;
    // Shorter payloads are sent in packets, because an offer costs two wake-ups.
    static constexpr uint32_t kMinBytes = 64 * 1024;

    PeerCopy(Host& host, Mpt& mpt, uint32_t min_bytes = kMinBytes);
    ~PeerCopy() override;

    void set_link(unsigned port, PeerCopyLink& link) { ports_[port - 1].link = &link; }
    void attach(unsigned port, const PeerCopyMemory& memory);
    // The connection has ended, so there is no access left to wait for.
    void detach(unsigned port);
    uint32_t min_bytes() const { return min_bytes_; }
    [[nodiscard]] bool attached(unsigned port) const { return ports_[port - 1].shared != nullptr; }

    // --- sender. Offers the memory in `sg_list`; nullopt: the link cannot offer it. The segments
    // of the result are valid until the next open() or end_pull().
    [[nodiscard]] std::optional<link::OfferedPayload> open(unsigned port, const SgList& sg_list,
                                                           const OfferOwner& owner);
    // Revokes an offer that was not sent.
    void close(unsigned port, uint64_t handle);
    // Requests before PSN `una` are acknowledged: ends their offers. Returns whether the QP has
    // offers of later requests.
    [[nodiscard]] bool acknowledged(uint32_t qpn, ib::Psn una);
    // Revokes the offers of a QP's requests, which will be sent again in packets.
    void revoke_requests(uint32_t qpn);

    // --- receiver. Begins a pull for a QP to the memory in `sg_list`, and sets `where` to the
    // same memory as segments of RAM blocks. False: the switch cannot reach this memory.
    [[nodiscard]] bool begin_pull(unsigned port, uint32_t qpn, const SgList& sg_list,
                                  std::vector<link::BlockSegment>& where);
    // Ends a pull that the switch has answered. False: the pull was cancelled, or its target has
    // changed.
    [[nodiscard]] bool end_pull(unsigned port, const SgList& sg_list,
                                std::span<const link::BlockSegment> where);

    // The pull has ended without an accepted burst.
    void pull_ended(unsigned port) { ports_[port - 1].to_guest = false; }

    // Whether the switch still accesses revoked memory.
    [[nodiscard]] bool is_busy();
    // Whether the switch no longer accesses revoked memory. After kPullTimeoutNs the function gives
    // up and returns true: it closes the link of a switch that still writes, and waits no longer
    // for a switch that still reads. Handlers of a link must not call this.
    [[nodiscard]] bool settled();

    // --- sender and receiver. Revokes the offers and cancels the pull of a QP.
    void revoke_qp(uint32_t qpn);
    // Revokes all offers and cancels the pulls.
    void revoke_all();

    // ---- MemoryWatch
    void region_added(const MemoryRegion& region) override;
    void key_revoked(uint32_t number) override;
    void region_removed(const MemoryRegion& region) override;
    void keys_cleared() override;

  private:
    struct Shared {
        explicit Shared(const PeerCopyMemory& memory);
        link::PeerCopyControl& control;
        RegisteredPages pages;
        OfferSlots offers;
        uint64_t generation = 0;        // Host::ram_generation() at the last count of `pages`
        uint32_t physical_regions = 0;  // regions over all memory (DMA MRs)
    };
    struct PortState {
        // Cancels the current pull.
        void cancel();
        // Whether the switch still accesses revoked memory.
        [[nodiscard]] bool is_busy();
        void give_up();

        PeerCopyLink* link = nullptr;
        std::unique_ptr<Shared> shared;
        // Whether a pull copies to guest memory, for the QP `qpn` and with the keys `keys`.
        bool to_guest = false;
        uint64_t pulls = 0;      // number of pulls that have begun
        uint64_t cancelled = 0;  // `pulls` of the cancelled pull that has not ended; 0: none
        uint32_t qpn = 0;
        KeySet keys{};
    };
    // A wait for the switch.
    struct Wait {
        std::optional<uint64_t> looked_ns;  // the last look, by Host::real_ns()
        uint64_t waited_ns = 0;
    };
    [[nodiscard]] bool translate(Shared& shared, const SgList& sg_list,
                                 std::vector<link::BlockSegment>& out);
    void refresh(Shared& shared);
    void count(Shared& shared, const MemoryRegion& region, bool comes);
    template <typename F>
    void for_each_shared(F&& f) {
        for (PortState& port : ports_) {
            if (port.shared) {
                f(port, *port.shared);
            }
        }
    }

    Host& host_;
    Mpt& mpt_;
    const uint32_t min_bytes_;
    bool may_be_busy_ = false;  // memory has been revoked since is_busy() was last false
    Wait wait_;
    std::array<PortState, kMaxPorts> ports_;
    std::vector<link::BlockSegment> segments_;  // segments of the newest offer or ended pull
};

}  // namespace pib::hca
