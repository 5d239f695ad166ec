// SPDX-License-Identifier: GPL-2.0-or-later
// Objects by which a guest exchanges messages with any other guest: a UD QP that is a member of the
// group, an SRQ for RC, an SRQ in an XRC domain, and a UD QP that sends.
#pragma once

#include <cstdint>
#include <optional>

#include "receive_queue.h"
#include "sender.h"

namespace pib::simulation {

class Station {
  public:
    static constexpr uint16_t kGroupLid = 0xc001;
    Station(const Owner& owner, uint32_t number);

    // Creates the objects anew after the device was reset.
    void restore(const Owner& owner);
    void destroy();
    // Checks that waiting receives are untouched, and that the device counts as many. Call it when
    // nothing is in flight and no line uses the SRQs.
    void check_receives();

    // Number of a receive queue.
    enum Queue : unsigned { kDatagrams, kShared, kXrc, kQueues };
    ReceiveQueue& queue(unsigned which);
    void post_receives(unsigned which, uint32_t count);
    // Posts a datagram to the guest with this LID and station, or to the group.
    void send(const Station* to, uint16_t lid, const Sent& sent, const Sender::Choice& choice);
    // The next completion of the datagrams' queue, or of the XRC domain's.
    std::optional<pib_hca_cqe> poll(unsigned which);

    const Owner& owner() const { return owner_; }
    uint32_t srqn() const { return srq_.srqn; }
    uint32_t xrc_srqn() const { return xrc_srq_.srqn; }
    uint32_t xrcd() const { return xrcd_; }

    Sender sender;

  private:
    void create();

    Owner owner_;
    ReceiveQueue datagrams_;
    ReceiveQueue shared_;
    ReceiveQueue xrc_;
    hca::test::MiniCq datagram_cq_;
    hca::test::MiniCq xrc_cq_;
    hca::test::MiniQp qp_;
    hca::test::MiniSrq srq_;
    hca::test::MiniSrq xrc_srq_;
    uint32_t xrcd_ = 0;
};

}  // namespace pib::simulation
