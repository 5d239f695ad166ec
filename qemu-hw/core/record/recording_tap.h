// SPDX-License-Identifier: GPL-2.0-or-later
// Records the positions and bytes that the device reads from the rings of its links, and adds the
// frames that it sends to the OutputCheck.
#pragma once

#include "ib/link/ring_tap.h"
#include "record/recorder.h"

namespace pib::hca::record {

class RecordingTap final : public link::RingTap {
  public:
    explicit RecordingTap(Recorder& recorder) : recorder_(recorder) {}

    uint32_t position(uint32_t loaded) override {
        recorder_.answer(Tag::kRingPosition, uint64_t{loaded});
        return loaded;
    }
    void copied(std::span<uint8_t> bytes) override {
        recorder_.answer(Tag::kRingBytes, std::span<const uint8_t>(bytes));
    }
    void payload(std::span<const uint8_t> bytes) override {
        if (recorder_.keeps_payload()) {
            recorder_.answer(Tag::kRingPayload, bytes);
        }
    }
    void sent(std::span<const uint8_t> frame) override { recorder_.check().frame(frame); }

  private:
    Recorder& recorder_;
};

}  // namespace pib::hca::record
