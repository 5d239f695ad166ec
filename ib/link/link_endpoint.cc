// SPDX-License-Identifier: GPL-2.0-or-later
// The state machine of docs/fabric-protocol.md. This file, the parts of the link and
// ib/wire/link_frame.cc check all input from the peer. The port above receives only packets that
// fit their frame and their credits.
#include "ib/link/link_endpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace pib::link {
namespace {

// Bytes for which a LINK counts in a turn: it takes the port down and up, and so costs more than
// its bytes.
constexpr size_t kWorkOfLink = 16 * 1024;

size_t bytes_of(const Frame& frame) {
    return kHeaderSize + std::max(frame.body.size(), frame.shared.size());
}

size_t work_of(const Frame& frame) {
    return frame.type == FrameType::kLink ? kWorkOfLink : 0;
}

}  // namespace

LinkEndpoint::LinkEndpoint(const Buffers& buffers, LinkEvents& events)
    : events_(events),
      reader_(buffers.input_bytes),
      channel_(buffers.output_bytes),
      credits_(buffers.receive_blocks, channel_),
      training_(channel_, credits_, events),
      sender_(training_, credits_, channel_),
      delivery_(training_, credits_, events),
      peer_copy_({channel_, credits_, training_, delivery_, events_}) {}

LinkEndpoint::LinkEndpoint(const link::Hello& hello, const Buffers& buffers, LinkEvents& events)
    : LinkEndpoint(buffers, events) {
    connecting_ = true;
    asked_ = hello.features;
    (void)channel_.send(hello);  // the output is empty: there is room
}

// ---- frames in

LinkResult feed(LinkEndpoint& endpoint, std::span<const uint8_t> bytes) {
    while (!bytes.empty() && !endpoint.training().is_closed()) {
        const auto space = endpoint.input_space();
        const size_t take = std::min(space.size(), bytes.size());
        std::memcpy(space.data(), bytes.data(), take);
        bytes = bytes.subspan(take);
        if (auto fed = endpoint.feed_input(take); !fed) {
            return fed;
        }
    }
    return {};
}

LinkResult LinkEndpoint::feed_input(size_t bytes, size_t turn) {
    reader_.commit(bytes);
    input_waits_ = false;
    for (size_t done = 0; !training_.is_closed();) {
        if (done >= turn) {
            input_waits_ = true;
            break;
        }
        const auto frame = reader_.next();
        if (!frame) {
            training_.close();
            return failure(LinkError::kMalformedFrame, to_string(frame.error()));
        }
        if (!*frame) {
            break;
        }
        if (channel_.is_shared() && (*frame)->type != link::FrameType::kMemory) {
            training_.close();
            return failure(LinkError::kUnexpectedFrame, "a frame outside of the shared memory");
        }
        if (auto handled = handle(**frame); !handled) {
            return handled;
        }
        done += bytes_of(**frame) + work_of(**frame);
    }
    return {};
}

void LinkEndpoint::consume_output(size_t bytes) {
    channel_.consume(bytes);
    training_.send_unsent();
}

std::expected<bool, LinkFailure> LinkEndpoint::receive(size_t bytes) {
    if (input_waits_) {
        const auto fed = feed_input(0, bytes);
        return fed ? std::expected<bool, LinkFailure>(input_waits_) : std::unexpected(fed.error());
    }
    if (!channel_.is_shared() || training_.is_closed()) {
        return false;
    }
    channel_.begin_reading();
    training_.send_unsent();
    size_t done = 0;
    while (done < bytes && channel_.has_frame()) {
        const auto frame = receive_front();
        if (!frame) {
            return std::unexpected(frame.error());
        }
        done += *frame + peer_copy_.take_copied();
        if (training_.is_closed() || *frame == 0) {
            return false;  // a handler has closed the link, or the front frame waits for an answer
        }
    }
    if (channel_.is_broken()) {
        training_.close();
        return failure(LinkError::kMalformedFrame, "impossible position in shared memory");
    }
    return done >= bytes;
}

// Handles the frame at the front. A frame that waits for an answer is not parsed again.
std::expected<size_t, LinkFailure> LinkEndpoint::receive_front() {
    size_t bytes = 0, work = 0;
    if (peer_copy_.is_waiting()) {
        bytes = peer_copy_.proceed();
    } else {
        const auto frame = channel_.front();
        if (!frame) {
            training_.close();
            return std::unexpected(frame.error());
        }
        bytes = bytes_of(*frame);
        work = work_of(*frame);
        if (auto handled = handle(*frame); !handled) {
            return std::unexpected(handled.error());
        }
    }
    if (peer_copy_.is_waiting()) {
        return 0;
    }
    channel_.skip(bytes);  // after the handler: a handler may publish, which frees skipped bytes
    return bytes + work;
}

bool LinkEndpoint::may_sleep() {
    if (!channel_.is_shared()) {
        return !input_waits_;
    }
    const bool room = channel_.room_is_back();
    // The switch wakes this side for an answer, whatever the event index is.
    const bool data = peer_copy_.is_waiting() ? peer_copy_.is_answered() : !channel_.awaits_data();
    return !room && !data && !channel_.is_broken();
}

LinkResult LinkEndpoint::handle(const Frame& frame) {
    struct Rule {
        LinkResult (*handler)(LinkEndpoint&, const Frame&);
        bool before_open;    // part of the handshake
        bool to_connecting;  // the peer may send it to the connecting or listening side
        bool to_listening;
    };
    using Self = LinkEndpoint;
    static constexpr Rule kRules[] = {
        {[](Self& self, const Frame& hello) {
             return self.agree(answer_hello(hello, self.channel_, self.events_));
         },
         true, false, true},
        {[](Self& self, const Frame& welcome) {
             return self.agree(accept_welcome(welcome, self.asked_, self.events_));
         },
         true, true, false},
        {[](Self& self, const Frame& refuse) {
             return LinkResult(std::unexpected(accept_refusal(refuse, self.events_)));
         },
         true, true, false},
        {[](Self& self, const Frame& link) { return self.training_.receive(link); }, false, true,
         true},
        {[](Self& self, const Frame& credit) { return self.credits_.receive(credit); }, false, true,
         true},
        {[](Self& self, const Frame& packet) { return self.delivery_.receive_packet(packet); },
         false, true, true},
        {[](Self& self, const Frame& run) { return self.receive_burst(run); }, false, true, true},
        {[](Self& self, const Frame& memory) { return self.peer_copy_.receive_memory(memory); },
         false, false, true},
        {[](Self& self, const Frame& pull) { return self.peer_copy_.receive_pull(pull); }, false,
         false, true},
    };
    const Rule& rule = kRules[static_cast<size_t>(frame.type) - 1];
    const bool in_place = rule.before_open != training_.is_open() && !training_.is_closed() &&
                          (connecting_ ? rule.to_connecting : rule.to_listening);
    if (!in_place) {
        training_.close();
        return failure(LinkError::kUnexpectedFrame,
                       "frame type " + std::to_string(static_cast<unsigned>(frame.type)));
    }
    auto handled = rule.handler(*this, frame);
    if (!handled) {
        training_.close();
    }
    return handled;
}

// ---- the handshake

// The handshake is done. If both sides agreed on shared memory, frames travel through the rings
// from now on.
LinkResult LinkEndpoint::agree(const Features& features) {
    if (!features) {
        return std::unexpected(features.error());
    }
    if ((*features & link::kFeatureSharedMemory) != 0) {
        const auto rings = events_.link_rings();
        if (!rings) {
            return failure(LinkError::kUnexpectedFrame,
                           "WELCOME without the shared memory it promises");
        }
        channel_.share(*rings);
        agreed_.bursts = (*features & link::kFeatureBursts) != 0;
        agreed_.peer_copy = agreed_.bursts && (*features & link::kFeaturePeerCopy) != 0;
    }
    if (agreed_.bursts) {
        sender_.allow_bursts();
    }
    if (agreed_.peer_copy) {
        peer_copy_.agree(connecting_ ? PeerCopyEnd::Side::kAdapter : PeerCopyEnd::Side::kSwitch);
    }
    training_.open();
    return {};
}

// ---- bursts

LinkResult LinkEndpoint::receive_burst(const Frame& frame) {
    if (!agreed_.bursts || !training_.has_peer()) {
        return failure(LinkError::kUnexpectedFrame,
                       agreed_.bursts ? "BURST before LINK" : "BURST not agreed on");
    }
    if ((frame.flags & link::kFlagOffer) == 0) [[likely]] {
        return delivery_.receive_burst(frame);
    }
    return peer_copy_.receive_offer(frame);
}

}  // namespace pib::link
