// SPDX-License-Identifier: GPL-2.0-or-later
// The model of one direction of an RC connection: the requests of one QP, their targets at its
// peer, and the completions that have to come.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "region.h"
#include "window.h"

namespace pib::simulation {

// One QP of a connection.
struct End {
    test::Guest* guest = nullptr;
    uint32_t pd = 0;
    hca::test::MiniCq cq = {};
    hca::test::MiniQp qp = {};
    bool is_killed = false;  // moved to Error by the guest
    bool is_lost = false;    // the device has been reset
};

// A send work request that has been posted.
struct Request {
    pib_hca_wqe_opcode opcode;
    bool is_signalled;
    uint32_t counter;
    uint32_t bytes;
    uint32_t lkey = 0;  // 0: none is used
    uint32_t rkey = 0;
    std::optional<uint64_t> local_write = {};   // id in Flow::local's shadow
    Target* target = nullptr;                   // memory of a remote request
    std::optional<uint64_t> remote_write = {};  // id in the target's shadow
    std::optional<uint64_t> message = {};       // index among messages that take a receive WQE
    std::optional<unsigned> slot = {};          // slot of the remote memory
    Window* binds = nullptr;                    // window that the request binds if it succeeds
    Window* closes = nullptr;                   // window that it invalidates if it succeeds
    bool must_fail = false;                     // the key was already invalid at posting
    bool is_refused = false;                    // the key does not permit the request
};

// A message that takes a receive work request.
struct Message {
    bool is_rdma;
    std::optional<uint32_t> imm;
    uint32_t bytes;
    Bytes data;                                // goes to the receive request's memory
    std::optional<uint32_t> invalidates = {};  // key of Flow::window
};

struct Receive {
    uint32_t lkey;
    std::optional<uint64_t> write = {};  // id in the inbox's shadow
};

struct Flow {
    static constexpr uint8_t kLogDepth = 4;
    static constexpr uint32_t kDepth = 1u << kLogDepth;
    static constexpr uint32_t kSlotBytes = 8192;
    // A request may send data that an earlier READ has fetched: the READ's slot must not change.
    static constexpr uint32_t kLocalSlots = 2 * kDepth;
    static constexpr uint32_t kSlots = 8;  // in the remote memory
    static constexpr uint32_t kWords = 8;  // targets of atomics, after the slots
    static constexpr size_t kTargetBytes = size_t{kSlots} * kSlotBytes + kWords * 8;

    Flow(End& requester, End& responder, const std::string& title);

    void check_memory(Extent extent);
    // Whether a signalled request is not complete.
    bool awaits_completion() const;
    // Number of messages that wait for a receive request.
    uint64_t starved() const {
        return messages.size() > receives.size() ? messages.size() - receives.size() : 0;
    }
    // Whether the responder has, or had, a cause to refuse a request.
    bool may_be_refused() const;
    // Whether the requester's QP, or the responder's, may be in Error.
    bool requester_may_fail() const;
    bool responder_may_fail() const;
    // Forgets all work requests, because both QPs have been destroyed.
    void restart();

    const std::string name;
    End& from;
    End& to;
    Flow* reverse = nullptr;
    // Packets may have been lost, or requests sent again, since the QPs were connected.
    bool is_lossy = false;
    // No packet may have passed for a while, so retries may have run out. A random loss of packets
    // is too rare for that: a retry that gets through starts the count anew.
    bool had_outage = false;

    Region local;   // requester's: a slot for each request, in turn
    Region remote;  // responder's: targets of WRITE, sources of READ
    Window window;  // responder's: targets and sources, too
    Region inbox;   // responder's: a slot for each place in the receive queue

    std::deque<Request> posted;  // oldest first, not yet known to be complete
    std::deque<Message> messages;
    std::deque<Receive> receives;
    uint64_t received = 0;      // receives that have completed
    uint64_t acknowledged = 0;  // messages that the requester has seen succeed
    // R_Keys of complete requests whose packets may still arrive: flushed requests, and on a lossy
    // link all requests.
    std::set<uint32_t> late_rkeys;
    bool has_failed = false;   // a request has completed with an error
    bool was_refused = false;  // the responder has refused a request
    bool is_flushed = false;   // a receive has completed with an error
};

}  // namespace pib::simulation
