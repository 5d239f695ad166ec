// SPDX-License-Identifier: GPL-2.0-or-later
// Sparse guest RAM, as the guest's processor sees it, and the ranges that a device cannot reach.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace pib::hca::test {

class GuestRam {
  public:
    GuestRam();
    ~GuestRam();
    GuestRam(const GuestRam&) = delete;
    GuestRam& operator=(const GuestRam&) = delete;

    // From now on a new host takes over the memory of a destroyed host of the same thread, zeroed.
    // A program that makes thousands of hosts then has few page faults.
    static void reuse_memory();

    static constexpr uint64_t kPage = 4096;
    static constexpr uint64_t kRamBase = 0x10'0000;
    static constexpr uint64_t kRamSize = 1ull << 36;

    // Fresh zeroed memory; addresses are never given out twice.
    uint64_t alloc(uint64_t bytes, uint64_t alignment = kPage);
    void peek_bytes(uint64_t addr, std::span<uint8_t> to) const;
    void poke_bytes(uint64_t addr, std::span<const uint8_t> from);
    template <typename T>
    T peek(uint64_t addr) const {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        peek_bytes(addr, {reinterpret_cast<uint8_t*>(&value), sizeof value});
        return value;
    }
    template <typename T>
    void poke(uint64_t addr, const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        poke_bytes(addr, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
    }
    // Frees the host's memory of all allocations; they read as zero again.
    void forget_memory();

    // The bytes of the page at `addr`, as they are now and will be later.
    std::span<const uint8_t, kPage> page(uint64_t addr) const;
    // Whether the page at `addr` has been written since the last call: by poke_bytes(), or by a
    // device that reports it.
    bool take_written(uint64_t addr) {
        return std::exchange(written_[(addr - kRamBase) / kPage], false);
    }

  protected:
    void make_hole(uint64_t addr, uint64_t bytes) { holes_.push_back({addr, bytes}); }
    void make_read_only(uint64_t addr, uint64_t bytes) { roms_.push_back({addr, bytes}); }
    void heal() {
        holes_.clear();
        roms_.clear();
    }
    bool is_ram(uint64_t addr, uint64_t bytes, bool write) const;
    uint8_t* at(uint64_t addr) { return ram_ + (addr - kRamBase); }
    void note_written(uint64_t addr, uint64_t bytes);

  private:
    struct Range {
        uint64_t addr;
        uint64_t bytes;
    };

    // Mapping of guest RAM from kRamBase on. The kernel allocates a page at the first write to it.
    uint8_t* ram_;
    std::vector<Range> holes_;
    std::vector<Range> roms_;
    std::vector<uint8_t> written_;  // a flag for each page given out: it has been written
    uint64_t written_end_ = 0;      // offset behind the last byte that has been written
    uint64_t next_alloc_ = kRamBase;
};

}  // namespace pib::hca::test
