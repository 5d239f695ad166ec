// SPDX-License-Identifier: GPL-2.0-or-later
#include "seen.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace pib::conformance {
namespace {

constexpr size_t kPatternWord = sizeof(uint32_t);

template <typename... Parts>
std::string say(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

std::string hex(uint64_t number) {
    std::ostringstream text;
    text << "0x" << std::hex << number;
    return text.str();
}

std::string_view name_of(uint8_t opcode) {
    static constexpr std::array<std::string_view, 32> kNames = {
        "SEND FIRST",     "SEND MIDDLE",   "SEND LAST",
        "SEND LAST IMM",  "SEND ONLY",     "SEND ONLY IMM",
        "WRITE FIRST",    "WRITE MIDDLE",  "WRITE LAST",
        "WRITE LAST IMM", "WRITE ONLY",    "WRITE ONLY IMM",
        "READ REQUEST",   "READ FIRST",    "READ MIDDLE",
        "READ LAST",      "READ ONLY",     "ACK",
        "ATOMIC ACK",     "CMP SWAP",      "FETCH ADD",
        "0x15",           "SEND LAST INV", "SEND ONLY INV",
        "0x18",           "0x19",          "0x1a",
        "0x1b",           "FLUSH",         "ATOMIC WRITE",
        "0x1e",           "0x1f"};
    return kNames[opcode & 0x1f];
}

std::string_view status_name(uint8_t status) {
    static constexpr std::array<std::string_view, 14> kNames = {
        "SUCCESS",        "LOC_LEN_ERR",      "LOC_QP_OP_ERR",  "",
        "LOC_PROT_ERR",   "WR_FLUSH_ERR",     "MW_BIND_ERR",    "BAD_RESP_ERR",
        "LOC_ACCESS_ERR", "REM_INV_REQ_ERR",  "REM_ACCESS_ERR", "REM_OP_ERR",
        "RETRY_EXC_ERR",  "RNR_RETRY_EXC_ERR"};
    return status < kNames.size() ? kNames[status] : "another status";
}

std::string_view event_name(uint8_t type) {
    static constexpr std::array<std::string_view, 16> kNames = {
        "completion",      "migrated",     "established", "drained",   "CQ error", "QP fatal",
        "invalid request", "access error", "path failed", "port",      "command",  "device fatal",
        "SRQ limit",       "SRQ error",    "last WQE",    "page fault"};
    return type < kNames.size() ? kNames[type] : "another event";
}

std::string_view state_name(pib_hca_qp_state state) {
    static constexpr std::array<std::string_view, 7> kNames = {"Reset", "Init", "RTR",  "RTS",
                                                               "SQD",   "SQE",  "Error"};
    return kNames[state];
}

std::string_view nak_name(uint8_t code) {
    static constexpr std::array<std::string_view, 5> kNames = {
        "sequence", "invalid request", "remote access", "remote operational", "invalid RD"};
    return code < kNames.size() ? kNames[code] : "reserved";
}

std::string receive_text(const pib_hca_cqe& cqe) {
    const auto has = [&](uint32_t flag) { return (cqe.flags & flag) != 0; };
    return say("received ", cqe.byte_count,
               cqe.opcode == PIB_HCA_CQE_RECV_RDMA_WITH_IMM ? " by WRITE" : "",
               has(PIB_HCA_CQE_FLAG_GRH) ? " with GRH" : "",
               has(PIB_HCA_CQE_FLAG_IMM) ? " imm " + hex(__builtin_bswap32(cqe.imm_data)) : "",
               has(PIB_HCA_CQE_FLAG_INVALIDATED) ? " invalidated" : "",
               has(PIB_HCA_CQE_FLAG_SOLICITED) ? " solicited" : "");
}

uint32_t relative(uint32_t psn, uint32_t first) {
    return (psn - first) & 0xffffff;
}

}  // namespace

// Joins successive equal texts: "flushed" three times becomes "flushed x3".
void Witness::add(const std::string& text) {
    if (words_.empty() || !words_.back().starts_with(text)) {
        words_.push_back(text);
        return;
    }
    const std::string tail = words_.back().substr(text.size());
    if (tail.empty()) {
        words_.back() = text + " x2";
    } else if (tail.starts_with(" x")) {
        words_.back() = say(text, " x", std::stoul(tail.substr(2)) + 1);
    } else {
        words_.push_back(text);
    }
}

void Witness::remember_memory() {
    before_.resize(region_.memory.bytes());
    region_.memory.read(0, before_);
}

Bytes Witness::payload(uint32_t bytes) {
    const auto at = static_cast<ptrdiff_t>(stream_.size());
    for (uint32_t i = 0; i < bytes; ++i) {
        stream_.push_back(static_cast<uint8_t>(1 + stream_.size() % 251));
    }
    return {stream_.begin() + at, stream_.end()};
}

// The offset in the pattern from which the payload comes.
std::string Witness::payload_text(const Packet& packet) const {
    if (packet.payload.empty()) {
        return " 0 bytes";
    }
    const auto from = before_.begin() + kPattern;
    const auto found =
        std::search(from, before_.end(), packet.payload.begin(), packet.payload.end());
    if (packet.payload.size() < kPatternWord || found == before_.end()) {
        return say(" ", packet.payload.size(), " bytes");
    }
    return say(" ", packet.payload.size(), " bytes from ", found - from);
}

std::string Witness::answer_text(const Packet& packet, uint32_t psn) const {
    const uint8_t kind = packet.opcode & 0x1f;
    const uint8_t code = packet.syndrome & 0x1f;
    const std::string msn = kind == kReadMiddle ? "" : say(" msn ", packet.msn);
    if (kind == kAcknowledge && packet.syndrome >> 5 == 3) {
        return say("NAK ", nak_name(code), " ", psn, msn);
    }
    if (kind == kAcknowledge && packet.syndrome >> 5 == 1) {
        return say("RNR NAK ", psn, " timer ", int{code}, msn);
    }
    std::string text = say(name_of(packet.opcode), " ", psn, msn);
    if (kind == kAtomicAck) {
        return text + " value " + hex(packet.original);
    }
    if (kind == kAcknowledge) {
        return text + (show_credits ? say(" credits ", int{code}) : "");
    }
    return text + payload_text(packet);
}

std::string Witness::request_text(const Packet& packet, uint32_t psn) const {
    const uint8_t kind = packet.opcode & 0x1f;
    const bool is_ud = (packet.opcode & kServiceMask) == kUd;
    std::string text(name_of(packet.opcode));
    if (!is_ud) {
        text += say(" ", psn);
    }
    if (kind == kReadRequest) {
        text += say(" of ", packet.dma_length, " bytes at ", hex(packet.va));
    } else if (kind != kCmpSwap && kind != kFetchAdd && kind != kFlush) {
        text += payload_text(packet);
    }
    text += packet.solicited ? " solicited" : "";
    return text + (packet.ack ? " ack" : "");
}

void Witness::see_packets(const FirstPsns& first) {
    for (const Packet& packet : stranger_.take_packets()) {
        add(packet.is_answer() ? answer_text(packet, relative(packet.psn, first.answered))
                               : request_text(packet, relative(packet.psn, first.sent)));
    }
}

void Witness::see_completions() {
    while (const auto cqe = bench_.driver.poll(bench_.cq)) {
        const bool receive = cqe->opcode >= PIB_HCA_CQE_RECV;
        const std::string_view status = status_name(cqe->status);
        if (cqe->status == PIB_HCA_WC_WR_FLUSH_ERR) {
            add(receive ? "receive flushed" : "request flushed");
        } else if (cqe->status != PIB_HCA_WC_SUCCESS) {
            add(say(receive ? "receive " : "request ", status));
        } else {
            add(receive ? receive_text(*cqe) : "completed");
        }
    }
}

void Witness::see_events() {
    while (const auto event = bench_.driver.poll(bench_.async_eq)) {
        if (event->type != PIB_HCA_EVENT_PORT && event->type != PIB_HCA_EVENT_COMMAND) {
            add(say("event ", event_name(event->type)));
        }
    }
}

// Reports the ranges that have changed, and whether they have the payload that was sent.
void Witness::see_memory() {
    Bytes now(region_.memory.bytes());
    region_.memory.read(0, now);
    for (size_t at = 0; at < now.size();) {
        if (now[at] == before_[at]) {
            ++at;
            continue;
        }
        size_t end = at;
        while (end < now.size() && now[end] != before_[end]) {
            ++end;
        }
        const ByteSpan changed = ByteSpan(now).subspan(at, end - at);
        const bool sent = std::search(stream_.begin(), stream_.end(), changed.begin(),
                                      changed.end()) != stream_.end();
        add(say(sent ? "memory " : "other memory ", at, " to ", end));
        at = end;
    }
    before_ = now;
}

void Witness::see_state(const hca::test::MiniQp& qp) {
    const auto state = static_cast<pib_hca_qp_state>(bench_.driver.query(qp).state);
    if (state != std::exchange(state_, state)) {
        add(std::string(state_name(state)));
    }
}

std::string Witness::seen(const hca::test::MiniQp& qp, const FirstPsns& first) {
    see_packets(first);
    see_completions();
    see_events();
    see_memory();
    if (qp.qpn != 0) {
        see_state(qp);
    }
    std::string text;
    for (const std::string& part : std::exchange(words_, {})) {
        text += (text.empty() ? "" : "; ") + part;
    }
    return text.empty() ? "nothing" : text;
}

}  // namespace pib::conformance
