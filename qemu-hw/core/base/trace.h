// SPDX-License-Identifier: GPL-2.0-or-later
// The last packets, WQEs and commands of one device, for finding the cause of a failure. A ring of
// fixed size in host memory; reading it converts it to text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pib::hca {

class JsonWriter;

// A command as it completes.
struct TracedCommand {
    uint16_t opcode = 0;
    uint16_t id = 0;
    uint32_t object = 0;
    uint32_t result = 0;  // the rule, of a refusal
    uint8_t status = 0;
    std::string reason{};  // a refusal's: "log_depth 31 at byte 24, at most 22"
};

class Trace {
  public:
    static constexpr uint32_t kMaxEntries = 65536;

    // `entries` is at most kMaxEntries; 0 traces nothing.
    explicit Trace(uint32_t entries) : ring_(entries) {}

    bool enabled() const { return !ring_.empty(); }

    // `packet` is LRH to padding. Ports count from 1.
    void packet_out(uint64_t now_ns, unsigned port, std::span<const uint8_t> bytes);
    // `head`: at least the headers of a packet of `length` bytes.
    void packet_in(uint64_t now_ns, unsigned port, std::span<const uint8_t> head, size_t length);
    // The copy of a WQE of this QP, and its counter.
    void send_wqe(uint64_t now_ns, uint32_t qpn, uint32_t counter, std::span<const uint8_t> wqe);
    void recv_wqe(uint64_t now_ns, uint32_t qpn, uint32_t counter, std::span<const uint8_t> wqe);
    void command(uint64_t now_ns, const TracedCommand& command);

    // A JSON array, oldest first.
    std::string json() const;

  private:
    enum class Kind : uint8_t { kPacketOut, kPacketIn, kSendWqe, kRecvWqe, kCommand };
    // All headers of a packet and the header of a MAD in it; all of most WQEs; most reasons.
    static constexpr size_t kKept = 128;
    struct Entry {
        uint64_t time_ns = 0;
        uint64_t sequence = 0;  // number since the device's start; gaps: entries were overwritten
        Kind kind = Kind::kPacketOut;
        uint8_t status = 0;   // command
        uint16_t opcode = 0;  // command
        uint16_t id = 0;      // command
        uint32_t object = 0;  // port, QPN, or the command's object
        uint32_t number = 0;  // counter of the WQE, or the command's result
        uint32_t length = 0;  // full length, of which at most kKept bytes are recorded
        std::array<uint8_t, kKept> bytes;
    };

    Entry& next(Kind kind, uint64_t now_ns);
    void keep(Kind kind, uint64_t now_ns, uint32_t object, uint32_t number,
              std::span<const uint8_t> bytes);
    static void print(JsonWriter& out, const Entry& entry);
    static void print_command(JsonWriter& out, const Entry& entry, std::span<const uint8_t> reason);

    std::vector<Entry> ring_;
    uint64_t count_ = 0;
};

}  // namespace pib::hca
