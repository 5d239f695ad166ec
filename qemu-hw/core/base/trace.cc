// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/trace.h"

#include <algorithm>

#include "base/json.h"
#include "base/rule_number.h"
#include "ib/wire/burst.h"
#include "ib/wire/dump.h"
#include "ib/wire/packet.h"

namespace pib::hca {

namespace {

// The packet, with zeros for the payload bytes that were not kept; all headers were kept.
std::vector<uint8_t> whole(std::span<const uint8_t> kept, uint32_t length) {
    std::vector<uint8_t> bytes(length);
    std::ranges::copy(kept, bytes.begin());
    return bytes;
}

}  // namespace

void Trace::choose(uint32_t entries, const TraceKinds& kinds) {
    ring_ = {};
    first_ = count_;
    handled_ = kNone;
    kinds_.registers = kinds.registers;
    kinds_.interrupts = kinds.interrupts;
    ring_.resize(entries);
}

Trace::Entry& Trace::next(Kind kind, uint64_t now_ns, uint32_t object, uint32_t number) {
    Entry& entry = ring_[count_ % ring_.size()];
    entry = {.time_ns = now_ns,
             .sequence = count_++,
             .packet = handled_,
             .kind = kind,
             .object = object,
             .number = number};
    return entry;
}

void Trace::Entry::keep(std::span<const uint8_t> whole) {
    length = static_cast<uint32_t>(whole.size());
    std::ranges::copy(whole.first(std::min(whole.size(), kKept)), bytes.begin());
}

void Trace::packet_out(uint64_t now_ns, unsigned port, uint32_t qpn, std::span<const uint8_t> head,
                       size_t length) {
    if (!enabled()) {
        return;
    }
    Entry& entry = next(Kind::kPacketOut, now_ns, port, 0);
    entry.qpn = qpn;
    entry.keep(head);
    entry.length = static_cast<uint32_t>(length);
}

void Trace::packet_in(uint64_t now_ns, unsigned port, std::span<const uint8_t> head,
                      size_t length) {
    if (!enabled()) {
        return;
    }
    Entry& entry = next(Kind::kPacketIn, now_ns, port, 0);
    entry.keep(head);
    entry.length = static_cast<uint32_t>(length);
    handled_ = entry.sequence;
}

void Trace::burst_in(uint64_t now_ns, unsigned port, const ib::Burst& burst, uint32_t packets,
                     uint64_t begin) {
    const uint64_t moved = std::min<uint64_t>(count_ - begin, ring_.size());
    std::vector<Entry> effects;
    for (count_ -= moved; effects.size() < moved;) {
        effects.push_back(ring_[(count_ + effects.size()) % ring_.size()]);
    }
    const uint64_t first = count_;
    for (uint32_t i = 0; i < packets; ++i) {
        ib::BurstHeaders room;
        const ib::PacketBytes packet = burst.packet(i, room);
        packet_in(now_ns, port, packet.head(), packet.size());
    }
    for (Entry& effect : effects) {
        effect.sequence = count_;
        effect.packet = effect.kind == Kind::kRecvWqe ? first : handled_;
        ring_[count_++ % ring_.size()] = effect;
    }
    packet_handled();
}

void Trace::send_wqe(uint64_t now_ns, const TracedWqe& wqe, std::span<const uint8_t> bytes) {
    if (!enabled()) {
        return;
    }
    Entry& entry = next(Kind::kSendWqe, now_ns, wqe.qpn, wqe.counter);
    entry.psn = wqe.psn;
    entry.packets = wqe.packets;
    entry.qp_type = wqe.qp_type;
    entry.keep(bytes);
}

void Trace::recv_wqe(uint64_t now_ns, const TracedWqe& wqe, std::span<const uint8_t> bytes) {
    if (enabled()) {
        next(Kind::kRecvWqe, now_ns, wqe.qpn, wqe.counter).keep(bytes);
    }
}

void Trace::completion(uint64_t now_ns, const TracedCompletion& completion) {
    if (!enabled()) {
        return;
    }
    const Kind kind = completion.is_send ? Kind::kSendDone : Kind::kRecvDone;
    Entry& entry = next(kind, now_ns, completion.qpn, completion.counter);
    entry.cqn = completion.cqn;
    entry.status = completion.status;
}

void Trace::command(uint64_t now_ns, const TracedCommand& command) {
    if (!enabled()) {
        return;
    }
    Entry& entry = next(Kind::kCommand, now_ns, command.object, command.result);
    entry.fetched_ns = command.fetched_ns;
    entry.opcode = command.opcode;
    entry.id = command.id;
    entry.status = command.status;
    const std::string& reason = command.reason;
    entry.keep(command.status == 0
                   ? command.input
                   : std::span(reinterpret_cast<const uint8_t*>(reason.data()), reason.size()));
}

void Trace::access(uint64_t now_ns, const MmioAccess& access, int vcpu) {
    if (!enabled() || !kinds_.registers) {
        return;
    }
    Entry& entry = next(access.store ? Kind::kStore : Kind::kLoad, now_ns, access.bar, 0);
    entry.address = access.offset;
    entry.value = access.value;
    entry.length = access.size;
    entry.vcpu = vcpu;
}

void Trace::dma(uint64_t now_ns, const TracedDma& dma) {
    if (!enabled() || !kinds_.dma) {
        return;
    }
    const Kind kind = dma.write ? Kind::kDmaWrite : Kind::kDmaRead;
    Entry& entry = next(kind, now_ns, static_cast<uint32_t>(dma.purpose), 0);
    entry.address = dma.bus_addr;
    entry.length = dma.length;
    entry.status = dma.failed ? 1 : 0;
}

void Trace::event(uint64_t now_ns, const TracedEvent& event) {
    if (!enabled() || !kinds_.interrupts) {
        return;
    }
    Entry& entry = next(Kind::kEvent, now_ns, event.event.port, event.event.number);
    entry.cqn = event.eqn;
    entry.opcode = static_cast<uint16_t>(event.event.type);
    entry.value = event.counter;
    entry.psn = event.event.data;
}

void Trace::interrupt(uint64_t now_ns, const RaisedInterrupt& interrupt) {
    if (!enabled() || !kinds_.interrupts) {
        return;
    }
    Entry& entry = next(Kind::kInterrupt, now_ns, interrupt.vector, interrupt.number);
    entry.cqn = interrupt.eqn;
    entry.opcode = static_cast<uint16_t>(interrupt.type);
}

void Trace::print_access(JsonWriter& out, const Entry& entry) {
    out.member("bar", entry.object);
    out.member("offset", entry.address);
    out.member("size", entry.length);
    out.hex("value", entry.value);
    if (entry.vcpu != kNoVcpu) {
        out.member("vcpu", static_cast<uint32_t>(entry.vcpu));
    }
}

void Trace::print_dma(JsonWriter& out, const Entry& entry) {
    static constexpr std::array<const char*, 8> kPurposes = {
        "other", "command", "page list", "QP", "SRQ", "CQ", "EQ", "payload"};
    out.hex("address", entry.address);
    out.member("length", entry.length);
    out.member("purpose", kPurposes[entry.object]);
    if (entry.status != 0) {
        out.member("failed", true);
    }
}

// An interrupt without an EQ was requested by the driver (TEST_IRQ).
void Trace::print_event(JsonWriter& out, const Entry& entry) {
    if (entry.kind == Kind::kInterrupt) {
        out.member("vector", entry.object);
    }
    if (entry.cqn == 0) {
        return;
    }
    out.member("eqn", entry.cqn);
    out.member("event", entry.opcode);
    out.member("number", entry.number);
    if (entry.kind == Kind::kEvent) {
        out.member("counter", entry.value);
        out.member("port", entry.object);
        out.member("data", entry.psn);
    }
}

void Trace::print_packet(JsonWriter& out, const Entry& entry, std::span<const uint8_t> bytes) {
    out.member("port", entry.object);
    out.member("length", entry.length);
    if (entry.kind == Kind::kPacketOut && entry.qpn != 0) {
        out.member("qpn", entry.qpn);
    }
    const std::vector<uint8_t> packet = whole(bytes, entry.length);
    if (const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided)) {
        out.member("opcode", view->bth().opcode);
        out.member("psn", view->bth().psn.value());
        out.member("dest_qpn", view->bth().dest_qp.value());
    }
    out.member("text", ib::dump_packet(packet, ib::Crcs::kElided));
}

void Trace::print_work(JsonWriter& out, const Entry& entry, std::span<const uint8_t> bytes) {
    out.member("qpn", entry.object);
    out.member("counter", entry.number);
    const bool is_wqe = entry.kind == Kind::kSendWqe || entry.kind == Kind::kRecvWqe;
    if (entry.kind == Kind::kSendWqe) {
        out.member("psn", entry.psn);
        out.member("packets", entry.packets);
        out.member("qp_type", entry.qp_type);
    }
    if (is_wqe) {
        out.hex("bytes", bytes);
    } else {
        out.member("status", entry.status);
    }
    if (entry.cqn != 0) {
        out.member("cqn", entry.cqn);
    }
    if (entry.packet != kNone) {
        out.member("packet", entry.packet);
    }
}

void Trace::print_command(JsonWriter& out, const Entry& entry, std::span<const uint8_t> kept) {
    out.member("fetched_ns", entry.fetched_ns);
    out.member("opcode", entry.opcode);
    out.member("id", entry.id);
    out.member("object", entry.object);
    out.member("status", entry.status);
    out.member("result", entry.number);
    if (entry.status == 0) {
        if (!kept.empty()) {
            out.hex("input", kept);
        }
        return;
    }
    // A refused command's result is the number of the rule that it breaks.
    out.member("rule", dotted_number(static_cast<Rule>(entry.number)));
    out.member("reason", std::string(kept.begin(), kept.end()));
}

void Trace::Entry::print(JsonWriter& out) const {
    static constexpr std::array<const char*, 13> kNames = {
        "packet-out", "packet-in", "send-wqe", "recv-wqe",  "send-done", "recv-done", "command",
        "load",       "store",     "dma-read", "dma-write", "eqe",       "interrupt"};
    const auto kept = std::span(bytes).first(std::min<size_t>(length, kKept));
    out.begin_object();
    out.member("sequence", sequence);
    out.member("time_ns", time_ns);
    out.member("kind", kNames[static_cast<size_t>(kind)]);
    switch (kind) {
        case Kind::kPacketOut:
        case Kind::kPacketIn:
            print_packet(out, *this, kept);
            break;
        case Kind::kCommand:
            print_command(out, *this, kept);
            break;
        case Kind::kLoad:
        case Kind::kStore:
            print_access(out, *this);
            break;
        case Kind::kDmaRead:
        case Kind::kDmaWrite:
            print_dma(out, *this);
            break;
        case Kind::kEvent:
        case Kind::kInterrupt:
            print_event(out, *this);
            break;
        default:
            print_work(out, *this, kept);
            break;
    }
    out.end_object();
}

std::string Trace::json() const {
    JsonWriter out;
    out.begin_array();
    const uint64_t kept = std::min<uint64_t>(count_ - first_, ring_.size());
    for (uint64_t i = count_ - kept; i < count_; ++i) {
        ring_[i % ring_.size()].print(out);
    }
    out.end_array();
    return out.text();
}

}  // namespace pib::hca
