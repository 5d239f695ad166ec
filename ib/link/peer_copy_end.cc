// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/peer_copy_end.h"

#include <utility>

#include "ib/wire/link_frame.h"

namespace pib::link {

void PeerCopyEnd::agree(Side side) {
    side_ = side;
    parts_.credits.enlarge(side == Side::kAdapter ? kAdapterBlocks : kSwitchBlocks);
}

void PeerCopyEnd::share(uint8_t* control_memory, std::span<const uint64_t> blocks) {
    if (side_ != Side::kAdapter || memory_passed_ || !parts_.training.is_open() ||
        !parts_.channel.send_on_stream(link::Memory{{blocks.begin(), blocks.end()}})) {
        return;
    }
    memory_passed_ = true;
    adapter_ = std::make_unique<PeerCopyAdapter>(parts_, control_memory, blocks);
}

LinkResult PeerCopyEnd::receive_memory(const Frame& frame) {
    if (side_ != Side::kSwitch || memory_passed_) {
        return failure(LinkError::kUnexpectedFrame,
                       memory_passed_ ? "a second MEMORY" : "MEMORY not agreed on");
    }
    memory_passed_ = true;
    auto made = PeerCopySwitch::create(
        frame, {parts_.credits, parts_.training, parts_.delivery, parts_.events});
    if (!made) {
        return std::unexpected(std::move(made.error()));
    }
    switch_ = std::move(*made);
    return {};
}

LinkResult PeerCopyEnd::receive_offer(const Frame& frame) {
    if (adapter_) {
        return adapter_->receive_offer(frame);
    }
    return switch_ ? switch_->receive_offer(frame)
                   : failure(LinkError::kUnexpectedFrame, "offer without MEMORY");
}

LinkResult PeerCopyEnd::receive_pull(const Frame& frame) {
    return switch_ ? switch_->receive_pull(frame)
                   : failure(LinkError::kUnexpectedFrame, "PULL without MEMORY");
}

size_t PeerCopyEnd::proceed() {
    const size_t bytes = adapter_->frame_bytes();
    adapter_->proceed();
    return bytes;
}

}  // namespace pib::link
