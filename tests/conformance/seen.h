// SPDX-License-Identifier: GPL-2.0-or-later
// Everything that can be observed in a trial, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "stranger.h"

namespace pib::conformance {

// The first PSNs of a connection. PSNs in texts are relative to them.
struct FirstPsns {
    uint32_t answered = 0;
    uint32_t sent = 0;
};

class Witness {
  public:
    // From this offset on each word of the region contains its offset; before it are zeros.
    static constexpr uint64_t kPattern = 0x4000;

    Witness(hca::test::ReadyBench& bench, Stranger& stranger, hca::test::MiniMr& region)
        : bench_(bench), stranger_(stranger), region_(region) {}

    // Takes the region's present contents as known: seen() reports only later changes.
    void remember_memory();
    void remember_state(pib_hca_qp_state state) { state_ = state; }
    // Returns `bytes` bytes of payload that differ from all earlier payload.
    Bytes payload(uint32_t bytes);
    void note(const std::string& text) { words_.push_back(text); }
    // Text about all events since the last call; "nothing" if there were none. qpn 0: no QP.
    std::string seen(const hca::test::MiniQp& qp, const FirstPsns& first);

    bool show_credits = false;  // include an ACK's credit code

  private:
    void see_packets(const FirstPsns& first);
    void see_completions();
    void see_events();
    void see_memory();
    void see_state(const hca::test::MiniQp& qp);
    void add(const std::string& text);
    std::string payload_text(const Packet& packet) const;
    std::string answer_text(const Packet& packet, uint32_t psn) const;
    std::string request_text(const Packet& packet, uint32_t psn) const;

    hca::test::ReadyBench& bench_;
    Stranger& stranger_;
    hca::test::MiniMr& region_;
    Bytes before_;  // the region as it was
    Bytes stream_;  // all payload that the stranger has sent
    pib_hca_qp_state state_ = PIB_HCA_QPS_RTS;
    std::vector<std::string> words_;
};

}  // namespace pib::conformance
