// SPDX-License-Identifier: GPL-2.0-or-later
// Unreliable datagrams: UD, SMI and GSI QPs (IBA vol. 1, 9.8.3, 10.2.5, 13.5.3), and multicast to
// them.
#pragma once

#include "ib/wire/packet.h"
#include "qp/qp_services.h"
#include "transport/mcast_table.h"
#include "transport/packet_out.h"

namespace pib::hca {

class Datagram {
  public:
    Datagram(QpServices& services, const McastTable& mcast) : services_(services), mcast_(mcast) {}

    // Sends WQEs until the queue is empty, the budget is spent, or the port has no room.
    Turn run(QueuePair& qp, Budget& budget);

    // Handles a SEND for one datagram QP, received at port `port`.
    void packet_in(QueuePair& qp, unsigned port, const ib::PacketView& packet);
    // Handles a SEND to the multicast QPN: copies it to each attached QP that accepts it
    // (IBA 10.5.2). Returns the number of copies.
    uint32_t multicast_in(unsigned port, const ib::PacketView& packet);

  private:
    [[nodiscard]] bool fetch(QueuePair& qp);
    WqeError check(const QueuePair& qp, const SendWqe& wqe);
    Verdict check_address(const QueuePair& qp, const DatagramOp& op);
    Sent send_front(QueuePair& qp);
    ib::PacketHeaders headers(const QueuePair& qp, const SendWqe& wqe);

    // matching_pkey() returns the index of the P_Key that matches the packet's, or kNoPkey.
    static constexpr unsigned kNoPkey = UINT32_MAX;
    unsigned matching_pkey(const QueuePair& qp, const ib::PacketView& packet);
    [[nodiscard]] static bool qkey_matches(const QueuePair& qp, const ib::PacketView& packet);
    void deliver(QueuePair& qp, const ib::PacketView& packet, unsigned pkey_index);
    void no_receive(const QueuePair& qp);
    [[nodiscard]] bool scatter_packet(QueuePair& qp, const ib::PacketView& packet);
    Completion describe(const QueuePair& qp, const ib::PacketView& packet, unsigned pkey_index);

    QpServices& services_;
    const McastTable& mcast_;
};

}  // namespace pib::hca
