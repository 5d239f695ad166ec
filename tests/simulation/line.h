// SPDX-License-Identifier: GPL-2.0-or-later
// A connection whose messages go one way: by RC or XRC to an SRQ that other lines use as well, or
// by UC to a receive queue of its own.
#pragma once

#include <optional>
#include <string>

#include "connection.h"
#include "station.h"

namespace pib::simulation {

class Line {
  public:
    enum class Service { kRc, kXrc, kUc };
    // `number`: the sender's number.
    Line(Station& from, Station& to, Service service, uint32_t number);
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    void open(const test::MiniSm& sm, const Connection::Attributes& attributes);
    // Moves the QPs to Error, so that they give back the work request of an SRQ that they use.
    void stop();
    // Destroys both QPs. Call it after stop(), when the CQs have been read.
    void destroy();

    void kill(unsigned end);
    // Tells the model that this guest's device was reset.
    void lose(unsigned guest);
    // The device of the receiving guest works again.
    void restore(const Owner& owner);
    void release() { own_.destroy_key(); }

    void post(const Sent& sent, const Sender::Choice& choice);
    void post_receives(uint32_t count);
    // The next completion of the line's own receive CQ.
    std::optional<pib_hca_cqe> poll_receives();

    bool is_at(unsigned guest) const {
        return from_.owner().index == guest || to_.owner().index == guest;
    }
    unsigned receiver() const { return to_.owner().index; }
    uint32_t receiver_qpn() const { return receiver_.qpn; }
    // Number of the SRQ that takes its messages; 0: a queue of its own takes them.
    uint32_t srqn() const;
    // Queue that takes its messages.
    ReceiveQueue& queue();
    [[nodiscard]] bool has_failed() const {
        return sender.has_failed() || is_receiver_lost_ || is_receiver_killed_;
    }
    // Whether all completions and messages that must come have come.
    [[nodiscard]] bool is_done() const {
        return sender.is_done() && (has_failed() || sender.ledger.is_delivered());
    }
    [[nodiscard]] bool may_flush_receives() const { return is_receiver_killed_; }
    [[nodiscard]] bool is_receiver_lost() const { return is_receiver_lost_; }

    Sender sender;

  private:
    hca::test::MiniQp create_receiver();
    void kill_receiver();

    Station& from_;
    Station& to_;
    const Service service_;
    ReceiveQueue own_;  // used by UC
    hca::test::MiniCq receive_cq_;
    hca::test::MiniQp receiver_;
    bool is_receiver_lost_ = true;  // there is no QP
    bool is_receiver_killed_ = false;
};

}  // namespace pib::simulation
