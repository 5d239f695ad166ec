// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy: the switch moves payload from guest to guest (docs/fabric-protocol.md, "Peer copy").
// This class keeps the device's side of it: the memory that a link shares, the live references to
// it, and the target of the current pull. Code that takes memory away from the fabric calls this
// class first; when the call returns, the switch no longer accesses that memory. In the scope of a
// Deferral the call only starts that, and settled() becomes true when the switch has let go.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/host.h"
#include "memory/mpt.h"
#include "memory/shared_ram.h"

namespace pib::hca {

// Interface of a link for peer copies.
class OneCopyLink {
  public:
    virtual ~OneCopyLink() = default;
    // The switch may be writing; false also when there is no link.
    virtual bool pulling() const = 0;
    virtual void cancel_pull() = 0;
    // It does not answer: the link is closed.
    virtual void give_up() = 0;
};

// Memory that a link shares with the switch, as mapped here.
struct OneCopyMemory {
    uint8_t* control = nullptr;  // one_copy_bytes() of the blocks
    std::vector<RamBlock> blocks;
};

class OneCopy final : public MemoryWatch {
  public:
    // Longest wait for a switch that accesses the guest's memory. It is bounded because the guest's
    // processors may wait for the lock that the caller holds.
    static constexpr uint64_t kPatienceNs = 1'000'000'000;
    // Shorter payloads are copied, because a reference costs two wake-ups.
    static constexpr uint32_t kMinBytes = 64 * 1024;

    OneCopy(Host& host, Mpt& mpt, uint32_t min_bytes = kMinBytes);
    ~OneCopy() override;

    void set_link(unsigned port, OneCopyLink& link) { ports_[port - 1].link = &link; }
    void attach(unsigned port, const OneCopyMemory& memory);
    // The connection has ended: nothing waits for it.
    void detach(unsigned port);
    uint32_t min_bytes() const { return min_bytes_; }
    bool attached(unsigned port) const { return ports_[port - 1].shared != nullptr; }

    // --- the source. Opens a reference to what `located` says; nothing when the link cannot have
    // one. The pieces are valid until the next call.
    struct Reference {
        uint64_t handle;
        std::span<const link::RamPiece> pieces;
    };
    std::optional<Reference> open(unsigned port, const Located& located,
                                  const ReferenceOwner& owner);
    // Revokes a handle that no packet has carried.
    void close(unsigned port, uint64_t handle);
    // Everything before `una` has been acknowledged; whether there is more of the QP's requests.
    bool acknowledged(uint32_t qpn, ib::Psn una);
    void forget_requests(uint32_t qpn);  // they are sent again, by copy

    // --- the destination. Where the run's payload goes, for the QP; false: it cannot be said.
    bool begin_pull(unsigned port, uint32_t qpn, const Located& located,
                    std::vector<link::RamPiece>& where);
    // Whether it is still there.
    bool end_pull(unsigned port, const Located& located, std::span<const link::RamPiece> where);

    // The last pull has ended, and its burst was not accepted.
    void pull_ended(unsigned port) { ports_[port - 1].to_guest = false; }

    // --- revocations that do not wait
    // While one exists, revocations return at once.
    class Deferral {
      public:
        explicit Deferral(OneCopy* copy) : copy_(copy) { count(1); }
        ~Deferral() { count(-1); }
        Deferral(const Deferral&) = delete;
        Deferral& operator=(const Deferral&) = delete;

      private:
        void count(int by) {
            if (copy_ != nullptr) {
                copy_->deferrals_ += by;
            }
        }
        OneCopy* copy_;
    };
    // Whether the switch has let go of all memory that was revoked. A switch that takes longer than
    // kPatienceNs loses its link.
    bool settled();

    // --- what ends both
    void qp_goes(uint32_t qpn);
    // Revokes all references and ends the pull: before the memory map changes, or the VM stops. It
    // waits in any case.
    void stop_all();

    // ---- MemoryWatch
    void region_comes(const MemoryRegion& region) override;
    void key_goes(uint32_t number) override;
    void region_goes(const MemoryRegion& region) override;
    void keys_cleared() override;

  private:
    struct Shared {
        explicit Shared(const OneCopyMemory& memory);
        link::OneCopyControl& control;
        RegisteredPages pages;
        References references;
        uint64_t generation = 0;        // generation of guest memory for which `pages` are valid
        uint32_t physical_regions = 0;  // that give a right to all memory
    };
    struct PortState {
        // Cancels the current pull.
        void cancel();
        // Whether the switch still accesses memory that was revoked.
        bool is_busy();
        void give_up();

        OneCopyLink* link = nullptr;
        std::unique_ptr<Shared> shared;
        // Target of the current pull.
        bool to_guest = false;
        uint64_t pulls = 0;      // that have begun
        uint64_t cancelled = 0;  // number of the pull that is to end; 0: none
        uint32_t qpn = 0;
        KeySet keys{};
    };
    bool translate(Shared& shared, const Located& located, std::vector<link::RamPiece>& out);
    void refresh(Shared& shared);
    void count(Shared& shared, const MemoryRegion& region, bool comes);
    void wait();
    void wait_unless_deferred();
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
    int deferrals_ = 0;
    uint64_t until_ns_ = 0;  // on the host's real clock; 0: nothing is waited for
    std::array<PortState, PIB_HCA_MAX_PORTS> ports_;
    std::vector<link::RamPiece> pieces_;  // segments of the reference being sent
};

}  // namespace pib::hca
