// SPDX-License-Identifier: GPL-2.0-or-later
// Writes the switch's packets, LRH to VCRC, to a pcap file. Computes the checksums that the links
// elide.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <expected>
#include <memory>
#include <string>

#include "base/packet_pool.h"
#include "switch/switch.h"

namespace pib::fabric {

enum class PcapFormat : uint8_t {
    // LINKTYPE_INFINIBAND, 247: LRH to VCRC and nothing else. Wireshark 4 does not read this
    // number; `editcap` or its DLT_USER table can translate it.
    kInfiniBand,
    // LINKTYPE_ERF, 197: the same after an ERF header of 24 bytes (erf_header.h), which Wireshark
    // reads.
    kErf,
};

class PcapTap final : public PacketTap {
  public:
    // "-" is standard output. `wall_offset_ns` is added to the packets' times to get the time of
    // day. The error is one line for a user.
    [[nodiscard]] static std::expected<std::unique_ptr<PcapTap>, std::string> open(
        const std::string& path, int64_t wall_offset_ns,
        PcapFormat format = PcapFormat::kInfiniBand);
    void packet_seen(std::span<const uint8_t> packet, const Arrival& arrival) override;
    // Writes buffered packets to the file.
    void flush();
    // Whether a write has failed, for example on a full disk. The switch goes on.
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    struct Close {
        void operator()(std::FILE* file) const {
            if (file != stdout) {
                std::fclose(file);
            }
        }
    };
    PcapTap(std::FILE* file, int64_t wall_offset_ns, PcapFormat format);
    void write(const void* bytes, size_t size);

    std::unique_ptr<std::FILE, Close> file_;
    int64_t wall_offset_ns_;
    PcapFormat format_;
    bool failed_ = false;
    std::array<uint8_t, PacketPool::kMaxPacketBytes + 6> packet_;
};

}  // namespace pib::fabric
