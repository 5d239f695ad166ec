// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/trace.h"

#include <algorithm>

#include "base/json.h"
#include "ib/wire/dump.h"

namespace pib::hca {

namespace {

// Describes the packet in one line. All headers have been recorded, but not the whole payload.
std::string describe_packet(std::span<const uint8_t> kept, uint32_t length) {
    std::vector<uint8_t> bytes(length);
    std::ranges::copy(kept, bytes.begin());
    return ib::dump_packet(bytes, ib::Crcs::kElided);
}

}  // namespace

Trace::Entry& Trace::next(Kind kind, uint64_t now_ns) {
    Entry& entry = ring_[count_ % ring_.size()];
    entry.kind = kind;
    entry.time_ns = now_ns;
    entry.sequence = count_++;
    entry.length = 0;
    return entry;
}

void Trace::keep(Kind kind, uint64_t now_ns, uint32_t object, uint32_t number,
                 std::span<const uint8_t> bytes) {
    if (!enabled()) {
        return;
    }
    Entry& entry = next(kind, now_ns);
    entry.object = object;
    entry.number = number;
    entry.length = static_cast<uint32_t>(bytes.size());
    std::ranges::copy(bytes.first(std::min(bytes.size(), kKept)), entry.bytes.begin());
}

void Trace::packet_out(uint64_t now_ns, unsigned port, std::span<const uint8_t> bytes) {
    keep(Kind::kPacketOut, now_ns, port, 0, bytes);
}

void Trace::packet_in(uint64_t now_ns, unsigned port, std::span<const uint8_t> head,
                      size_t length) {
    keep(Kind::kPacketIn, now_ns, port, 0, head);
    if (enabled()) {
        ring_[(count_ - 1) % ring_.size()].length = static_cast<uint32_t>(length);
    }
}

void Trace::send_wqe(uint64_t now_ns, uint32_t qpn, uint32_t counter,
                     std::span<const uint8_t> wqe) {
    keep(Kind::kSendWqe, now_ns, qpn, counter, wqe);
}

void Trace::recv_wqe(uint64_t now_ns, uint32_t qpn, uint32_t counter,
                     std::span<const uint8_t> wqe) {
    keep(Kind::kRecvWqe, now_ns, qpn, counter, wqe);
}

void Trace::command(uint64_t now_ns, const TracedCommand& command) {
    const std::span reason(reinterpret_cast<const uint8_t*>(command.reason.data()),
                           command.reason.size());
    keep(Kind::kCommand, now_ns, command.object, command.result, reason);
    if (!enabled()) {
        return;
    }
    Entry& entry = ring_[(count_ - 1) % ring_.size()];
    entry.opcode = command.opcode;
    entry.id = command.id;
    entry.status = command.status;
}

void Trace::print_command(JsonWriter& out, const Entry& entry, std::span<const uint8_t> reason) {
    out.member("opcode", entry.opcode);
    out.member("id", entry.id);
    out.member("object", entry.object);
    out.member("status", entry.status);
    out.member("result", entry.number);
    if (entry.status == 0) {
        return;
    }
    // A refused command's result is the number of the rule that it breaks.
    const uint32_t rule = entry.number;
    out.member("rule", std::to_string(rule >> 16) + "." + std::to_string(rule >> 8 & 0xff) + "." +
                           std::to_string(rule & 0xff));
    out.member("reason", std::string(reason.begin(), reason.end()));
}

void Trace::print(JsonWriter& out, const Entry& entry) {
    static constexpr std::array<const char*, 5> kNames = {"packet-out", "packet-in", "send-wqe",
                                                          "recv-wqe", "command"};
    const std::span<const uint8_t> bytes =
        std::span(entry.bytes).first(std::min<size_t>(entry.length, kKept));
    out.begin_object();
    out.member("sequence", entry.sequence);
    out.member("time_ns", entry.time_ns);
    out.member("kind", kNames[static_cast<size_t>(entry.kind)]);
    switch (entry.kind) {
        case Kind::kPacketOut:
        case Kind::kPacketIn:
            out.member("port", entry.object);
            out.member("length", entry.length);
            out.member("text", describe_packet(bytes, entry.length));
            break;
        case Kind::kSendWqe:
        case Kind::kRecvWqe:
            out.member("qpn", entry.object);
            out.member("counter", entry.number);
            out.hex("bytes", bytes);
            break;
        case Kind::kCommand:
            print_command(out, entry, bytes);
            break;
    }
    out.end_object();
}

std::string Trace::json() const {
    JsonWriter out;
    out.begin_array();
    const uint64_t kept = std::min<uint64_t>(count_, ring_.size());
    for (uint64_t i = count_ - kept; i < count_; ++i) {
        print(out, ring_[i % ring_.size()]);
    }
    out.end_array();
    return out.text();
}

}  // namespace pib::hca
