// SPDX-License-Identifier: GPL-2.0-or-later
// A running hash of the device's calls to its host. Recorder and replayer compute it in the same
// way, so at the next entry of the recording a replay finds that a call has differed. The hash
// leaves out the content of payload, because a recording may have only its length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/host.h"

namespace pib::hca::record {

// A fast hash of numbers and bytes, which is not cryptographic.
class Hash {
  public:
    void add(uint64_t value) {
        state_ = (state_ ^ value) * 0x9e3779b97f4a7c15;
        state_ ^= state_ >> 29;
    }
    void add(std::span<const uint8_t> bytes) {
        while (!bytes.empty()) {
            uint64_t word = 0;
            const size_t n = std::min(bytes.size(), sizeof word);
            std::memcpy(&word, bytes.data(), n);
            add(word);
            bytes = bytes.subspan(n);
        }
    }
    uint64_t value() const { return state_; }

  private:
    uint64_t state_ = 0x5049425245430001;
};

class OutputCheck {
  public:
    enum class Call : uint8_t {
        kRead = 1,
        kWrite,
        kSwap,
        kInterrupt,
        kTimer,
        kKicks,
        kWake,
        kLinkWake,
        kLinkWrite,
        kLinkClose,
        kLinkKick,
        kFrame,
        kLoaded
    };

    void dma_write(uint64_t bus_addr, std::span<const uint8_t> from, DmaPurpose purpose) {
        call(Call::kWrite, bus_addr, from.size());
        if (purpose != DmaPurpose::kPayload) {
            hash_.add(from);
        }
    }
    // Hashes the length and the first kHeaders bytes of a frame. The bytes after them may be
    // payload.
    void frame(std::span<const uint8_t> bytes) {
        constexpr size_t kHeaders = 28;
        call(Call::kFrame, bytes.size(), 0);
        hash_.add(bytes.first(std::min(bytes.size(), kHeaders)));
    }
    void call(Call which, uint64_t first = 0, uint64_t second = 0) {
        hash_.add(static_cast<uint64_t>(which));
        hash_.add(first);
        hash_.add(second);
    }
    // The low 32 bits of the hash, as an entry of the recording has them.
    uint32_t low() const { return static_cast<uint32_t>(hash_.value()); }

  private:
    Hash hash_;
};

}  // namespace pib::hca::record
