// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/forwarding.h"

#include <algorithm>

#include "ib/wire/field.h"

namespace pib::fabric {
namespace {

constexpr unsigned kPortsPerPosition = 16;

}  // namespace

bool LinearForwardingTable::read_block(uint32_t block, Block out) const {
    const size_t first = size_t{block} * out.size();
    if (first >= ports_.size()) {
        return false;
    }
    std::ranges::fill(out, kNoPort);
    const size_t count = std::min(out.size(), ports_.size() - first);
    for (size_t i = 0; i < count; ++i) {
        out[i] = ports_[first + i];
    }
    return true;
}

bool LinearForwardingTable::write_block(uint32_t block, ConstBlock in) {
    const size_t first = size_t{block} * in.size();
    if (first >= ports_.size()) {
        return false;
    }
    const size_t count = std::min(in.size(), ports_.size() - first);
    for (size_t i = 0; i < count; ++i) {
        changes_ += ports_[first + i] != in[i];
        ports_.set(first + i, in[i]);
    }
    return true;
}

std::optional<PortMask> MulticastForwardingTable::ports(ib::Lid dlid) const {
    const unsigned index = dlid.value() - ib::Lid::kMulticastFirst;
    const bool past_top = top_ != 0 && dlid.value() > top_;
    if (!dlid.is_multicast() || past_top || masks_[index] == 0) {
        return std::nullopt;
    }
    return masks_[index];
}

bool MulticastForwardingTable::read_block(uint32_t block, unsigned position, Block out) const {
    if (!in_table(block, position)) {
        return false;
    }
    std::ranges::fill(out, uint8_t{0});
    const size_t first = block * ib::kMftEntriesPerBlock;
    const size_t count = std::min(ib::kMftEntriesPerBlock, masks_.size() - first);
    for (size_t i = 0; i < count; ++i) {
        const PortMask ports = masks_[first + i] >> (position * kPortsPerPosition);
        ib::store_be(&out[2 * i], static_cast<uint16_t>(ports));
    }
    return true;
}

bool MulticastForwardingTable::write_block(uint32_t block, unsigned position, ConstBlock in) {
    if (!in_table(block, position)) {
        return false;
    }
    const size_t first = block * ib::kMftEntriesPerBlock;
    const size_t count = std::min(ib::kMftEntriesPerBlock, masks_.size() - first);
    const unsigned shift = position * kPortsPerPosition;
    for (size_t i = 0; i < count; ++i) {
        const PortMask ports = PortMask{ib::load_be<uint16_t>(&in[2 * i])} << shift;
        masks_.set(first + i, (masks_[first + i] & ~(PortMask{0xFFFF} << shift)) | ports);
    }
    return true;
}

}  // namespace pib::fabric
