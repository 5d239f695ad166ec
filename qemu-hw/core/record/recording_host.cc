// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording_host.h"

namespace pib::hca::record {

bool RecordingHost::dma_read(uint64_t bus_addr, std::span<uint8_t> to) {
    const DmaPurpose purpose = take_purpose();
    recorder_.check().call(Call::kRead, bus_addr, to.size());
    if (!host_.dma_read(bus_addr, to)) {
        recorder_.answer(Tag::kReadFailed, uint64_t{to.size()});
        return false;
    }
    if (recorder_.keeps(purpose, to.size())) {
        recorder_.answer(Tag::kRead, std::span<const uint8_t>(to));
    } else {
        recorder_.answer(Tag::kReadPayload, uint64_t{to.size()});
    }
    return true;
}

bool RecordingHost::dma_write(uint64_t bus_addr, std::span<const uint8_t> from) {
    const DmaPurpose purpose = take_purpose();
    recorder_.check().dma_write(bus_addr, from, purpose);
    const bool done = host_.dma_write(bus_addr, from);
    recorder_.answer(done ? Tag::kWritten : Tag::kWriteFailed);
    return done;
}

bool RecordingHost::dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) {
    purpose_ = DmaPurpose::kOther;
    recorder_.check().call(Call::kSwap, bus_addr, desired);
    if (!host_.dma_cmpxchg64(bus_addr, expected, desired)) {
        recorder_.answer(Tag::kSwapFailed);
        return false;
    }
    recorder_.answer(Tag::kSwapped, uint64_t{expected});
    return true;
}

void RecordingHost::raise_msix(unsigned vector) {
    recorder_.check().call(Call::kInterrupt, vector);
    host_.raise_msix(vector);
}

VectorState RecordingHost::vector_state(unsigned vector) {
    const VectorState state = host_.vector_state(vector);
    recorder_.answer(Tag::kVector, static_cast<uint64_t>(state));
    return state;
}

uint64_t RecordingHost::now_ns() {
    const uint64_t now = host_.now_ns();
    recorder_.clock(now);
    return now;
}

uint64_t RecordingHost::real_ns() {
    const uint64_t now = host_.real_ns();
    recorder_.answer(Tag::kRealClock, now);
    return now;
}

void RecordingHost::set_timer(uint64_t deadline_ns) {
    recorder_.check().call(Call::kTimer, deadline_ns);
    host_.set_timer(deadline_ns);
}

void RecordingHost::kicks(uint32_t uar, bool wanted) {
    recorder_.check().call(Call::kKicks, uar, wanted);
    host_.kicks(uar, wanted);
}

void RecordingHost::wake() {
    recorder_.check().call(Call::kWake);
    host_.wake();
}

void RecordingHost::link_wake(unsigned port) {
    recorder_.check().call(Call::kLinkWake, port);
    host_.link_wake(port);
}

size_t RecordingHost::link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) {
    size_t bytes = 0;
    for (const auto& part : parts) {
        bytes += part.size();
    }
    recorder_.check().call(Call::kLinkWrite, port, bytes);
    const size_t taken = host_.link_write(port, parts);
    recorder_.answer(Tag::kLinkTaken, uint64_t{taken});
    return taken;
}

void RecordingHost::link_close(unsigned port) {
    recorder_.check().call(Call::kLinkClose, port);
    host_.link_close(port);
}

void RecordingHost::link_kick(unsigned port) {
    recorder_.check().call(Call::kLinkKick, port);
    host_.link_kick(port);
}

}  // namespace pib::hca::record
