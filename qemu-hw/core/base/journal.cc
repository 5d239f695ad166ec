// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/journal.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/status_name.h"

namespace pib::hca {

namespace {

template <typename Value>
struct Name {
    Value value;
    const char* name;
};

template <typename Value, size_t N>
const char* name_of(const Name<Value> (&names)[N], Value value) {
    const auto found = std::ranges::find(names, value, &Name<Value>::value);
    return found == std::end(names) ? nullptr : found->name;
}

// The events that the journal records, with their names in libibverbs. Port events have a name for
// each change.
constexpr Name<Event> kEvents[] = {
    {Event::kPathMigrated, "IBV_EVENT_PATH_MIG"},
    {Event::kPathMigFailed, "IBV_EVENT_PATH_MIG_ERR"},
    {Event::kCqError, "IBV_EVENT_CQ_ERR"},
    {Event::kQpFatal, "IBV_EVENT_QP_FATAL"},
    {Event::kQpRequestError, "IBV_EVENT_QP_REQ_ERR"},
    {Event::kQpAccessError, "IBV_EVENT_QP_ACCESS_ERR"},
    {Event::kSrqError, "IBV_EVENT_SRQ_ERR"},
    {Event::kDeviceFatal, "IBV_EVENT_DEVICE_FATAL"},
    {Event::kPort, "port"},
};

constexpr Name<uint32_t> kPortEvents[] = {
    {port_event::kActive, "IBV_EVENT_PORT_ACTIVE"},
    {port_event::kError, "IBV_EVENT_PORT_ERR"},
    {port_event::kLidChange, "IBV_EVENT_LID_CHANGE"},
    {port_event::kPkeyChange, "IBV_EVENT_PKEY_CHANGE"},
    {port_event::kSmChange, "IBV_EVENT_SM_CHANGE"},
    {port_event::kClientReregister, "IBV_EVENT_CLIENT_REREGISTER"},
    {port_event::kGidChange, "IBV_EVENT_GID_CHANGE"},
};

// Names the event; of a port event, all its changes.
std::string event_text(const RaisedEvent& event) {
    if (event.type != Event::kPort) {
        return name_of(kEvents, event.type);
    }
    std::string names;
    for (const auto& [bit, name] : kPortEvents) {
        if ((event.data & bit) != 0) {
            names += (names.empty() ? "" : " ") + std::string(name);
        }
    }
    return names;
}

void print_connection(JsonWriter& out, const FailedRequest& request) {
    out.member("port", request.port);
    out.member("dlid", request.dlid);
    out.member("dest_qpn", request.dest_qpn);
    out.member("timeout", request.timeout);
    out.member("retry_cnt", request.retry_cnt);
    out.member("rnr_retry", request.rnr_retry);
}

}  // namespace

Journal::Entry& Journal::next(uint64_t now_ns) {
    Entry& entry = ring_[count_++ % kMost];
    entry = {};
    entry.time_ns = now_ns;
    return entry;
}

void Journal::failed(uint64_t now_ns, const FailedRequest& request) {
    if (request.status == WcStatus::kSuccess || request.status == WcStatus::kWrFlushErr) {
        return;
    }
    next(now_ns).request = request;
    if (reasons_ != nullptr && request.broken.rule != Rule::kNone) {
        reasons_->refused(request);
    }
}

void Journal::refused(const RefusedPacket& packet) {
    refused_ = packet;
    if (reasons_ != nullptr) {
        reasons_->refused(packet);
    }
}

void Journal::raised(uint64_t now_ns, const RaisedEvent& event) {
    if (name_of(kEvents, event.type) == nullptr) {
        return;
    }
    Entry& entry = next(now_ns);
    entry.is_event = true;
    entry.event = event;
    if (event.type == Event::kQpAccessError && event.number == refused_.qpn) {
        entry.packet = std::exchange(refused_, {});
    }
}

void Journal::print_event(JsonWriter& out, const Entry& entry) const {
    const RaisedEvent& event = entry.event;
    out.member("kind", "event");
    out.member("event", event_text(event));
    out.member("number", event.number);
    out.member("data", event.data);
    out.member("port", event.port);
    if (reasons_ != nullptr && entry.packet.broken.rule != Rule::kNone) {
        out.member("reason", reasons_->words(entry.packet));
    }
}

void Journal::print_request(JsonWriter& out, const FailedRequest& request) const {
    out.member("kind", "completion");
    out.member("qpn", request.qpn);
    out.member("queue", request.send ? "send" : "recv");
    out.member("counter", request.counter);
    out.member("status", status_name(request.status));
    out.member("vendor_err", static_cast<unsigned>(vendor_error_of(request.broken.rule)));
    if (reasons_ != nullptr && request.broken.rule != Rule::kNone) {
        out.member("reason", reasons_->words(request));
    }
    if (request.connected) {
        print_connection(out, request);
    }
}

void Journal::print(JsonWriter& out, const Entry& entry) const {
    out.begin_object();
    out.member("time_ns", entry.time_ns);
    if (entry.is_event) {
        print_event(out, entry);
    } else {
        print_request(out, entry.request);
    }
    out.end_object();
}

std::string Journal::json(uint64_t now_ns) const {
    JsonWriter out;
    const uint64_t kept = std::min<uint64_t>(count_, kMost);
    out.begin_object();
    out.member("now_ns", now_ns);
    out.member("lost", count_ - kept);
    out.begin_array("entries");
    for (uint64_t i = count_ - kept; i < count_; ++i) {
        print(out, ring_[i % kMost]);
    }
    out.end_array();
    out.end_object();
    return out.text();
}

}  // namespace pib::hca
