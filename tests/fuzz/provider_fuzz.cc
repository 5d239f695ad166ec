// SPDX-License-Identifier: GPL-2.0-or-later
// The provider's queues with a hostile device, which writes any bytes into the queues' buffers and
// returns any numbers and limits. No other memory of the process may change.
#include <algorithm>
#include <iterator>

#include "fuzz_target.h"
#include "provider/lying_device.h"

namespace pib::fuzz {

namespace {

// An input: two bytes for honest limits and no shadow doorbell page, then the steps.
Bytes life(std::initializer_list<Bytes> steps) {
    Bytes all = {0, 0};
    for (const Bytes& step : steps) {
        std::ranges::copy(step, std::back_inserter(all));
    }
    return all;
}

}  // namespace

std::vector<Bytes> seeds() {
    const Bytes cq = {0, 0, 4, 1, 0};
    const Bytes second_cq = {0, 1, 4, 2, 0};
    const Bytes srq = {1, 0, 2, 1, 0, 0, 3, 0};
    const Bytes xrc_srq = {1, 1, 2, 1, 0, 1, 4, 0};
    const Bytes qp = {2, 0, 0, 1, 0, 0, 4, 4, 2, 2, 8, 1, 5, 0};
    const Bytes srq_qp = {2, 1, 0, 0, 0, 0, 4, 4, 2, 2, 8, 0, 6, 0};
    const Bytes ready = {20, 0, 1};
    const Bytes send = {7, 0, 4, 1, 1};
    const Bytes built = {8, 0, 1, 8};
    const Bytes poll = {9, 0, 7};
    const Bytes sent = {11, 0, 0, 5, 0, 0, 0, 0, 0};
    const Bytes taken = {11, 0, 0, 6, 0, 1, 0x80, 0x10, 0};
    const Bytes destroy_qp = {3, 0};
    return {
        life({cq, second_cq, qp, ready, send, built, sent, poll, destroy_qp, sent, poll}),
        life({cq, srq, srq_qp, {6, 0, 1}, taken, poll, {5, 1, 8}, {6, 0, 1}, taken, {9, 0, 6}}),
        life(
            {cq, xrc_srq, {6, 1, 1}, {11, 0, 0, 9, 4, 0, 0x80, 0x10, 0}, poll, {3, 5}, {10, 0, 1}}),
        life({cq, second_cq, qp, {11, 1, 0, 5, 0, 0, 0, 0, 0}, {5, 2, 16}, {4, 1, 64, 0, 4, 1, 2}}),
    };
}

void run(std::span<const uint8_t> input) {
    lying_device_run(input.data(), input.size());
}

}  // namespace pib::fuzz
