// SPDX-License-Identifier: GPL-2.0-or-later
// A small subnet manager in a guest. It uses only the guest's QP0 and MAD_IFC, as opensm does,
// finds one switch and the HCAs at it, and brings their ports to Active.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ib/wire/mad.h"
#include "subnet.h"

namespace pib::test {

// One of a guest's special QPs with its buffers.
class MadQp {
  public:
    MadQp(Guest& guest, pib_hca_qp_type type);

    struct Received {
        ib::Mad mad;
        pib_hca_cqe cqe;
    };
    void send(const ib::Mad& mad, uint16_t dlid, uint32_t dest_qp);
    // MADs received since the last call; send completions are dropped.
    std::vector<Received> receive();
    unsigned failed_sends = 0;

  private:
    static constexpr uint32_t kSlots = 64;
    static constexpr uint32_t kSlotBytes = 512;
    static constexpr uint32_t kGrhBytes = 40;
    void post_recv(uint32_t slot);

    Guest& guest_;
    hca::test::MiniCq cq_;
    hca::test::MiniMr mr_;  // receive slots, then send slots
    hca::test::MiniQp qp_;
    uint32_t next_send_ = 0;
    uint32_t next_recv_ = 0;
    uint32_t qkey_ = 0;
};

class MiniSm {
  public:
    static constexpr uint16_t kSwitchLid = 100;
    // The initial path from entry 1 on: the HCA's own port, then switch ports. An empty path leads
    // to the HCA itself.
    using Path = std::vector<uint8_t>;

    MiniSm(World& world, Guest& home) : world_(world), home_(home), qp0_(home, PIB_HCA_QP_SMI) {}

    // Limit of transmissions of a request, which links and devices may lose.
    unsigned tries = 1;

    // Discovers the subnet, assigns LIDs (a port GUID keeps its LID), sets routes, and arms and
    // activates the ports.
    void sweep();
    uint16_t lid_of(unsigned guest) const;
    // Sets the guests that get packets to `mlid` (below 0xc020) in the multicast forwarding table.
    void set_group(uint16_t mlid, const std::vector<unsigned>& guests);
    // PortInfo:VLHighLimit of an HCA's port, in units of 4096 bytes; 255: no limit.
    void set_high_limit(const Path& path, uint8_t limit) {
        set_port(path, 1, {{ib::port_info::kVlHighLimit, limit}});
    }

    // Sends a directed-route request; returns its answer, if one comes.
    std::optional<ib::Mad> ask(ib::Method method, uint16_t attribute, uint32_t modifier,
                               const Path& path, std::span<const uint8_t> data = {});
    void send(const ib::Mad& mad, uint16_t dlid) { qp0_.send(mad, dlid, 0); }
    // Traps received since the last call. Represses each.
    std::vector<ib::Mad> take_traps();

  private:
    struct Node {
        uint64_t port_guid;
        uint8_t switch_port;
        Path path;
    };
    struct Change {
        ib::Field field;
        uint64_t value;
    };
    ib::Mad must(std::optional<ib::Mad> answer);
    void discover();
    void set_port(const Path& path, uint32_t port, const std::vector<Change>& changes);
    void route();
    void set_state(ib::PortState from, ib::PortState to);
    void collect();

    World& world_;
    Guest& home_;
    MadQp qp0_;
    uint64_t next_transaction_ = 1;
    uint16_t next_lid_ = 1;
    std::map<uint64_t, uint16_t> lids_;
    std::vector<Node> nodes_;
    std::vector<ib::Mad> answers_;
    std::vector<ib::Mad> traps_;
};

}  // namespace pib::test
