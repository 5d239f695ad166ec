// SPDX-License-Identifier: GPL-2.0-or-later
// A live capture as bytes of the pcapng format: packets with ERF headers, as in pcap_tap.h, in a
// buffer of fixed size. A packet that finds no room is lost; the next packet's ERF header has the
// number of packets lost before it, and Interface Statistics Blocks have the number of all lost
// packets (isb_ifdrop).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "switch/packet_tap.h"

namespace pib::fabric {

class CaptureStream {
  public:
    static constexpr size_t kRoom = 8 << 20;

    // `greeting` precedes the capture. `wall_offset_ns` is added to the packets' times to get the
    // time of day. `room`: maximum number of bytes that wait to be sent.
    CaptureStream(std::string_view greeting, int64_t wall_offset_ns, size_t room = kRoom);

    // Adds `packet`, LRH to padding, or counts it as lost.
    void add(std::span<const uint8_t> packet, const Arrival& arrival);
    // The bytes that were not sent yet.
    [[nodiscard]] std::span<const uint8_t> pending() const {
        return std::span(buffer_).subspan(sent_);
    }
    // The first `bytes` bytes of pending() were sent.
    void sent(size_t bytes);
    [[nodiscard]] uint64_t lost() const { return lost_; }

  private:
    [[nodiscard]] bool has_room(size_t bytes) const;
    void put(uint32_t value);
    void put(std::span<const uint8_t> bytes);
    void put_time(uint64_t wall_ns);
    void start();
    void tell_losses();

    size_t room_;
    int64_t wall_offset_ns_;
    std::vector<uint8_t> buffer_;
    size_t sent_ = 0;  // bytes of buffer_ that were sent
    uint64_t lost_ = 0;
    uint64_t told_ = 0;         // part of lost_ that is in Interface Statistics Blocks
    uint64_t lost_before_ = 0;  // lost_ when the last packet was added
    uint64_t last_ns_ = 0;
};

}  // namespace pib::fabric
