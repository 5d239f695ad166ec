// SPDX-License-Identifier: GPL-2.0-or-later
// The last failed work requests and asynchronous events of one device, with their times: a ring of
// fixed size that always records. It outlives resets and the failed queue pairs.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/event.h"
#include "base/status.h"
#include "base/verdict.h"

namespace pib::hca {

class JsonWriter;

// A failed work request, with its QP's connection at that time.
struct FailedRequest {
    uint32_t qpn = 0;
    uint32_t counter = 0;  // counter of the WQE in its queue; of an SRQ: the WQE's id
    bool send = false;     // false: a receive request
    WcStatus status = WcStatus::kSuccess;
    Verdict broken{};        // the rule that the WQE breaks, if it breaks one
    bool connected = false;  // RC, UC or XRC: the members below are valid
    uint8_t port = 0;
    uint16_t dlid = 0;
    uint32_t dest_qpn = 0;
    uint8_t timeout = 0;  // Local ACK Timeout
    uint8_t retry_cnt = 0;
    uint8_t rnr_retry = 0;
};

// A request packet that a QP has refused, because its key or the memory behind the key does not
// permit the access.
struct RefusedPacket {
    uint32_t qpn = 0;
    const char* operation = "";  // a literal: "RDMA WRITE"
    uint32_t rkey = 0;
    uint64_t addr = 0;
    uint64_t length = 0;
    Verdict broken{};
};

// Receives the work requests and request packets that break a rule, and explains them in words.
class RequestReasons {
  public:
    virtual void refused(const FailedRequest& request) noexcept = 0;
    virtual void refused(const RefusedPacket& packet) noexcept = 0;
    virtual std::string words(const FailedRequest& request) const = 0;
    virtual std::string words(const RefusedPacket& packet) const = 0;

  protected:
    ~RequestReasons() = default;
};

class Journal {
  public:
    static constexpr size_t kMost = 256;

    // From now on passes work requests and packets that break a rule to `reasons`.
    void report_to(RequestReasons& reasons) { reasons_ = &reasons; }

    // Records a failed work request, unless it was flushed: a flush alone is not a failure.
    void failed(uint64_t now_ns, const FailedRequest& request);
    // Keeps the packet as the cause of the next Event::kQpAccessError of its QP.
    void refused(const RefusedPacket& packet);
    // Records events that report an error, a path migration or a change at a port, and no others.
    void raised(uint64_t now_ns, const RaisedEvent& event);

    // A JSON object with the entries, oldest first.
    std::string json(uint64_t now_ns) const;

  private:
    struct Entry {
        uint64_t time_ns = 0;
        bool is_event = false;
        FailedRequest request;
        RaisedEvent event;
        RefusedPacket packet;  // kQpAccessError: the cause, if its rule is not Rule::kNone
    };

    Entry& next(uint64_t now_ns);
    void print(JsonWriter& out, const Entry& entry) const;
    void print_event(JsonWriter& out, const Entry& entry) const;
    void print_request(JsonWriter& out, const FailedRequest& request) const;

    std::array<Entry, kMost> ring_{};
    uint64_t count_ = 0;
    RefusedPacket refused_;  // the cause of the next kQpAccessError
    RequestReasons* reasons_ = nullptr;
};

}  // namespace pib::hca
