// SPDX-License-Identifier: GPL-2.0-or-later
// Gives the device what the recorded device took from the rings of its links.
#pragma once

#include "answers.h"
#include "ib/link/ring_tap.h"
#include "record/output_check.h"

namespace pib::hca::replay {

class ReplayTap final : public link::RingTap {
  public:
    ReplayTap(Answers& answers, record::OutputCheck& check) : answers_(answers), check_(check) {}

    uint32_t position(uint32_t loaded) override;
    void copied(std::span<uint8_t> bytes) override;
    void payload(std::span<const uint8_t> bytes) override;
    void sent(std::span<const uint8_t> frame) override { check_.frame(frame); }

  private:
    Answers& answers_;
    record::OutputCheck& check_;
};

}  // namespace pib::hca::replay
