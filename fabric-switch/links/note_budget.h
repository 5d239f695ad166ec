// SPDX-License-Identifier: GPL-2.0-or-later
// Limits the notes, lines of the log that peers cause, so that a peer that causes many neither
// fills the log nor hides the notes of others.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace pib::fabric {

class NoteBudget {
  public:
    // Maximum numbers of notes in a second: of all peers together, and of one peer. A port's first
    // note in a second is permitted even after kMost others.
    static constexpr unsigned kMost = 50;
    static constexpr unsigned kMostOfOne = 10;

    // Whether a note is permitted now. `port`: the port of a peer that has identified itself.
    [[nodiscard]] bool permit_port(const std::string& port, uint64_t now_ns);
    // `network`: see Peer.
    [[nodiscard]] bool permit_newcomer(const std::string& network, uint64_t now_ns);

  private:
    using Counts = std::map<std::string, unsigned>;

    void begin(uint64_t now_ns);
    [[nodiscard]] bool count(unsigned& of_one);

    uint64_t second_ = 0;
    unsigned notes_ = 0;
    Counts of_port_, of_network_;  // notes in the present second
};

}  // namespace pib::fabric
