// SPDX-License-Identifier: GPL-2.0-or-later
// The last packets, WQEs, completions, commands and, by TraceKinds, accesses, EQEs and interrupts
// of one device. The trace is a ring of fixed size in host memory; json() converts it to text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/event.h"
#include "base/host.h"
#include "base/recent_accesses.h"

namespace pib::ib {
class Burst;
}

namespace pib::hca {

class JsonWriter;

// A command as it completes.
struct TracedCommand {
    uint64_t fetched_ns = 0;
    uint16_t opcode = 0;
    uint16_t id = 0;
    uint32_t object = 0;
    uint32_t result = 0;  // if the command was refused, manual_number() of the rule
    uint8_t status = 0;
    std::span<const uint8_t> input{};  // empty if the command was refused
    std::string reason{};              // why it was refused: "log_depth 31 at byte 24, at most 22"
};

// A WQE as the device copies it.
struct TracedWqe {
    uint32_t qpn = 0;
    uint32_t counter = 0;
    // First PSN and number of PSNs of a send WQE. The PSNs of a READ are those of its responses.
    uint32_t psn = 0;
    uint32_t packets = 0;
    uint8_t qp_type = 0;  // send WQE: the type determines the segments of the WQE
};

// The end of a work request.
struct TracedCompletion {
    uint32_t qpn = 0;
    uint32_t counter = 0;
    uint32_t cqn = 0;  // 0: an unsignalled success, which has no CQE
    uint8_t status = 0;
    bool is_send = true;
};

// An EQE as the device writes it.
struct TracedEvent {
    uint32_t eqn = 0;
    uint32_t counter = 0;  // number of earlier EQEs of the EQ, modulo 2^32
    RaisedEvent event{};
};

struct TracedDma {
    uint64_t bus_addr = 0;
    uint32_t length = 0;
    bool write = false;
    bool failed = false;
    DmaPurpose purpose = DmaPurpose::kOther;
};

class Trace {
  public:
    static constexpr uint32_t kMaxEntries = 65536;

    // `entries` is at most kMaxEntries; 0 traces nothing.
    explicit Trace(uint32_t entries, const TraceKinds& kinds = {})
        : ring_(entries), kinds_(kinds) {}

    [[nodiscard]] bool enabled() const { return !ring_.empty(); }
    [[nodiscard]] bool has_registers() const { return enabled() && kinds_.registers; }

    // Drops all entries and goes on with a ring of another size. Sequence numbers continue. DMA is
    // recorded as before, whatever `kinds` says. Throws std::bad_alloc and then traces nothing.
    void choose(uint32_t entries, const TraceKinds& kinds);

    // `head`: at least the headers of the packet; `length`: bytes of the packet, LRH to padding.
    // `qpn` is the sender, 0 for the port itself. Ports count from 1.
    void packet_out(uint64_t now_ns, unsigned port, uint32_t qpn, std::span<const uint8_t> head,
                    size_t length);
    // Entries that follow until packet_handled() name the packet as their cause.
    void packet_in(uint64_t now_ns, unsigned port, std::span<const uint8_t> head, size_t length);
    void packet_handled() { handled_ = kNone; }
    // The first `packets` packets of a burst have been handled. Inserts them before the entries
    // from number `begin` on. Receive WQEs then name the first packet as cause, others the last.
    // `begin`: count() when the burst arrived.
    void burst_in(uint64_t now_ns, unsigned port, const ib::Burst& burst, uint32_t packets,
                  uint64_t begin);
    // Number of entries since the device's start.
    uint64_t count() const { return count_; }
    void send_wqe(uint64_t now_ns, const TracedWqe& wqe, std::span<const uint8_t> bytes);
    void recv_wqe(uint64_t now_ns, const TracedWqe& wqe, std::span<const uint8_t> bytes);
    void completion(uint64_t now_ns, const TracedCompletion& completion);
    void command(uint64_t now_ns, const TracedCommand& command);
    // The four functions below record nothing unless TraceKinds has their kind.
    void access(uint64_t now_ns, const MmioAccess& access, int vcpu);
    void dma(uint64_t now_ns, const TracedDma& dma);
    void event(uint64_t now_ns, const TracedEvent& event);  // TraceKinds::interrupts
    void interrupt(uint64_t now_ns, const RaisedInterrupt& interrupt);

    // A JSON array, oldest first.
    std::string json() const;

  private:
    enum class Kind : uint8_t {
        kPacketOut,
        kPacketIn,
        kSendWqe,
        kRecvWqe,
        kSendDone,
        kRecvDone,
        kCommand,
        kLoad,
        kStore,
        kDmaRead,
        kDmaWrite,
        kEvent,
        kInterrupt,
    };
    static constexpr uint64_t kNone = UINT64_MAX;
    // Bytes that an entry keeps: enough for all headers of a packet with the header of a MAD, for
    // the input of every command but MAD_IFC, and for most WQEs and reasons.
    static constexpr size_t kKept = 128;
    // An entry of any kind. Comments of members say which kinds use the member, and for what.
    struct Entry {
        uint64_t time_ns = 0;
        uint64_t sequence = 0;    // number of entries before it since the device's start
        uint64_t fetched_ns = 0;  // command
        uint64_t packet = kNone;  // sequence of the packet that the device was handling
        Kind kind = Kind::kPacketOut;
        uint8_t status = 0;    // command, completion; DMA: 1 if it failed
        uint16_t opcode = 0;   // command; EQE, interrupt: the event's type
        uint16_t id = 0;       // command
        uint32_t object = 0;   // by kind: port, QPN, command's object, BAR, DmaPurpose or vector
        uint32_t number = 0;   // counter of the WQE, the command's result, the event's number
        uint32_t qpn = 0;      // sender of the packet
        uint32_t psn = 0;      // send WQE; EQE: its data
        uint32_t packets = 0;  // send WQE
        uint8_t qp_type = 0;   // send WQE
        uint32_t cqn = 0;      // completion; EQE, interrupt: the EQN
        uint64_t address = 0;  // bus address, or offset in the BAR
        uint64_t value = 0;    // register; EQE: its counter
        int vcpu = kNoVcpu;    // register
        uint32_t length = 0;   // full length; at most kKept bytes are recorded
        std::array<uint8_t, kKept> bytes{};

        void keep(std::span<const uint8_t> whole);
        void print(JsonWriter& out) const;
    };

    // Starts an entry: returns the next place of the ring, with the arguments in an empty entry.
    Entry& next(Kind kind, uint64_t now_ns, uint32_t object, uint32_t number);
    static void print_packet(JsonWriter& out, const Entry& entry, std::span<const uint8_t> bytes);
    static void print_work(JsonWriter& out, const Entry& entry, std::span<const uint8_t> bytes);
    static void print_command(JsonWriter& out, const Entry& entry, std::span<const uint8_t> kept);

    static void print_access(JsonWriter& out, const Entry& entry);
    static void print_dma(JsonWriter& out, const Entry& entry);
    static void print_event(JsonWriter& out, const Entry& entry);

    std::vector<Entry> ring_;
    TraceKinds kinds_;
    uint64_t count_ = 0;
    uint64_t first_ = 0;        // sequence of the first entry since kinds_ was chosen
    uint64_t handled_ = kNone;  // sequence of the packet that the device is handling
};

}  // namespace pib::hca
