// SPDX-License-Identifier: GPL-2.0-or-later
// The model of a sender's messages: the completions of its send queue, and which guests may and
// must receive what.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "content.h"
#include "pib_hca_hw.h"

namespace pib::simulation {

enum class Delivery {
    kReliable,   // each message once and in order
    kMayBeLost,  // in order
    kDatagrams,  // to guests of the sender's choice, or to all
};

struct Sent {
    uint32_t bytes = 0;
    std::optional<uint32_t> imm = {};
    std::optional<unsigned> to = {};  // guest; none: all
    unsigned epoch = 0;               // number of the QP that has sent it
};

// Causes of errors at the send queue.
struct SendCauses {
    bool flushes = false;   // the QP was moved to Error
    bool gives_up = false;  // retries may have run out
};

class Ledger {
  public:
    static constexpr unsigned kGuests = 4;
    static constexpr uint32_t kLeastBytes = 8;  // each message has its number in them
    // `sender`: differs from those of other ledgers.
    Ledger(uint32_t sender, Delivery delivery, std::string name);

    // Adds a message with this counter in the send queue; returns its bytes.
    Bytes add(Sent sent, uint32_t counter, bool is_signalled);
    // Handles a completion of the send queue.
    void completed(const pib_hca_cqe& cqe, const SendCauses& causes);
    // Takes the remaining requests as sent, and fails if one was signalled. Call it when no packet
    // is in flight.
    void rest_completed();
    // Handles a message that a guest has received. `is_late`: it may come from an earlier QP.
    void received(const Bytes& data, const pib_hca_cqe& cqe, unsigned guest, bool is_late);
    // Checks that acknowledged messages were received. Call it when all CQs have been read.
    void check_delivery() const;
    // Another QP sends from now on; requests of the old one do not complete.
    void restart();

    // The sender's number in the bytes of a message, whichever sender it comes from.
    static uint32_t sender_of(const Bytes& data);
    uint32_t in_queue() const { return static_cast<uint32_t>(requests_.size()); }
    bool awaits_completion() const;
    bool has_failed() const { return has_failed_; }
    // Whether each reliable message has been received.
    bool is_delivered() const { return delivery_ != Delivery::kReliable || next_ == sent_.size(); }
    const std::string& name() const { return name_; }
    Delivery delivery() const { return delivery_; }

    // Packets may be duplicated, or overtake each other.
    bool is_scrambled = false;

  private:
    struct Request {
        uint32_t counter;
        uint32_t number;  // index in sent_
        bool is_signalled;
    };
    void succeed(const Request& request);
    void fail(const Request& request, uint8_t status, const SendCauses& causes);
    void check_order(uint32_t number, const Sent& sent, unsigned guest);
    Bytes content(uint32_t number) const;

    const uint32_t sender_;
    const Delivery delivery_;
    const std::string name_;
    std::vector<Sent> sent_;  // from the beginning on
    std::deque<Request> requests_;
    unsigned epoch_ = 0;
    uint32_t next_ = 0;          // reliable: number of the message that is received next
    uint32_t acknowledged_ = 0;  // reliable: messages up to here are acknowledged
    bool has_failed_ = false;
    // Numbers of the messages that each guest may receive next: of those to this guest alone, and
    // of those to all. IBA defines no order between the two kinds.
    std::array<std::array<uint32_t, 2>, kGuests> next_at_{};
};

}  // namespace pib::simulation
