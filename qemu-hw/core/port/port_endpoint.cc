// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/port_endpoint.h"

#include <algorithm>
#include <string>
#include <utility>

namespace pib::hca {

namespace {

// Receive buffer granted to the peer for each VL, in blocks of 64 bytes: 256 KiB. Packets are
// handled as they arrive, so this only bounds the packets in transit.
constexpr uint32_t kReceiveBlocks = 4096;
// A batch of this many bytes is sent at once, before the end of the device's entry point.
constexpr size_t kLargeBatch = 64 * 1024;
// Shared memory: bytes of the ring that one poll() handles before it returns.
constexpr size_t kPollBytes = 128 * 1024;
// poll() handles the ring in steps of this many bytes, and counts copied bytes after each step.
constexpr size_t kPollStep = 4 * 1024;
// In a turn, a LINK frame from the stream counts as this many bytes, like a LINK frame from the
// ring.
constexpr uint64_t kWorkOfTraining = 16 * 1024;
// Like kLargeBatch, for output to shared memory.
constexpr size_t kLargeRingBatch = 32 * 1024;

link::LinkEndpoint::Buffers buffers(uint8_t vl_cap) {
    link::LinkEndpoint::Buffers sizes;
    std::fill_n(sizes.receive_blocks.begin(), link::data_vls(vl_cap), kReceiveBlocks);
    return sizes;
}

}  // namespace

void PortEndpoint::connected(const link::Hello& hello, const link::Link& parameters) {
    closed();
    endpoint_.emplace(hello, buffers(parameters.vl_cap), static_cast<link::LinkEvents&>(*this));
    endpoint_->training().set_parameters(parameters);
    flush();
}

uint64_t PortEndpoint::received(std::span<const uint8_t> bytes) {
    if (!endpoint_) {
        return 0;
    }
    const unsigned before = trainings_;
    if (const auto fed = feed(*endpoint_, bytes); !fed) {
        fail(fed.error());
    }
    return (trainings_ - before) * kWorkOfTraining;
}

bool PortEndpoint::poll() {
    for (uint64_t done = 0; endpoint_ && done < kPollBytes;) {
        const auto more = endpoint_->receive(kPollStep);
        if (!more) {
            fail(more.error());
            return false;
        }
        done += kPollStep + owner_.take_copied();
        if (!*more) {
            return false;
        }
    }
    return endpoint_.has_value();
}

void PortEndpoint::writable() {
    blocked_ = false;
    flush();
}

void PortEndpoint::closed() {
    if (endpoint_) {
        endpoint_->training().close();
        endpoint_.reset();
        owner_.link_gone();
    }
    rings_.reset();
    blocked_ = false;
}

void PortEndpoint::fail(const link::LinkFailure& failure) {
    std::string text = "port " + std::to_string(port_) +
                       ": fabric link closed: " + link::to_string(failure.error) + ": " +
                       failure.text;
    if (text != last_warning_) {
        host_.log(LogLevel::kWarning, text);
        last_warning_ = std::move(text);
    }
    closed();
    host_.link_close(port_);
}

void PortEndpoint::abandon(const char* why) {
    host_.log(LogLevel::kWarning, "port " + std::to_string(port_) + ": fabric link closed: " + why);
    closed();
    host_.link_close(port_);
}

void PortEndpoint::link_copy_refused() {
    if (!std::exchange(refusal_told_, true)) {
        host_.log(LogLevel::kWarning, "port " + std::to_string(port_) +
                                          ": the switch refuses to copy into guest memory; "
                                          "messages are sent again");
    }
}

void PortEndpoint::set_parameters(const link::Link& parameters) {
    if (endpoint_) {
        endpoint_->training().set_parameters(parameters);
    }
}

void PortEndpoint::retrain(const link::Link& parameters) {
    if (!endpoint_) {
        return;
    }
    const unsigned before = trainings_;
    endpoint_->training().set_parameters(parameters);
    if (before == trainings_ && endpoint_->is_up()) {
        endpoint_->training().retrain();
    }
}

void PortEndpoint::link_up(const link::ActiveLink& link) {
    last_warning_.clear();
    owner_.link_up(link);
}

void PortEndpoint::link_down() {
    ++trainings_;
    owner_.link_down();
}

// Releases the receive buffer of the packets taken. The buffer of an offer is released after the
// pull of its payload.
uint32_t PortEndpoint::link_burst(ib::Burst& burst, ib::Placement& payload) {
    const uint32_t taken = owner_.link_burst(burst, payload);
    if (endpoint_ && taken != 0 && !payload.is_offered()) {
        endpoint_->release(burst.lrh().vl.value(), link::burst_blocks(burst, 0, taken));
    }
    return taken;
}

link::BurstRoom PortEndpoint::begin(const link::BurstRequest& request) {
    if (!endpoint_) {
        return {};
    }
    const auto room = endpoint_->begin(request);
    if (room.packets != 0 || blocked_ || request.is_offer) {
        return room;
    }
    flush();
    return endpoint_->begin(request);
}

void PortEndpoint::commit(const ib::BurstSize& size, const link::OfferedPayload& offered) {
    endpoint_->commit(size, offered);
    if (endpoint_->output().size() >= kLargeBatch ||
        endpoint_->channel().unpublished() >= kLargeRingBatch) {
        flush();
    }
}

void PortEndpoint::flush() {
    while (endpoint_ && !blocked_ && !endpoint_->output().empty()) {
        const std::span<const uint8_t> output = endpoint_->output();
        const size_t taken = host_.link_write(port_, {&output, 1});
        endpoint_->consume_output(std::min(taken, output.size()));
        blocked_ = taken < output.size();
    }
    if (!endpoint_) {
        return;
    }
    if (endpoint_->channel().publish()) {
        host_.link_kick(port_);
    }
    // Wakes the port's own thread: only its poll() uses the room, and the caller may be the thread
    // of another port.
    if (endpoint_->channel().room_is_back()) {
        host_.link_wake(port_);
    }
}

}  // namespace pib::hca
