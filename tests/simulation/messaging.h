// SPDX-License-Identifier: GPL-2.0-or-later
// Messages by UD, UC, RC and XRC between the guests, beside the connections: each guest has a
// station, and lines connect some of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "line.h"
#include "script.h"

namespace pib::simulation {

class Messaging {
  public:
    // Creates nothing if the setup has no lines.
    Messaging(const Setup& setup, const test::MiniSm& sm, const std::vector<Owner>& owners);

    // Random numbers that choose what a step does.
    struct Choice {
        uint32_t a;
        uint32_t b;
        uint32_t c;
    };
    // Both return the number of posted work requests.
    uint32_t post_messages(const Choice& choice);
    uint32_t post_receives(const Choice& choice);
    void kill(const Choice& choice);
    // Replaces the QPs of a line if it has failed, and rarely if it has not.
    void reopen(const Choice& choice, const Connection::Attributes& attributes, bool had_outage);

    // Reads all CQs.
    Connection::Completions poll();
    // Fills all receive queues.
    void refill();
    bool is_done() const;
    // Checks that all requests are complete. Call it when nothing is in flight.
    void check_completed();
    // Destroys the lines.
    void close();
    // Destroys the stations. Call it when nothing is in flight.
    void release();

    void set_outage(unsigned guest);
    // Links lose packets. Retries may run out while a message waits for a receive, because RNR NAKs
    // do not renew them (IBA vol. 1, 9.9.2.1.1).
    void set_lossy();
    void set_scrambled();
    void lose(unsigned guest);
    void restore(const Owner& owner);

    uint32_t line_count() const { return static_cast<uint32_t>(lines_.size()); }
    const Line& line(uint32_t number) const { return *lines_[number % lines_.size()]; }

  private:
    Sender& sender(uint32_t number);
    bool post_datagram(Station& from, const Choice& choice);
    bool post_to_line(Line& line, const Choice& choice);
    void receive(const pib_hca_cqe& cqe, ReceiveQueue& queue, unsigned guest);
    void check_origin(const pib_hca_cqe& cqe, uint32_t number, unsigned guest);
    bool may_flush(uint32_t qpn, unsigned guest) const;
    void close(Line& line);

    const bool is_clean_;  // each message arrives
    const test::MiniSm& sm_;
    std::vector<std::unique_ptr<Station>> stations_;  // by guest
    std::vector<std::unique_ptr<Line>> lines_;
    std::vector<bool> was_reset_;
    bool is_scrambled_ = false;
    Connection::Completions completions_;  // those that poll() has read
};

}  // namespace pib::simulation
