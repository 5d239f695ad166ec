// SPDX-License-Identifier: GPL-2.0-or-later
#include "fake_host.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace pib::hca::test {

bool FakeHost::reachable(uint64_t addr, size_t bytes, bool write) {
    if (!bus_master || fail_dma_after == 0) {
        return false;
    }
    if (fail_dma_after != UINT64_MAX) {
        fail_dma_after = fail_dma_after - 1;
    }
    return is_ram(addr, bytes, write);
}

uint8_t* FakeHost::ram(uint64_t bus_addr, uint64_t length) {
    ++ram_asked;
    const bool one_by_one = *before_dma || record_writes || fail_dma_after != UINT64_MAX;
    if (!direct || one_by_one || !bus_master || length == 0 || !is_ram(bus_addr, length, true)) {
        return nullptr;
    }
    return at(bus_addr);
}

void FakeHost::ram_written(uint64_t bus_addr, uint64_t length) {
    if (length == 0 || !is_ram(bus_addr, length, true)) {
        throw std::logic_error("FakeHost: written where there is no RAM");
    }
    note_written(bus_addr, length);
    ++ram_writes;
}

bool FakeHost::dma_read(uint64_t bus_addr, std::span<uint8_t> to) {
    if (*before_dma) {
        (*before_dma)(bus_addr, to.size(), false);
    }
    ++dma_reads;
    if (!reachable(bus_addr, to.size(), false)) {
        return false;
    }
    peek_bytes(bus_addr, to);
    return true;
}

bool FakeHost::dma_write(uint64_t bus_addr, std::span<const uint8_t> from) {
    if (*before_dma) {
        (*before_dma)(bus_addr, from.size(), true);
    }
    ++dma_writes;
    if (!reachable(bus_addr, from.size(), true)) {
        return false;
    }
    if (record_writes) {
        writes.push_back({bus_addr, from.size(), barriers});
    }
    poke_bytes(bus_addr, from);
    return true;
}

bool FakeHost::dma_cmpxchg64(uint64_t bus_addr, uint64_t& expected, uint64_t desired) {
    if (bus_addr % 8 != 0) {
        throw std::logic_error("dma_cmpxchg64 of an address that is not aligned");
    }
    if (*before_dma) {
        (*before_dma)(bus_addr, 8, true);
    }
    ++dma_writes;
    if (!reachable(bus_addr, 8, true)) {
        return false;
    }
    const auto old = peek<uint64_t>(bus_addr);
    if (old == expected) {
        poke(bus_addr, desired);
    }
    expected = old;
    return true;
}

void FakeHost::kicks(uint32_t uar, bool wanted) {
    if (wanted) {
        kicked_uars.insert(uar);
    } else {
        kicked_uars.erase(uar);
    }
}

void FakeHost::raise_msix(unsigned vector) {
    ++interrupts.at(vector);
}

size_t FakeHost::link_write(unsigned port, std::span<const std::span<const uint8_t>> parts) {
    Link& link = links.at(port);
    size_t taken = 0;
    for (const auto part : parts) {
        const size_t room = kLinkCapacity - link.sent.size();
        const size_t n = std::min(room, part.size());
        link.sent.insert(link.sent.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(n));
        taken += n;
        if (n < part.size()) {
            link.blocked = true;
            break;
        }
    }
    return taken;
}

void FakeHost::link_close(unsigned port) {
    Link& link = links.at(port);
    ++link.closes;
    link.sent.clear();
    link.blocked = false;
}

std::vector<uint8_t> FakeHost::take_link(unsigned port) {
    return std::exchange(links.at(port).sent, {});
}

void FakeHost::take_link(unsigned port, std::vector<uint8_t>& into) {
    into.clear();
    std::swap(links.at(port).sent, into);
}

void FakeHost::log(LogLevel level, std::string_view text) {
    if (level == LogLevel::kGuestError) {
        ++guest_errors;
        last_guest_error = text;
    } else if (level == LogLevel::kWarning) {
        warnings.emplace_back(text);
    }
}

uint64_t FakeHost::interrupt_count() const {
    return std::accumulate(interrupts.begin(), interrupts.end(), uint64_t{0});
}

}  // namespace pib::hca::test
