// SPDX-License-Identifier: GPL-2.0-or-later
// A QP that sends messages, the memory that it sends from, and the model of the messages.
#pragma once

#include <cstdint>
#include <string>

#include "connection.h"
#include "ledger.h"

namespace pib::simulation {

class Sender {
  public:
    static constexpr uint8_t kLogDepth = 4;
    static constexpr uint32_t kMostBytes = 4000;  // longest message
    Sender(uint32_t number, Delivery delivery, std::string name);

    // Creates the CQ, the QP of this type, and the memory's key.
    void create(const Owner& owner, pib_hca_qp_type type);
    // Destroys these objects, or forgets them if the owner's device was reset.
    void destroy();
    void lose() { is_lost = true; }
    // Moves the QP to Error.
    void kill();

    // Random numbers that choose how a request is posted.
    struct Choice {
        uint32_t a;
        uint32_t b;
    };
    // Posts the message. `wr`: has its destination, if the QP needs one.
    void post(const Sent& sent, const Choice& choice, hca::test::SendWr wr);
    [[nodiscard]] bool has_room() const { return !is_lost && ledger.in_queue() < 1u << kLogDepth; }
    Connection::Completions poll();

    const hca::test::MiniQp& qp() const { return qp_; }
    const Owner& owner() const { return owner_; }
    [[nodiscard]] bool is_done() const { return is_lost || !ledger.awaits_completion(); }
    [[nodiscard]] bool has_failed() const { return is_lost || is_killed || ledger.has_failed(); }

    Ledger ledger;
    bool is_killed = false;
    bool is_lost = true;        // there is no QP
    bool peer_is_gone = false;  // retries run out
    bool had_outage = false;    // retries may have run out

  private:
    static constexpr uint64_t kMemoryBytes = (uint64_t{1} << kLogDepth) * 4096;

    Owner owner_ = {};
    hca::test::MiniCq cq_;
    hca::test::MiniQp qp_;
    hca::test::MiniMr mr_;
};

}  // namespace pib::simulation
