// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_ram.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace pib::hca::test {

namespace {

bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

bool in_ram(uint64_t addr, uint64_t bytes) {
    return addr >= GuestRam::kRamBase && addr - GuestRam::kRamBase <= GuestRam::kRamSize &&
           bytes <= GuestRam::kRamSize - (addr - GuestRam::kRamBase);
}

bool g_reuses = false;
// Mappings of destroyed hosts, zeroed, for new hosts.
thread_local std::vector<uint8_t*> t_spare;
constexpr uint64_t kMostZeroed = 64u << 20;  // zeroing more bytes takes longer than a new mapping
constexpr size_t kMostSpare = 8;

uint8_t* map_ram() {
    if (!t_spare.empty()) {
        uint8_t* const ram = t_spare.back();
        t_spare.pop_back();
        return ram;
    }
    void* const ram = ::mmap(nullptr, GuestRam::kRamSize, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ram == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return static_cast<uint8_t*>(ram);
}

}  // namespace

GuestRam::GuestRam() : ram_(map_ram()) {}

GuestRam::~GuestRam() {
    const uint64_t used = std::max(next_alloc_ - kRamBase, written_end_);
    if (g_reuses && used <= kMostZeroed && t_spare.size() < kMostSpare) {
        std::memset(ram_, 0, used);
        t_spare.push_back(ram_);
    } else {
        ::munmap(ram_, kRamSize);
    }
}

void GuestRam::reuse_memory() {
    g_reuses = true;
}

void GuestRam::forget_memory() {
    ::madvise(ram_, next_alloc_ - kRamBase, MADV_DONTNEED);
}

bool GuestRam::is_ram(uint64_t addr, uint64_t bytes, bool write) const {
    const auto hit = [&](const Range& r) { return overlaps(addr, bytes, r.addr, r.bytes); };
    return in_ram(addr, bytes) && std::ranges::none_of(holes_, hit) &&
           !(write && std::ranges::any_of(roms_, hit));
}

uint64_t GuestRam::alloc(uint64_t bytes, uint64_t alignment) {
    next_alloc_ = (next_alloc_ + alignment - 1) / alignment * alignment;
    const uint64_t addr = next_alloc_;
    next_alloc_ += bytes;
    if (next_alloc_ - kRamBase > kRamSize) {
        throw std::logic_error("GuestRam: out of guest RAM");
    }
    written_.resize((next_alloc_ - kRamBase + kPage - 1) / kPage);
    return addr;
}

// The test's own accesses: an address outside of RAM is a mistake of the test.
void GuestRam::peek_bytes(uint64_t addr, std::span<uint8_t> to) const {
    if (!in_ram(addr, to.size())) {
        throw std::logic_error("GuestRam: peek outside of guest RAM");
    }
    std::copy_n(ram_ + (addr - kRamBase), to.size(), to.begin());
}

void GuestRam::poke_bytes(uint64_t addr, std::span<const uint8_t> from) {
    if (!in_ram(addr, from.size())) {
        throw std::logic_error("GuestRam: poke outside of guest RAM");
    }
    if (!from.empty()) {
        std::memcpy(ram_ + (addr - kRamBase), from.data(), from.size());
        note_written(addr, from.size());
    }
}

std::span<const uint8_t, GuestRam::kPage> GuestRam::page(uint64_t addr) const {
    if (addr % kPage != 0 || !in_ram(addr, kPage)) {
        throw std::logic_error("GuestRam: no page of guest RAM");
    }
    return std::span<const uint8_t, kPage>(ram_ + (addr - kRamBase), kPage);
}

// Memory that has not been given out has no flags.
void GuestRam::note_written(uint64_t addr, uint64_t bytes) {
    written_end_ = std::max(written_end_, addr - kRamBase + bytes);
    const uint64_t end =
        std::min<uint64_t>(written_.size(), (addr - kRamBase + bytes + kPage - 1) / kPage);
    for (uint64_t i = (addr - kRamBase) / kPage; i < end; ++i) {
        written_[i] = true;
    }
}

}  // namespace pib::hca::test
