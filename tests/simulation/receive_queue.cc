// SPDX-License-Identifier: GPL-2.0-or-later
#include "receive_queue.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "violation.h"

namespace pib::simulation {
namespace {

constexpr uint8_t kUntouched = 0xe7;
constexpr uint32_t kFirstSge = 100;  // bytes of the first of two SGEs

}  // namespace

ReceiveQueue::ReceiveQueue(test::Guest& guest, uint32_t pd, Kind kind, std::string name)
    : guest_(guest),
      kind_(kind),
      name_(std::move(name)),
      mr_(guest.driver.create_mr(pd, uint64_t{kDepth} * kSlotBytes, PIB_HCA_ACCESS_LOCAL_WRITE)) {
    restart();
}

void ReceiveQueue::post(uint32_t count, const Post& post) {
    static const Bytes untouched(kSlotBytes, kUntouched);
    for (; count != 0 && !free_.empty(); --count) {
        const unsigned slot = free_.back();
        const uint64_t offset = uint64_t{slot} * kSlotBytes;
        free_.pop_back();
        slots_.emplace(next_id_, slot);
        mr_.memory.write(offset, untouched);
        const std::array sges = {
            hca::test::MiniDriver::sge(mr_, offset, kFirstSge),
            hca::test::MiniDriver::sge(mr_, offset + kFirstSge, kSlotBytes - kFirstSge)};
        post(sges, next_id_++);
    }
}

// Ends the work request of the completion, and returns its slot.
unsigned ReceiveQueue::slot_of(const pib_hca_cqe& cqe) {
    const auto found = slots_.find(cqe.wqe_counter);
    const auto text = [&] { return name_ + ", receive " + std::to_string(cqe.wqe_counter); };
    require(found != slots_.end(), text, " is not there");
    require(kind_ == Kind::kShared || found == slots_.begin(), text, " is out of order");
    const unsigned slot = found->second;
    slots_.erase(found);
    free_.push_back(slot);
    return slot;
}

Bytes ReceiveQueue::take(const pib_hca_cqe& cqe) {
    const unsigned slot = slot_of(cqe);
    const uint32_t skipped = kind_ == Kind::kDatagrams ? kGrhBytes : 0;
    require(cqe.byte_count >= skipped && cqe.byte_count <= kSlotBytes, name_,
            ": a message has more bytes than its slot, or fewer than a GRH");
    if (kind_ != Kind::kMessages) {
        check_rest(slot, cqe.byte_count, kSlotBytes);
    }
    if ((cqe.flags & PIB_HCA_CQE_FLAG_GRH) == 0) {
        check_rest(slot, 0, skipped);
    }
    Bytes data(cqe.byte_count - skipped);
    mr_.memory.read(uint64_t{slot} * kSlotBytes + skipped, data);
    return data;
}

void ReceiveQueue::drop(const pib_hca_cqe& cqe) {
    slot_of(cqe);
}

void ReceiveQueue::restart() {
    slots_.clear();
    free_.resize(kDepth);
    std::iota(free_.begin(), free_.end(), 0u);
    next_id_ = in_flight = 0;
}

void ReceiveQueue::restore(uint32_t pd) {
    restart();
    guest_.driver.register_mr(
        mr_,
        {.pd = pd, .access = PIB_HCA_ACCESS_LOCAL_WRITE, .bytes = uint64_t{kDepth} * kSlotBytes});
}

void ReceiveQueue::destroy_key() {
    guest_.driver.destroy(PIB_HCA_CMD_DESTROY_MR, mr_.key);
}

void ReceiveQueue::check_untouched() const {
    for (const auto& [id, slot] : slots_) {
        if (kind_ != Kind::kMessages) {
            check_rest(slot, 0, kSlotBytes);
        }
    }
}

// Checks that the device has not written these bytes of the slot.
void ReceiveQueue::check_rest(unsigned slot, uint32_t from, uint32_t to) const {
    Bytes rest(to - from);
    mr_.memory.read(uint64_t{slot} * kSlotBytes + from, rest);
    require(std::ranges::all_of(rest, [](uint8_t byte) { return byte == kUntouched; }), name_,
            ": bytes outside of a message have changed");
}

}  // namespace pib::simulation
