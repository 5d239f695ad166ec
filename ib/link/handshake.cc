// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/handshake.h"

#include <utility>

namespace pib::link {
namespace {

Features refuse(link::Refuse refusal, FrameChannel& channel) {
    (void)channel.send(refusal);  // the first frame of its direction: there is room
    return failure(LinkError::kRefused, std::move(refusal.text));
}

}  // namespace

Features answer_hello(const link::Frame& frame, FrameChannel& channel, LinkEvents& events) {
    const auto hello = link::Hello::parse(frame.body);
    if (!hello) {
        const bool version = hello.error() == FrameError::kVersion;
        return refuse({version ? RefuseReason::kVersion : RefuseReason::kMalformedHello,
                       version ? "this side speaks version 1 of the fabric link protocol"
                               : to_string(hello.error())},
                      channel);
    }
    auto answer = events.link_hello(*hello);
    if (!answer) {
        return refuse(std::move(answer.error()), channel);
    }
    (void)channel.send(*answer);  // the first frame of its direction: there is room
    return answer->features;
}

Features accept_welcome(const link::Frame& frame, uint32_t asked, LinkEvents& events) {
    const auto welcome = link::Welcome::parse(frame.body);
    if (!welcome) {
        return failure(welcome.error() == FrameError::kVersion ? LinkError::kVersion
                                                               : LinkError::kMalformedFrame,
                       to_string(welcome.error()));
    }
    constexpr uint32_t kOnRequest =
        link::kFeatureSharedMemory | link::kFeatureBursts | link::kFeaturePeerCopy;
    if ((welcome->features & ~asked & kOnRequest) != 0) {
        return failure(LinkError::kUnexpectedFrame, "WELCOME with a feature that HELLO lacks");
    }
    events.link_welcome(*welcome);
    return welcome->features;
}

LinkFailure accept_refusal(const link::Frame& frame, LinkEvents& events) {
    const auto refusal = link::Refuse::parse(frame.body);
    if (!refusal) {
        return {LinkError::kMalformedFrame, to_string(refusal.error())};
    }
    events.link_refused(*refusal);
    return {LinkError::kRefused, refusal->text};
}

}  // namespace pib::link
